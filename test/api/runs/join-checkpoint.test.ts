/** A client that shows the state of a checkpoint already joins the run behind it (docs/spec/streams.md#join). */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type Cluster, startCluster } from '../../helpers/cluster.js'
import { lines } from '../../helpers/sdk.js'
import { type Frame, readStream } from '../../helpers/sse.js'
import { until } from '../../helpers/until.js'

t.setTimeout(120_000)

/** Each step says that it begins, and ends when its file is there. */
const GRAPH = `
import { existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { Annotation, END, START, StateGraph } from '@langchain/langgraph'

const list = { reducer: (old, more) => [...old, ...more], default: () => [] }
export const gated = new StateGraph(Annotation.Root({ gate: Annotation(), steps: Annotation(list) }))
  .addNode('step', async ({ gate, steps }, { writer }) => {
    const step = steps.length + 1
    writer({ begins: step })
    while (!existsSync(gate + step)) await sleep(10)
    return { steps: [step] }
  })
  .addEdge(START, 'step')
  .addConditionalEdges('step', ({ steps }) => (steps.length < 4 ? 'step' : END))
  .compile()
`
const folder = t.testdir({
  'langgraph.json': JSON.stringify({ graphs: { gated: './graph.mjs:gated' } }),
  'graph.mjs': GRAPH,
})
let cluster: Cluster
t.before(async () => {
  cluster = await startCluster({ app: folder })
})
t.teardown(() => cluster.stop())

const FOREIGN = '1f0a5b1e-0000-6000-8000-000000000000'
const BEGINS_3 = 'custom {"begins":3}'
const bodyOf = (frame?: Frame) => `${frame?.event} ${frame?.data}`

/** A run that waits in its third step, and its checkpoints, the newest first. */
async function heldRun(t: Test, name: string, streamResumable: boolean) {
  const client = lines[0]!.connect(cluster.url)
  const gate = join(folder, `${name}-`)
  const open = (...steps: number[]) => {
    for (const step of steps) writeFileSync(gate + step, '')
  }
  const { thread_id } = await client.threads.create()
  const { run_id } = await client.runs.create(thread_id, 'gated', {
    input: { gate },
    streamMode: ['values', 'updates', 'custom'],
    streamResumable,
  })
  const url = `${cluster.url}/threads/${thread_id}/runs/${run_id}/stream`
  open(1, 2)
  // metadata, the input, three events of each step, and the beginning of the third one.
  const { frames } = await readStream(url, { headers: { 'last-event-id': '-1' }, stopAfter: 9 })
  t.equal(bodyOf(frames.at(-1)), BEGINS_3)
  const history = await until(async () => {
    const states = await client.threads.getHistory<{ steps?: number[] }>(thread_id)
    return states[0]?.values.steps?.length === 2 && states
  })
  return { client, thread_id, run_id, url, open, history }
}

/** A join, and whether its first event has come. */
function joined(url: string, checkpoint: string, last_event_id = '-1') {
  const join = { hasBegun: false, frames: Promise.resolve<Frame[]>([]) }
  join.frames = readStream(`${url}?checkpoint_id=${checkpoint}`, {
    headers: { 'last-event-id': last_event_id },
    onFrame: () => (join.hasBegun = true),
  }).then(({ frames }) => frames)
  return join
}

t.test('the stream begins behind the checkpoint, whichever of the run it is', async t => {
  const { client, thread_id, run_id, url, open, history } = await heldRun(t, 'resumable', true)
  const ids = history.map(({ checkpoint }) => checkpoint.checkpoint_id!)
  t.equal(ids.length, 4, 'the input, the first step, and two steps more')
  const joins = ids.map(id => joined(url, id))
  const events: string[] = []
  const viaSdk = (async () => {
    const options = { lastEventId: '-1', checkpointId: ids[0]! }
    for await (const { event, data } of client.runs.joinStream(thread_id, run_id, options))
      events.push(`${event} ${JSON.stringify(data)}`)
  })()
  const others = [joined(url, FOREIGN), joined(url, ''), joined(url, `${'x'.repeat(2_000)}%00`)]
  const byCursor = joined(url, ids[0]!, '2')
  await until(() => events.length > 0 && [...joins, ...others, byCursor].every(({ hasBegun }) => hasBegun))
  open(3, 4)
  const whole = (await readStream(url, { headers: { 'last-event-id': '-1' } })).frames
  const [newest, second, first, input] = await Promise.all(joins.map(({ frames }) => frames))
  t.equal(bodyOf(newest![0]), BEGINS_3, 'the newest: nothing of the steps before')
  t.same(newest, whole.slice(8))
  t.same(second, whole.slice(5))
  t.same(first, whole.slice(2))
  t.equal(bodyOf(input![0]), bodyOf(whole[1]), 'that of the input: all that the graph has sent')
  await viaSdk
  t.same(events, newest!.map(bodyOf))
  for (const { frames } of others) t.same(await frames, whole, 'none of the run: all of it')
  t.same(await byCursor.frames, whole.slice(3), 'an id of an event says more')
  t.same(await joined(url, ids[0]!).frames, whole, 'the run has ended: all of it')
})

t.test('all of a run that is not resumable', async t => {
  const { url, open, history } = await heldRun(t, 'plain', false)
  const join = joined(url, history[0]!.checkpoint.checkpoint_id!)
  await until(() => join.hasBegun)
  open(3, 4)
  const whole = (await readStream(url, { headers: { 'last-event-id': '-1' } })).frames
  t.same(await join.frames, whole)
})
