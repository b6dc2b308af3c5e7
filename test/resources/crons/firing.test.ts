import t from 'tap'
import { v5 } from 'uuid'
import type { CronPayload } from '../../../schemas/crons.js'
import { BUILT_IN_APP, CRON_NAMESPACE } from '../../../schemas/ids.js'
import type { Store } from '../../../store/port.js'
import type { RecordRow } from '../../../store/rows/records.js'
import type { RunSummary } from '../../../store/rows/runs.js'
import type { Deps } from '../../../workers/resources/context.js'
import { fireCron } from '../../../workers/resources/crons/fire.js'
import { firingsOf } from '../../../workers/resources/crons/firings.js'
import { CRON, type CronBody, clearCrons, rowOf } from '../../../workers/resources/crons/record.js'
import { systemAssistantId } from '../../../workers/resources/rows/assistant.js'
import { newThread } from '../../../workers/resources/rows/thread.js'
import { repair } from '../../../workers/resources/runs/repair.js'
import { thread } from '../../store/conformance-rows.js'
import { Crash, stage, stepwise } from '../stage.js'

t.setTimeout(60_000)

const SECOND = 1_000
const MINUTE = 60 * SECOND
const EVERY_MINUTE = '* * * * *'
/** A schedule whose slot does not change while a test runs. */
const YEARLY = '0 0 1 1 *'
const SLOT = Date.UTC(new Date().getUTCFullYear(), 0, 1)
let made = 0

const cron = (set: Partial<CronBody> = {}, due_at: number, thread_id = ''): RecordRow => {
  const assistant_id = systemAssistantId('g')
  const body: CronBody = {
    assistant_id,
    schedule: YEARLY,
    timezone: null,
    end: null,
    enabled: true,
    on_run_completed: thread_id === '' ? 'keep' : null,
    next: due_at,
    payload: { assistant_id, schedule: YEARLY },
    metadata: { mine: true },
    user_id: null,
    ...set,
  }
  const id = `cron-${++made}`
  return rowOf(body, { app: BUILT_IN_APP, id, parent: thread_id, created_at: due_at, updated_at: due_at })
}

/** The start of the minute that is `ago` minutes before this one. */
const minute = (ago = 0) => Math.floor(Date.now() / MINUTE) * MINUTE - ago * MINUTE
const runOf = (row: RecordRow, slot: number) => v5(`${row.id}:${slot}`, CRON_NAMESPACE)
const insert = (store: Store, ...rows: RecordRow[]) =>
  store.apply(rows.map(row => ({ step: 'records.insert' as const, row })))
const nextOf = async (store: Store, { id }: RecordRow) => (await store.records.get(CRON, id))?.due_at
const runsOf = async (store: Store): Promise<RunSummary[]> => store.runs.unsettled(10_000)

t.test('two workers fire the same crons: one run for each slot', async t => {
  const { store, all } = await stage(t, 2, store => store, { cron_seconds: true })
  const schedule = '* * * * * *'
  const first = Math.ceil(Date.now() / SECOND) * SECOND + SECOND
  const rows = Array.from({ length: 40 }, () =>
    cron({ schedule, end: first + 4 * SECOND, payload: { assistant_id: systemAssistantId('g'), schedule } }, first),
  )
  await insert(store, ...rows)
  for (const deps of all) deps.alarms.start(deps)
  for (const row of rows) while ((await nextOf(store, row)) !== null) await new Promise(done => setTimeout(done, 50))
  const runs = await runsOf(store)
  for (const row of rows) {
    const mine = new Map(
      runs
        .map(run => ({ run_id: run.run_id, ...(JSON.parse(run.metadata) as { cron_id: string; cron_late?: string }) }))
        .filter(run => run.cron_id === row.id)
        .map(run => [run.run_id, run]),
    )
    const slots = [0, 1, 2, 3].map(n => mine.get(runOf(row, first + n * SECOND)))
    t.equal(slots.filter(Boolean).length, mine.size, 'every run belongs to a slot before the end of its cron')
    // On a machine that was paused for a second, a slot may be missed: the next run reports it.
    const fired = slots.findLastIndex(Boolean)
    for (let n = 0; n < fired; n++)
      if (slots[n] === undefined && slots[n + 1] !== undefined)
        t.ok(slots[n + 1]!.cron_late, 'no slot is missed silently')
    t.ok(fired >= 0)
  }
  t.equal(new Set(runs.map(run => run.thread_id)).size, runs.length, 'each run has its own thread')
})

