/** Child of limit.ts: invokes one graph of the bench application in a closed loop and reports the rate. */
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { MemorySaver } from '@langchain/langgraph'
import { v7 } from 'uuid'
import type { LimitAnswer, LimitKind, LimitOrder } from './limit.js'
import { spreadOf } from './load.js'
import { check } from './wrong.js'

interface Graph {
  checkpointer?: unknown
  invoke(input: unknown, config?: unknown): Promise<{ seen?: string; done?: number }>
  stream(input: unknown, config?: unknown): Promise<AsyncIterable<unknown>>
}
type Graphs = { [name in 'echo' | 'custom' | 'steps' | 'chat']: Graph }

/** One operation. Calls `unit` for each completed unit; may return its latency in ms. */
type Work = (client: number, n: number, unit: () => void) => Promise<number | undefined>

const CLIENTS: { [kind in LimitKind]: number } = {
  invoke: 64,
  'invoke-saver': 64,
  'steps-saver': 64,
  'first-event': 1,
  'first-event-16': 16,
  tokens: 16,
  custom: 50,
}

function workOf(kind: LimitKind, { echo, custom, steps, chat }: Graphs): Work {
  const threads = Array.from({ length: CLIENTS[kind] }, () => v7())
  const configOf = (client: number) => ({ configurable: { thread_id: threads[client] } })
  if (kind === 'invoke' || kind === 'invoke-saver') {
    if (kind === 'invoke-saver') echo.checkpointer = new MemorySaver()
    return async (client, n, unit) => {
      const { seen } = await echo.invoke({ text: `text ${n}` }, configOf(client))
      check(seen === `text ${n}`, 'another text came back')
      unit()
      return undefined
    }
  }
  if (kind === 'steps-saver') {
    steps.checkpointer = new MemorySaver()
    const done = threads.map(() => 0)
    return async (client, _, unit) => {
      done[client]! += 4
      check((await steps.invoke({ count: 4 }, configOf(client))).done === done[client], 'another state came back')
      unit()
      return undefined
    }
  }
  if (kind === 'tokens' || kind === 'custom') {
    const [graph, count, streamMode] = kind === 'tokens' ? [chat, 100, 'messages'] : [custom, 1_000, 'custom']
    const input = kind === 'tokens' ? { messages: [{ role: 'user', content: '100' }] } : { count }
    return async (_client, _n, unit) => {
      let units = 0
      for await (const _ of await graph.stream(input, { streamMode })) {
        units++
        unit()
      }
      check(units === count, `${units} of ${count} came`)
      return undefined
    }
  }
  return async (_, n, unit) => {
    const since = performance.now()
    let latency: number | undefined
    for await (const _ of await echo.stream({ text: `text ${n}` }, { streamMode: 'updates' }))
      latency ??= performance.now() - since
    unit()
    return latency
  }
}

async function measure({ kind, app, warm, seconds }: LimitOrder): Promise<LimitAnswer> {
  const graphs = (await import(pathToFileURL(join(app, 'graphs.mjs')).href)) as Graphs
  const work = workOf(kind, graphs)
  const samples: number[] = []
  let units = 0
  let n = 0
  const from = performance.now() + warm * 1000
  let to = from + seconds * 1000
  let cpu: NodeJS.CpuUsage | null = null
  /** Not a timer: a graph that never waits would never let it fire. */
  const counts = (now: number) => {
    if (now < from) return false
    // A window without a completed operation has no value, so it lasts until the first one.
    if (now > to && units === 0) to = now
    if (now > to) return false
    cpu ??= process.cpuUsage()
    return true
  }
  const unit = () => {
    if (counts(performance.now())) units++
  }
  const clients = Array.from({ length: CLIENTS[kind] }, async (_, client) => {
    for (let since = performance.now(); since < to || units === 0; since = performance.now()) {
      const latency = await work(client, n++, unit)
      const now = performance.now()
      if (counts(now)) samples.push(latency ?? now - since)
    }
  })
  await Promise.all(clients)
  check(cpu !== null, 'nothing was done within the window')
  const { user, system } = process.cpuUsage(cpu)
  return {
    perSecond: (units / (to - from)) * 1000,
    latency: spreadOf(samples),
    cpu: (user + system) / 1e6,
    count: units,
  }
}

process.once('message', order => {
  measure(order as LimitOrder).then(
    answer => process.send!(answer),
    error => {
      console.error(error)
      process.exit(1)
    },
  )
})
process.once('disconnect', () => process.exit(0))
