import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { type Event, type Started, startWorkers, within } from './worker-helper.js'

t.setTimeout(300_000)
const weft = await startWorkers({ run_timeout_secs: 3_600, host_memory_mb: 128 })
t.teardown(() => weft.stop())

const stepsOf = (run: Started) => run.steps().map(({ step }) => step)
const idsOf = (run: Started) => run.events.map(({ id }) => id)
const increasing = (ids: number[]) => ids.every((id, i) => i === 0 || id > ids[i - 1]!)

const faults = [
  ['exit', 'ProcessExit', /exit code 3/],
  ['abort', 'ProcessExit', /abort/],
  ['exception', 'UncaughtException', /RangeError: thrown from a timer/],
  ['rejection', 'UnhandledRejection', /TypeError: nobody catches this/],
  ['oom', 'OutOfMemory', /128 MB/],
  ['oomSlowly', 'OutOfMemory', /128 MB/],
] as const

for (const [harm, error, message] of faults) {
  t.test(`${harm}: only the run that caused it is charged and ends after three attempts; others succeed`, async t => {
    const ends = () => weft.figure('graphs', 'weft_host_ends_total', { reason: error })
    const before = await ends()
    const others: Started[] = []
    for (let n = 0; n < 20; n++) others.push(await weft.run('steps', { steps: 30 }))
    const thread_id = await weft.thread()
    const bad = await weft.run('poison', { steps: 5, at: 2, harm }, { thread_id, body: { durability: 'sync' } })
    const ended = await within(60_000, bad.ended)
    t.match(ended, { status: 'error', error: { error, message } })
    t.equal(await ends(), before + 3, 'the metrics show why hosts ended')
    t.same(stepsOf(bad), [1, 2, 2, 2], 'three attempts, and nothing that was checkpointed ran again')
    t.ok(increasing(idsOf(bad)), 'ids increase over attempts')
    t.match(bad.events.at(-1), { event: 'error', id: ended.last_event_id, data: { error } })
    t.match(await weft.threadRow(thread_id), { status: 'error' })
    for (const run of others) t.match(await within(60_000, run.ended), { status: 'success' })
    const next = await weft.run('steps', { steps: 2, at: 0 }, { thread_id })
    t.match(await within(20_000, next.ended), { status: 'success' }, 'the thread is free')
  })
}

const readers = (run: Started) => {
  const events: Event[] = []
  return { events, ended: weft.read(run.run_id, events) }
}

t.test('a stateful run continues from its last checkpoint, and two readers get the same events', async t => {
  const thread_id = await weft.thread()
  const body = { durability: 'sync' }
  const run = await weft.run('poison', { steps: 10, at: 4, harm: 'exit', times: 2 }, { thread_id, body })
  const second = readers(run)
  t.match(await within(30_000, run.ended), { status: 'success' })
  await second.ended
  t.same(stepsOf(run), [1, 2, 3, 4, 4, 4, 5, 6, 7, 8, 9, 10])
  t.ok(increasing(idsOf(run)))
  const begins = second.events[0]!.id
  t.same(
    second.events,
    run.events.filter(({ id }) => id >= begins),
  )
  t.match(await weft.threadRow(thread_id), { status: 'idle', values: { done: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] } })
})

t.test('a temporary run starts from its input', async t => {
  for (const body of [{}, { stream_resumable: true }]) {
    const run = await weft.run('poison', { steps: 6, at: 4, harm: 'exit', times: 1 }, { body })
    t.match(await within(30_000, run.ended), { status: 'success' })
    t.same(stepsOf(run), [1, 2, 3, 4, 1, 2, 3, 4, 5, 6])
    t.ok(increasing(idsOf(run)))
    t.equal(run.events.filter(({ event }) => event === 'metadata').length, 2)
  }
})

t.test('a host killed from outside: the run in it is charged', async t => {
  const run = await weft.run('poison', { steps: 3, at: 2, harm: 'wait', times: 1 })
  const { pid } = (await run.begun(2)).at(-1)!
  process.kill(pid, 'SIGKILL')
  t.match(await within(30_000, run.ended), { status: 'success' })
  t.same(stepsOf(run), [1, 2, 1, 2, 3])
})

const cancelled = { body: { on_disconnect: 'cancel' } }

