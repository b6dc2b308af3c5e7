import t, { type Test } from 'tap'
import { clockAhead } from '../../bus/clock.js'
import type { Store } from '../../store/port.js'
import type { RunRow } from '../../store/rows/runs.js'
import { openAlarms } from '../../workers/resources/alarms.js'
import type { Deps } from '../../workers/resources/context.js'
import { system } from '../../workers/resources/system.js'
import { run, thread } from '../store/conformance-rows.js'
import { stage as openStage } from './stage.js'

const HOUR = 3_600_000

async function stage(t: Test, workers: number, wrap?: (store: Store) => Store) {
  const { store, all, seen } = await openStage(t, workers, wrap)
  const pending = async (set: Partial<RunRow>) => {
    const row = thread()
    const one = run(row.thread_id, set)
    await store.apply([
      { step: 'threads.insert', row },
      { step: 'runs.insert', row: one },
    ])
    return one.run_id
  }
  const summary = async (run_id: string) => (await store.runs.summary([run_id]))[0]!
  return { store, all, seen, pending, summary }
}

t.test('a worker that starts finds overdue runs', async t => {
  const { all, seen, pending, summary } = await stage(t, 1)
  const overdue = await pending({ due_at: Date.now() - HOUR })
  const later = await pending({ due_at: Date.now() + HOUR })
  const never = await pending({ due_at: 8.64e15 })
  all[0]!.alarms.start(all[0]!)
  await seen(overdue)
  t.equal((await summary(overdue)).due_at, 0, 'its alarm has fired')
  t.ok((await summary(later)).due_at > Date.now(), 'a run that is not due yet stays as it is')
  t.equal((await summary(never)).due_at, 8.64e15, 'also one beyond the longest timer of Node.js')
})

t.test('an alarm fires at its time, in order, without a sweep', async t => {
  const { all, seen, pending, summary } = await stage(t, 1)
  const { alarms } = all[0]!
  alarms.start(all[0]!)
  const far = Date.now() + HOUR
  await pending({ due_at: far })
  alarms.set(far)
  const due = [Date.now() + 300, Date.now() + 100]
  const ids = await Promise.all(due.map(due_at => pending({ due_at })))
  for (const at of due) alarms.set(at)
  for (const [i, id] of ids.entries()) {
    await seen(id)
    t.ok((await summary(id)).updated_at >= due[i]!, 'not before its time')
  }
  t.ok((await summary(ids[1]!)).updated_at <= (await summary(ids[0]!)).updated_at)
})

t.test('the earlier row of one worker re-arms the timer of another', async t => {
  const { all, seen, pending, summary } = await stage(t, 2)
  const [one, other] = all as [Deps, Deps]
  other.alarms.start(other)
  const due_at = Date.now() + 200
  const run_id = await pending({ due_at })
  // This worker only announces the row: it fires nothing itself.
  one.alarms.set(due_at)
  await seen(run_id)
  t.equal((await summary(run_id)).due_at, 0)
})

t.test('of two workers one fires each row', async t => {
  let won = 0
  const { all, store, seen, pending, summary } = await stage(t, 2, store => ({
    ...store,
    async apply(steps) {
      const failed = await store.apply(steps)
      if (failed === -1) won++
      return failed
    },
  }))
  const due_at = Date.now() + 400
  const ids = await Promise.all(Array.from({ length: 450 }, () => pending({ due_at })))
  for (const deps of all) deps.alarms.start(deps)
  await Promise.all(ids.map(seen))
  t.ok((await Promise.all(ids.map(summary))).every(row => row.due_at === 0))
  await Promise.all(all.map(({ alarms }) => alarms.look()))
  t.equal(won, ids.length, 'each once, although both workers knew all of them')
  t.same(await store.runs.startsDue(Number.MAX_SAFE_INTEGER, 1), [])
})

t.test('a store that is unavailable for a while is read again', async t => {
  let asked = 0
  const { all, seen, pending } = await stage(t, 1, store => ({
    ...store,
    runs: {
      ...store.runs,
      startsDue: (until, limit) =>
        ++asked < 3 ? Promise.reject(new Error('away')) : store.runs.startsDue(until, limit),
    },
  }))
  const run_id = await pending({ due_at: Date.now() - 1 })
  all[0]!.alarms.start(all[0]!)
  await seen(run_id)
  t.ok(asked >= 3)
})

t.test('a worker whose clock differs from that of the broker fires nothing and reports it', async t => {
  const { all, seen, pending, summary } = await stage(t, 2)
  const [wrong, right] = all as [Deps, Deps]
  const off = await clockAhead(wrong.mux)
  t.type(off, 'number', 'the broker gives its time')
  const alarms = openAlarms(wrong.link, async () => -5_000)
  t.teardown(() => alarms.stop())
  const deps: Deps = { ...wrong, alarms }
  const due_at = Date.now() - 1
  const run_id = await pending({ due_at })
  alarms.start(deps)
  await alarms.look()
  t.equal((await summary(run_id)).due_at, due_at)
  t.equal(alarms.off(), -5_000)
  t.equal(alarms.ahead(), -5_000, 'the metrics show it')
  const { ready } = system(deps) as unknown as { ready: { handle(value: unknown, context: object): Promise<unknown> } }
  deps.apps.announce('built-in', 'g', 'default')
  await t.rejects(ready.handle(null, { head: {} }), { code: 'unavailable', message: /5000 ms behind/ })
  right.alarms.start(right)
  await seen(run_id)
  t.equal((await summary(run_id)).due_at, 0, 'another worker does')
})
