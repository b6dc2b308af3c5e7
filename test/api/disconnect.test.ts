/** The fate of a run whose client disconnects (docs/spec/streams.md#join). */
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { startCluster } from '../helpers/cluster.js'
import { lines } from '../helpers/sdk.js'
import { stepLogs } from '../helpers/steps.js'

t.setTimeout(220_000)
/** Longer than a busy machine needs to detect a cut connection. */
const GRACE_MS = 2_000
/** Together they are longer than the grace period. */
const STEPS = 150
const STEP_MS = 20
const AT_ONCE = 4

const cancels = { on_disconnect: 'cancel' }
const goesOn = { on_disconnect: 'continue' }
const resumable = { stream_resumable: true }
// Route, payload, action of the client after the disconnect, and whether the run reaches its end.
const rows: [path: string, body: object, then: 'leaves' | 'comes back', ends: 'finished' | 'cancelled'][] = [
  ['/runs/stream', {}, 'leaves', 'cancelled'],
  ['/runs/stream', cancels, 'leaves', 'cancelled'],
  ['/runs/stream', goesOn, 'leaves', 'finished'],
  ['/runs/stream', { ...resumable }, 'leaves', 'cancelled'],
  ['/runs/stream', { ...resumable }, 'comes back', 'finished'],
  ['/runs/stream', { ...resumable, ...goesOn }, 'leaves', 'finished'],
  ['/runs/wait', {}, 'leaves', 'finished'],
  ['/runs/wait', cancels, 'leaves', 'cancelled'],
  ['/threads/T/runs/stream', {}, 'leaves', 'finished'],
  ['/threads/T/runs/stream', goesOn, 'leaves', 'finished'],
  ['/threads/T/runs/stream', cancels, 'leaves', 'cancelled'],
  ['/threads/T/runs/stream', { ...resumable, ...cancels }, 'leaves', 'cancelled'],
  ['/threads/T/runs/stream', { ...resumable, ...cancels }, 'comes back', 'finished'],
  ['/threads/T/runs/wait', {}, 'leaves', 'finished'],
  ['/threads/T/runs/wait', cancels, 'leaves', 'cancelled'],
]

t.test('a client that disconnects', async t => {
  // Each has a separate thread and log, and waits most of its time.
  t.jobs = AT_ONCE
  const cluster = await startCluster({
    app: 'test/apps/faults',
    env: { WEFT_DISCONNECT_GRACE_MS: String(GRACE_MS) },
  })
  const logs = stepLogs()
  t.teardown(async () => {
    await cluster.stop()
    logs.remove()
  })
  const client = lines[0]!.connect(cluster.url)
  const steps = (file: string) => ({
    assistant_id: 'steps',
    input: { log: file, steps: STEPS, ms: STEP_MS },
    config: { recursion_limit: 1_000 },
  })
  const open = async (path: string, body?: object) => {
    const connection = new AbortController()
    const response = await fetch(`${cluster.url}${path}`, {
      signal: connection.signal,
      ...(body === undefined
        ? {}
        : { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
    })
    return { path: response.headers.get('content-location')!, cut: () => connection.abort() }
  }
  const over = async (path: string) => (await fetch(`${cluster.url}${path}/join`)).json()

  const tests: Promise<unknown>[] = []
  for (const [path, body, then, ends] of rows)
    tests.push(
      t.test(`POST ${path} ${JSON.stringify(body)}, ${then}`, { buffered: true }, async t => {
        const { thread_id } = await client.threads.create()
        const stepLog = logs.log()
        const made = await open(path.replace('/T/', `/${thread_id}/`), { ...steps(stepLog.file), ...body })
        await stepLog.begun(3)
        made.cut()
        const back = then === 'comes back' ? await open(`${made.path}/stream`) : null
        // A join clears the cancel, so the test joins only after the grace period.
        await sleep(GRACE_MS + 400)
        await over(made.path)
        back?.cut()
        t.equal(stepLog.all().length === STEPS ? 'finished' : 'cancelled', ends)
        if (path.includes('/T/')) {
          const [run] = await client.runs.list(thread_id)
          t.equal(run!.status, ends === 'finished' ? 'success' : 'interrupted')
          t.equal((await client.threads.get(thread_id)).status, ends === 'finished' ? 'idle' : 'interrupted')
        }
      }),
    )

  for (const [join, query, ends] of [
    ['stream', 'cancel_on_disconnect=1', 'interrupted'],
    ['stream', 'cancel_on_disconnect=true', 'interrupted'],
    ['stream', 'cancel_on_disconnect=0', 'success'],
    ['stream', '', 'success'],
    ['join', 'cancel_on_disconnect=1', 'interrupted'],
    ['join', 'cancel_on_disconnect=false', 'success'],
  ])
    tests.push(
      t.test(`GET …/${join}?${query}`, { buffered: true }, async t => {
        const { thread_id } = await client.threads.create()
        const stepLog = logs.log()
        const { assistant_id, ...payload } = steps(stepLog.file)
        const { run_id } = await client.runs.create(thread_id, assistant_id, payload)
        await stepLog.begun(2)
        const joined = await open(`/threads/${thread_id}/runs/${run_id}/${join}?${query}`)
        await sleep(50)
        joined.cut()
        await over(`/threads/${thread_id}/runs/${run_id}`)
        t.equal((await client.runs.get(thread_id, run_id)).status, ends)
      }),
    )
  await Promise.all(tests)
})
