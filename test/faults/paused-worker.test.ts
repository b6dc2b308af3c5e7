/**
 * A graph worker that is paused and resumes after its runs were taken over: every write of it is refused, and readers
 * see one sequence of events.
 */
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { firstIdOf } from '../../schemas/subjects.js'
import { startRoles } from '../helpers/cluster.js'
import { lines } from '../helpers/sdk.js'
import { readStream } from '../helpers/sse.js'
import { stepLogs } from '../helpers/steps.js'
import { until } from '../helpers/until.js'

t.setTimeout(180_000)
const parentOf = (pid: number) => Number(/^PPid:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1])

t.test('a worker that resumes after its runs were taken over writes nothing', async t => {
  const roles = await startRoles({ app: 'test/apps/faults', graphs: 2 })
  const logs = stepLogs()
  const stopped = new Set<number>()
  t.teardown(async () => {
    for (const pid of stopped) process.kill(pid, 'SIGCONT')
    await roles.stop()
    logs.remove()
  })
  const url = roles.urls[0]!
  const client = lines[0]!.connect(url)

  const begin = async (stream_resumable: boolean) => {
    const { thread_id } = await client.threads.create()
    const stepLog = logs.log()
    const runs = `${url}/threads/${thread_id}/runs`
    const body = {
      assistant_id: 'poison',
      input: { log: stepLog.file, steps: 8, at: 4, harm: 'hold', times: 1 },
      durability: 'sync',
      stream_mode: ['values', 'updates'],
      stream_resumable,
      on_disconnect: 'continue',
    }
    const first = readStream(`${runs}/stream`, { method: 'POST', body })
    const begun = await stepLog.begun(4)
    const { run_id } = (await client.runs.list(thread_id))[0]!
    const join = () => readStream(`${runs}/${run_id}/stream`, { headers: { 'last-event-id': '-1' } })
    return {
      thread_id,
      run_id,
      isResumable: stream_resumable,
      stepLog,
      first,
      second: join(),
      join,
      worker: parentOf(begun[3]!.pid),
      pid: begun[3]!.pid,
    }
  }
  const all = [await begin(true), await begin(false), await begin(true), await begin(false)]
  await sleep(200)
  const { worker } = all[0]!
  const zombie = roles.graphs.find(({ pid }) => pid === worker)!
  zombie.kill('SIGSTOP')
  stopped.add(worker)
  for (const { stepLog } of all) stepLog.release()
  const taken = all.filter(run => run.worker === worker)
  t.ok(taken.length > 0)

  const ends = new Map<string, unknown>()
  for (const run of all) {
    const readings = [await run.first, await run.second]
    for (const { frames, ended } of readings) {
      t.ok(ended)
      t.ok(
        frames.every(({ id }, i) => i === 0 || id > frames[i - 1]!.id),
        'each id once, in order',
      )
    }
    t.same(readings[1]!.frames, readings[0]!.frames, 'two readers get the same sequence')
    t.equal((await client.runs.get(run.thread_id, run.run_id)).status, 'success')
    t.same(
      run.stepLog.steps(),
      run.worker === worker ? [1, 2, 3, 4, 4, 5, 6, 7, 8] : [1, 2, 3, 4, 5, 6, 7, 8],
      'no step with a stored checkpoint ran again',
    )
    ends.set(run.run_id, [
      await client.threads.get(run.thread_id),
      await client.threads.getState(run.thread_id),
      await client.runs.get(run.thread_id, run.run_id),
    ])
  }

  zombie.kill('SIGCONT')
  stopped.clear()
  await until(() => /a later attempt holds|lost/.test(zombie.output()))
  // All its heartbeats and saves are answered after this time.
  await sleep(7_000)
  for (const run of all) {
    t.same(
      [
        await client.threads.get(run.thread_id),
        await client.threads.getState(run.thread_id),
        await client.runs.get(run.thread_id, run.run_id),
      ],
      ends.get(run.run_id),
      'nothing was written',
    )
    t.notOk(
      run.worker === worker && run.stepLog.all().some(({ step, pid }) => pid === run.pid && step > 4),
      'no node started in the old worker',
    )
    const { frames } = await run.first
    // The events of a run that is not resumable are in the memory of its worker: a join begins with the new attempt.
    const isForgotten = run.worker === worker && !run.isResumable
    const kept = isForgotten ? frames.filter(({ id }) => id >= firstIdOf(2)) : frames
    t.ok(kept.length > 0)
    t.same((await run.join()).frames, kept, 'a third reader gets the same sequence')
  }
  const later = await Promise.all(
    Array.from({ length: 20 }, () => client.runs.wait(null, 'steps', { input: { steps: 5 } })),
  )
  t.ok(later.every(values => (values as { done: number[] }).done.length === 5))
  t.equal(zombie.child.exitCode, null, 'the old worker continues')
})

/** The silence after which another worker is asked, and a margin for a loaded machine: it was 30 s. */
const STATE_MS = 12_000

t.test('the state of running threads is read while one of two workers is paused, and while both are', async t => {
  const roles = await startRoles({ app: 'test/apps/faults', graphs: 2 })
  const logs = stepLogs()
  t.teardown(async () => {
    for (const worker of roles.graphs) worker.kill('SIGCONT')
    await roles.stop()
    logs.remove()
  })
  const url = roles.urls[0]!
  const client = lines[0]!.connect(url)
  const threads: string[] = []
  for (let n = 0; n < 4; n++) {
    const { thread_id } = await client.threads.create()
    threads.push(thread_id)
    const log = logs.log()
    const input = { log: log.file, steps: 8, at: 4, harm: 'hold', times: 1 }
    await client.runs.create(thread_id, 'poison', { input, durability: 'sync' })
    await log.begun(4)
  }
  const stored = await client.threads.create()
  const values = await client.runs.wait(stored.thread_id, 'nested', { input: {} })
  const read = async (thread_id: string, query = '') => {
    const since = Date.now()
    const answer = await fetch(`${url}/threads/${thread_id}/state${query}`)
    const ms = Date.now() - since
    t.ok(ms < STATE_MS, `answered after ${ms} ms`)
    return { status: answer.status, body: (await answer.json()) as { values?: object } }
  }

  roles.graphs[0]!.kill('SIGSTOP')
  for (const { status, body } of await Promise.all(threads.map(thread_id => read(thread_id)))) {
    t.equal(status, 200)
    t.match(body, { values: { done: [1, 2, 3] } }, 'the state at the latest checkpoint')
  }
  roles.graphs[1]!.kill('SIGSTOP')
  const plain = await read(stored.thread_id)
  t.same(plain.body.values, values)
  const nested = await read(stored.thread_id, '?subgraphs=true')
  t.same(nested, plain, 'without the states of subgraphs when no host answers')
  const { status, body } = await read(threads[0]!)
  t.equal(status, 503, 'nothing is stored that could be answered')
  t.match(body, { detail: /No graph host/ })
})