t.test('several kicks at the same moment make one run', async t => {
  const { store, all } = await stage(t, 2)
  const { thread_id } = newThread({ app: BUILT_IN_APP, thread_id: '00000000-0000-7000-8000-000000000001' })
  await store.apply([{ step: 'threads.insert', row: thread({ thread_id }) }])
  for (const row of [cron({}, SLOT), cron({}, SLOT, thread_id)]) {
    await insert(store, row)
    await Promise.all(Array.from({ length: 20 }, (_, i) => fireCron(all[i % 2]!, row)))
    const runs = (await runsOf(store)).filter(run => run.run_id === runOf(row, SLOT))
    t.equal(runs.length, 1)
    t.match(runs[0], { status: 'pending', metadata: /"mine":true,"cron_id":"cron-/ })
    t.ok((await nextOf(store, row))! > SLOT)
  }
  t.equal((await runsOf(store)).length, 2)
})

t.test('missed slots make one run, that of the latest slot, and the run reports it', async t => {
  const { store, all } = await stage(t, 1)
  const [deps] = all as [Deps]
  const row = cron({ schedule: EVERY_MINUTE }, minute(90))
  await insert(store, row)
  deps.alarms.start(deps)
  while (((await nextOf(store, row)) ?? 0) <= Date.now() - MINUTE) await new Promise(done => setTimeout(done, 10))
  const [run, ...others] = await runsOf(store)
  t.same(others, [])
  const { cron_late } = JSON.parse(run!.metadata) as { cron_late: string }
  const slot = Date.parse(cron_late)
  t.ok(slot >= minute(2), 'the latest')
  t.equal(run!.run_id, runOf(row, slot))
})

t.test('nothing fires at its end or later, nor while it is disabled', async t => {
  const { store, all } = await stage(t, 1)
  const over = cron({ end: Date.now() - 1 }, SLOT)
  const off = cron({ enabled: false }, SLOT)
  const taken = cron({}, SLOT)
  await insert(store, over, off, taken)
  t.equal(off.due_at, null)
  all[0]!.alarms.start(all[0]!)
  while ((await runsOf(store)).length === 0 || (await nextOf(store, over)) !== null)
    await new Promise(done => setTimeout(done, 10))
  t.match(
    (await runsOf(store)).map(run => run.metadata),
    [new RegExp(taken.id)],
  )
  t.equal(await nextOf(store, off), null)
})

t.test('a refused run is skipped; the cron continues', async t => {
  const { store, all } = await stage(t, 1)
  const [deps] = all as [Deps]
  const busy = thread({ queue: [{ run_id: 'another', position: 0, due_at: 0 }], next_position: 1, status: 'busy' })
  const full = thread({
    queue: Array.from({ length: 1_000 }, (_, position) => ({ run_id: `r${position}`, position, due_at: 0 })),
    next_position: 1_000,
    status: 'busy',
  })
  for (const row of [busy, full]) await store.apply([{ step: 'threads.insert', row }])
  const assistant_id = systemAssistantId('g')
  const payload = (set: Partial<CronPayload>) => ({ payload: { assistant_id, schedule: YEARLY, ...set } })
  const rows = [
    cron(payload({ multitask_strategy: 'reject' }), SLOT, busy.thread_id),
    cron({}, SLOT, full.thread_id),
    cron(payload({ assistant_id: '00000000-0000-7000-8000-000000000000' }), SLOT),
    cron(payload({ webhook: 'http://10.0.0.1/' }), SLOT),
  ]
  await insert(store, ...rows)
  for (const row of rows) {
    await fireCron(deps, row)
    t.ok((await nextOf(store, row))! > SLOT, 'it has moved to its next slot')
  }
  t.same(await runsOf(store), [])
})

t.test('the latest firings are listed with their runs, or why there is none', async t => {
  const { store, all } = await stage(t, 2)
  const [deps, other] = all as [Deps, Deps]
  const own = thread()
  await store.apply([{ step: 'threads.insert', row: own }])
  const row = cron({}, SLOT, own.thread_id)
  await insert(store, row)
  const now = async () => (await store.records.get(CRON, row.id))!
  t.same(await firingsOf(store, await now()), [])
  await Promise.all([fireCron(deps, row), fireCron(other, row)])
  const run_id = runOf(row, SLOT)
  const fired = {
    scheduled_at: new Date(SLOT).toISOString(),
    run_id,
    thread_id: own.thread_id,
    run_status: 'pending',
    error: null,
  }
  t.match(await firingsOf(store, await now()), [fired], 'once')
  t.equal((await firingsOf(store, await now())).length, 1)
  await store.apply([{ step: 'runs.remove', run_id, where: {} }])
  t.match(await firingsOf(store, await now()), [{ run_id, run_status: null }], 'its run was removed')

  // A template of nearly the allowed size fires, too: what is kept of firings does not count.
  const input = 'x'.repeat(1024 * 1024 - 1_000)
  const refused = cron({ payload: { assistant_id: 'absent', schedule: YEARLY, input } }, SLOT)
  await insert(store, refused)
  for (let n = 0; n < 22; n++) {
    const { rev } = (await store.records.get(CRON, refused.id))!
    await store.apply([
      { step: 'records.patch', kind: CRON, id: refused.id, where: { rev }, set: { due_at: SLOT + n } },
    ])
    await fireCron(deps, (await store.records.get(CRON, refused.id))!)
  }
  const found = await firingsOf(store, (await store.records.get(CRON, refused.id))!)
  t.equal(found.length, 20)
  t.match(found[0], { scheduled_at: new Date(SLOT + 21).toISOString(), run_id: null, thread_id: null, error: /absent/ })
})

t.test('crons are removed with their thread', async t => {
  const { store, all } = await stage(t, 1)
  const [deps] = all as [Deps]
  const { thread_id } = thread()
  const [orphan, mine, other] = [cron({}, SLOT, thread_id), cron({}, SLOT, 'one'), cron({}, SLOT, 'two')]
  await insert(store, orphan, mine, other)
  await fireCron(deps, orphan)
  t.equal(await store.records.get(CRON, orphan.id), null, 'its thread was removed before')
  await store.apply([clearCrons('one')])
  t.equal(await store.records.get(CRON, mine.id), null)
  t.ok(await store.records.get(CRON, other.id))
})

t.test('every crash point of firing leaves one run and the next slot', async t => {
  const { store, all } = await stage(t, 1, stepwise)
  const [deps] = all as [Deps & { store: ReturnType<typeof stepwise> }]
  const own = thread()
  await store.apply([{ step: 'threads.insert', row: own }])
  // On a thread: run, thread, run; without one the same; then the cron itself.
  for (const thread_id of [own.thread_id, ''])
    for (let at = 0; at < 3; at++)
      await t.test(`${thread_id === '' ? 'without' : 'on'} a thread, before step ${at}`, async t => {
        const row = cron({}, SLOT, thread_id)
        await insert(store, row)
        deps.store.crashBefore(at)
        await t.rejects(fireCron(deps, row), { message: 'crashed' })
        t.equal(await nextOf(store, row), SLOT, 'still due')
        await fireCron(deps, row)
        t.ok((await nextOf(store, row))! > SLOT)
        const run_id = runOf(row, SLOT)
        const [run] = await store.runs.summary([run_id])
        for (let i = 0; i < 2; i++) await repair(deps, (await store.threads.get(BUILT_IN_APP, run!.thread_id))!)
        t.match(await store.runs.summary([run_id]), [{ status: 'pending' }])
        const { queue } = (await store.threads.get(BUILT_IN_APP, run!.thread_id))!
        t.equal(queue.filter(one => one.run_id === run_id).length, 1, 'once in the queue')
      })
  await t.test('before the cron moves on', async t => {
    const row = cron({}, SLOT)
    await insert(store, row)
    const away: Deps = {
      ...deps,
      store: {
        ...store,
        apply: async steps => {
          if (steps.some(({ step }) => step === 'records.patch')) throw new Crash('crashed')
          return store.apply(steps)
        },
      },
    }
    await t.rejects(fireCron(away, row), { message: 'crashed' })
    const before = await runsOf(store)
    await fireCron(deps, row)
    t.same(await runsOf(store), before, 'the repeat is the same run')
    t.ok((await nextOf(store, row))! > SLOT)
  })
})
