/** What a graph worker does with runs when they time out, lose their lease, or lose store, broker or worker. */
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { openCaller } from '../../bus/call.js'
import { openMux } from '../../bus/mux.js'
import { wake } from '../../bus/queue.js'
import type { Claim } from '../../schemas/calls.js'
import { token } from '../../schemas/ids.js'
import { rpc } from '../../schemas/subjects.js'
import { type Started, startWorkers, until, within } from './worker-helper.js'

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
      const claim = async (seen?: Claim['seen']) =>
        (
          await other.ask(
            rpc('runs', 'claim'),
            { request_id: 't' },
            json({ run_id: run.run_id, thread_id, worker: 'w', seen } satisfies Claim),
          )
        ).head
      // The holder sends a heartbeat every few seconds: a claim between two of them repeats with the last count.
      let { claim: answer, lease } = await claim()
      await until(async () => {
        if (answer !== 'taken')
          ({ claim: answer, lease } = await claim({ attempt: lease!.attempt, heartbeats: lease!.heartbeats! }))
        return answer === 'taken'
      })
      const back = { charge: false, end: null, error: { error: 'E', message: 'm' }, last_event_id: null }
      if (harm === 'busy') await until(() => !alive(first!.pid))
      else await sleep(6_000)
      t.same(stepsOf(run), [1, 2])
      await other.ask(rpc('runs', 'release'), { request_id: 't', lease }, json(back))
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
