/** The handling of runs by a graph worker when they time out, lose their lease, or lose store, broker or worker. */
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { openCaller } from '../../bus/call.js'
import { openMux } from '../../bus/mux.js'
import { wake } from '../../bus/queue.js'
import type { Claim } from '../../schemas/calls.js'
import { token } from '../../schemas/ids.js'
import { poolCall } from '../../schemas/subjects.js'
import { until } from '../helpers/until.js'
import { SENDER, type Started, startWorkers, tokenOf, within } from './worker-helper.js'

t.setTimeout(240_000)
const stepsOf = (run: Started) => run.steps().map(({ step }) => step)
const alive = (pid: number) => {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

t.test('a run that exceeds its time limit ends as timeout', async t => {
  const weft = await startWorkers({ run_timeout_secs: 1.5 })
  t.teardown(() => weft.stop())
  let stopped = 0
  for (const harm of ['signal', 'wait', 'busy']) {
    const thread_id = await weft.thread()
    const other = await weft.run('steps', { steps: 10 })
    const run = await weft.run('poison', { steps: 3, at: 2, harm, ms: 20_000 }, { thread_id })
    const ended = await within(20_000, run.ended)
    t.match(ended, { status: 'timeout' }, harm)
    t.match(run.events.at(-1), { event: 'error', data: { error: 'RunTimeout' }, id: ended.last_event_id })
    t.match(await weft.row(run.run_id), { status: 'timeout' })
    t.match(await weft.threadRow(thread_id), { status: 'error' })
    await sleep(500)
    t.same(stepsOf(run), [1, 2])
    t.equal(await weft.figure('graphs', 'weft_run_stops_total', { reason: 'timeout' }), ++stopped)
    t.equal(await weft.figure('resources', 'weft_runs_ended_total', { status: 'timeout' }), stopped)
    t.match(await within(20_000, other.ended), { status: 'success' }, 'a busy loop uses up only its own time')
  }
})

t.test('with one worker', async t => {
  const weft = await startWorkers()
  t.teardown(() => weft.stop())

  for (const harm of ['wait', 'busy']) {
    await t.test(`a run whose lease was taken over is stopped (${harm})`, async t => {
      const thread_id = await weft.thread()
      const input = { steps: 4, at: 2, harm, ms: 60_000, times: 1 }
      const run = await weft.run('poison', input, { thread_id, body: { durability: 'sync' } })
      const [, first] = await run.begun(2)
      const other = openCaller(await weft.open('graphs'))
      const token = await tokenOf(await weft.open('resources'), run.run_id)
      const back = { charge: false, end: null, error: { error: 'E', message: 'm' }, last_event_id: null }
      const ask = (verb: string, head: object, body: object) =>
        other.ask(poolCall(SENDER, 'runs', verb), { request_id: 't', ...head }, json(body))
      // The claim is queued behind the release, before the wake-up reaches the holder.
      const [, taken] = await Promise.all([
        ask('release', { lease: { run_id: run.run_id, thread_id, attempt: 1, token } }, back),
        ask('claim', {}, { run_id: run.run_id, thread_id, worker: 'w' } satisfies Claim),
      ])
      const { lease } = taken.head
      t.match(lease, { attempt: 2 })
      const former = { run_id: run.run_id, thread_id, attempt: 1, token }
      await t.rejects(ask('release', { lease: former }, back), { code: 'fenced' })
      const label = { call: 'pool.runs.release', code: 'fenced' }
      t.ok((await weft.figure('resources', 'weft_calls_refused_total', label)) >= 1)
      if (harm === 'busy') await until(() => !alive(first!.pid))
      else await sleep(6_000)
      t.same(stepsOf(run), [1, 2])
      await ask('release', { lease }, back)
      t.match(await within(30_000, run.ended), { status: 'success' })
      t.same(stepsOf(run), [1, 2, 2, 3, 4])
      other.close()
    })
  }

  await t.test('a wake-up that is delivered several times starts one execution', async t => {
    const resources = await weft.open('resources')
    const mux = openMux(resources)
    const runs: Started[] = []
    for (let n = 0; n < 20; n++) runs.push(await weft.run('steps', { steps: 20 }))
    for (const [n, { run_id, thread_id }] of runs.entries())
      for (const id of [`${run_id}:1`, `${run_id}:x`, `${run_id}:y${n}`])
        await wake(resources, mux, token('pool', 'default'), { run_id, thread_id }, id)
    for (const run of runs) {
      t.match(await within(30_000, run.ended), { status: 'success' })
      t.equal(run.steps().length, 20)
    }
    mux.close()
  })

  await t.test('a broker restart starts no run twice', async t => {
    const run = await weft.run('poison', { steps: 3, at: 2, harm: 'wait', ms: 14_000 })
    await run.begun(2)
    weft.nats.kill()
    await sleep(1_000)
    await weft.nats.restart()
    const next = await (async () => {
      await until(() => weft.edge.connected())
      return weft.run('steps', { steps: 2 })
    })()
    t.match(await within(30_000, next.ended), { status: 'success' })
    t.match(await within(40_000, run.ended), { status: 'success' })
    t.same(stepsOf(run), [1, 2, 3])
  })

  await t.test('a short outage of the store stops no run', async t => {
    const thread_id = await weft.thread()
    const run = await weft.run('steps', { steps: 300 }, { thread_id, body: { durability: 'sync' } })
    await run.begun(20)
    await weft.storeAway(2_500)
    t.match(await within(40_000, run.ended), { status: 'success' })
    t.equal(run.steps().length, 300)
  })
})

t.test('a graceful stop hands over the runs that do not finish in time', async t => {
  const weft = await startWorkers()
  t.teardown(() => weft.stop())
  const thread_id = await weft.thread()
  const short = await weft.run('slow', { ms: 2_000 })
  const long = await weft.run(
    'poison',
    { steps: 3, at: 2, harm: 'wait', times: 1 },
    { thread_id, body: { durability: 'sync' } },
  )
  const [, first] = await long.begun(2)
  await short.begun(1)
  await weft.addGraphs()
  const from = performance.now()
  await within(10_000, weft.graphs.stop())
  t.ok(performance.now() - from < 8_000)
  t.equal(short.steps().length, 1)
  t.match(await within(10_000, short.ended), { status: 'success' }, 'finished within the stop deadline')
  t.match(await within(20_000, long.ended), { status: 'success' }, 'not interrupted')
  t.same(stepsOf(long), [1, 2, 2, 3])
  t.notOk(alive(first!.pid))
  t.not(long.steps().at(-1)!.pid, first!.pid)
})

const json = (value: unknown) => Buffer.from(JSON.stringify(value))
