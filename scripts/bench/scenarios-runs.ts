/** Runs whose result the client waits for. */
import { requestText } from './http.js'
import { closedLoop } from './load.js'
import type { Bench, Scenario } from './scenario.js'
import { askJson, createThread } from './scenarios-resources.js'
import { check, shown } from './wrong.js'

const CLIENTS = 64
const STEPS = 4

export const RUNS: readonly Scenario[] = [
  { ...runs('run-wait', 'POST /runs/wait, a graph of one node', 800, 'invoke'), host: 'invoke', run: stateless },
  {
    ...runs('run-wait-thread', 'POST /threads/{id}/runs/wait, the same graph with checkpoints', 500, 'invoke-saver'),
    run: bench => onThreads(bench, 'echo'),
  },
  {
    ...runs('run-wait-steps', `the same, a graph of ${STEPS} steps with a checkpoint each`, undefined, 'steps-saver'),
    run: bench => onThreads(bench, 'steps'),
  },
  {
    ...runs('run-wait-pools', 'POST /runs/wait, a graph of each pool in turn', undefined, undefined),
    pools: true,
    run: overPools,
  },
]

function runs(name: string, what: string, target: number | undefined, limit: Scenario['limit']): Omit<Scenario, 'run'> {
  return { name, what, unit: '/s', better: 'more', per: 'run', ...(target && { target }), ...(limit && { limit }) }
}

const loopOf = ({ server, warm, seconds, meter, quick }: Bench) => ({
  port: server.port,
  clients: quick ? 8 : CLIENTS,
  warm,
  seconds,
  meter,
})

interface Values {
  text?: string
  seen?: string
  done?: number
}

async function stateless(bench: Bench) {
  const { perSecond, latency, count } = await closedLoop(loopOf(bench), async ({ connection }, n) => {
    const text = `text ${n}`
    const values = await askJson<Values>(
      connection,
      requestText('POST', '/runs/wait', { assistant_id: 'echo', input: { text } }),
    )
    check(values.text === text && values.seen === text, () => `"${text}" should have come back: ${shown(values)}`)
  })
  return { value: perSecond, latency, operations: count }
}

async function overPools(bench: Bench) {
  const graphs = bench.server.poolGraphs ?? []
  const { perSecond, latency, count } = await closedLoop(loopOf(bench), async ({ connection }, n) => {
    const input = { text: `text ${n}` }
    const assistant_id = graphs[n % graphs.length]
    const values = await askJson<Values>(connection, requestText('POST', '/runs/wait', { assistant_id, input }))
    check(values.seen === input.text, () => `"${input.text}" should have come back: ${shown(values)}`)
  })
  return { value: perSecond, latency, operations: count }
}

/** Each client runs repeatedly on its own thread: `steps` shows that each run starts where the last one ended. */
async function onThreads(bench: Bench, graph: 'echo' | 'steps') {
  const paths: string[] = []
  const done: number[] = []
  const loop = {
    ...loopOf(bench),
    async prepare({ index, connection }: { index: number; connection: Parameters<typeof createThread>[0] }) {
      const { thread_id } = await createThread(connection, index)
      paths[index] = `/threads/${thread_id}/runs/wait`
      done[index] = 0
    },
  }
  const { perSecond, latency, count } = await closedLoop(loop, async ({ index, connection }, n) => {
    const input = graph === 'echo' ? { text: `text ${n}` } : { count: STEPS }
    const values = await askJson<Values>(connection, requestText('POST', paths[index]!, { assistant_id: graph, input }))
    if (graph === 'echo')
      check(values.seen === `text ${n}`, () => `"text ${n}" should have come back: ${shown(values)}`)
    else {
      done[index]! += STEPS
      check(values.done === done[index], () => `the state should say done: ${done[index]}: ${shown(values)}`)
    }
  })
  return { value: perSecond, latency, operations: count }
}