t.test('cancel stops the node', async t => {
  for (const [harm, ms, limit] of [
    ['signal', 3_000, 2_000],
    // It ignores its signal: the run ends with it, before the host would be killed.
    ['wait', 2_000, 4_500],
    ['busy', 8_000, 7_500],
  ] as const) {
    const other = await weft.run('steps', { steps: 300 })
    const run = await weft.run('poison', { steps: 5, at: 2, harm, ms }, cancelled)
    await run.begun(2)
    await sleep(100)
    const from = performance.now()
    await weft.cancel(run.run_id)
    t.match(await within(20_000, run.ended), { status: 'interrupted' })
    t.comment(`${harm}: ${Math.round(performance.now() - from)} ms`)
    t.ok(performance.now() - from < limit, `${harm} ends in time`)
    await sleep(ms + 500 - (performance.now() - from))
    t.same(stepsOf(run), [1, 2], `${harm}: no step after the end`)
    t.match(await within(30_000, other.ended), { status: 'success' }, 'another run in the host succeeds')
  }
})

t.test('a cancel of a run that holds the event loop kills its host at once', async t => {
  const run = await weft.run('poison', { steps: 3, at: 2, harm: 'busy', ms: 20_000 }, cancelled)
  await run.begun(2)
  await sleep(1_500)
  const from = performance.now()
  await weft.cancel(run.run_id)
  t.match(await within(20_000, run.ended), { status: 'interrupted' })
  t.ok(performance.now() - from < 4_000)
})

t.test('cancel before the claim, and before a host is ready', async t => {
  const thread_id = await weft.thread()
  const first = await weft.run('slow', { ms: 1_500 }, { thread_id })
  const queued = await weft.run('slow', {}, { thread_id, ...cancelled })
  await weft.cancel(queued.run_id)
  t.match(await within(10_000, queued.ended), { status: 'interrupted' })
  // Its host ends when it starts: the next run of its graph waits for another host.
  const bad = await weft.run('poison', { at: 1, harm: 'exit', times: 1 }, {})
  await bad.begun(1)
  const waiting = await weft.run('poison', { steps: 2 }, cancelled)
  await weft.cancel(waiting.run_id)
  t.match(await within(10_000, waiting.ended), { status: 'interrupted' })
  t.match(await within(10_000, first.ended), { status: 'success' })
  t.match(await within(10_000, bad.ended), { status: 'success' })
  await sleep(500)
  t.same(queued.steps(), [])
  t.ok(waiting.steps().length < 2)
})

t.test('a graph that blocks is isolated; runs of other graphs do not wait for it', async t => {
  const blocking = await weft.run('many', { count: 2, at: 1, harm: 'busy', ms: 6_000 })
  await blocking.begun(1)
  await sleep(1_500)
  const runs: Started[] = []
  for (let n = 0; n < 5; n++) runs.push(await weft.run('other', { steps: 2 }))
  for (const run of runs) t.match(await within(20_000, run.ended), { status: 'success' })
  t.equal(blocking.events.at(-1)?.event === 'custom' || blocking.events.length < 4, true)
  t.match(await within(20_000, blocking.ended), { status: 'success' }, 'long synchronous work is allowed')
  t.equal(blocking.steps().length, 1, 'and executes once')
  const again = await weft.run('many', { count: 2, at: 1, harm: 'wait', ms: 1_000 })
  const [next] = await again.begun(1)
  const neighbour = await weft.run('other', { steps: 30 })
  const [beside] = await neighbour.begun(1)
  t.not(next!.pid, beside!.pid)
  await within(20_000, Promise.all([again.ended, neighbour.ended]))
})

t.test(
  'failing runs among good ones: good runs succeed, each failing run ends after its own three attempts',
  async t => {
    const good: Started[] = []
    const bad: Started[] = []
    for (let n = 0; n < 66; n++) {
      const harm = ['exit', 'rejection', 'exception'][n % 3]
      if (n % 11 === 5) bad.push(await weft.run('poison', { steps: 3, at: 2, harm }))
      else good.push(await weft.run('steps', { steps: 5 }))
    }
    for (const run of good) t.match(await within(60_000, run.ended), { status: 'success' })
    for (const run of bad)
      t.match(await within(60_000, run.ended), { status: 'error', error: { message: /3 attempts/ } })
  },
)

t.test('endless log output slows only its own run', async t => {
  const run = await weft.run('other', { steps: 3, at: 1, harm: 'spam', ms: 2_000 })
  t.match(await within(20_000, run.ended), { status: 'success' })
  t.equal(run.steps().length, 3)
})
