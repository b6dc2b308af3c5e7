/** Limits and shares with several resource workers on one store: no more runs execute than allowed, and none is forgotten. */
import t from 'tap'
import { v7 } from 'uuid'
import { BUILT_IN_APP } from '../../../schemas/ids.js'
import type { Store } from '../../../store/port.js'
import type { Deps } from '../../../workers/resources/context.js'
import { claim } from '../../../workers/resources/runs/claim.js'
import { create } from '../../../workers/resources/runs/create.js'
import { release } from '../../../workers/resources/runs/release.js'
import { stage } from '../stage.js'

t.setTimeout(120_000)

const SENDER = { app: BUILT_IN_APP, pool: 'default' }

const createRun = async (deps: Deps, team: string, more: object = {}) => {
  const run_id = v7()
  await create(
    deps,
    { assistant_id: 'g', metadata: { team }, ...more },
    { app: BUILT_IN_APP, run_id, thread_id: v7(), mode: 'background', brings: {} },
  )
  return run_id
}

/** Acts like a graph worker with one wake-up: asks which run is next, and claims it. */
async function takeNext(deps: Deps) {
  for (;;) {
    const run = await deps.scheduler.next(BUILT_IN_APP, 'default')
    if (typeof run === 'string') return run
    const { run_id, thread_id } = run
    const { head } = await claim(deps, { run_id, thread_id, worker: 'w' }, SENDER)
    if (head!.claim === 'taken') return head!.lease!
  }
}

async function claimNow(deps: Deps, run_id: string) {
  const [run] = await deps.store.runs.summary([run_id])
  const { head } = await claim(deps, { run_id, thread_id: run!.thread_id, worker: 'w' }, SENDER)
  return head!.claim === 'taken' ? head!.lease! : null
}

t.test('three resource workers together start no more runs of a tenant than its limit', async t => {
  const { all, store, seen } = await stage(t, 3, undefined, {
    scheduling: '{"tenant":"metadata.team","limits":{"tenant":4}}',
  })
  for (const deps of all) await deps.apps.announce(BUILT_IN_APP, 'g', 'default')
  const ids = await Promise.all(Array.from({ length: 12 }, (_, i) => createRun(all[i % 3]!, 'a')))
  ids.push(...(await Promise.all(Array.from({ length: 3 }, (_, i) => createRun(all[i]!, 'b')))))
  for (const id of ids) await seen(id)
  // Each of them is claimed, as by workers whose views of the store are old.
  const leases = (await Promise.all(ids.map((id, i) => claimNow(all[i % 3]!, id)))).filter(one => one !== null)
  const running = async (tenant: string) =>
    (await store.runs.occupied(BUILT_IN_APP)).find(one => one.tenant === tenant)?.count ?? 0
  t.ok((await running('a')) <= 4, `${await running('a')} of 4`)
  t.equal(await running('b'), 3, 'another tenant is not kept waiting')
  // Claims that meet may all be given back: the wake-ups of their runs begin them.
  while ((await running('a')) < 4) {
    const next = await takeNext(all[0]!)
    if (typeof next === 'object') leases.push(next)
  }
  t.equal(await takeNext(all[1]!), 'none')
  const [one] = leases.filter(({ run_id }) => ids.indexOf(run_id) < 12)
  const error = { error: 'GivenBack', message: 'a test' }
  await release(all[2]!, one!, { charge: false, end: 'error', error, last_event_id: null })
  let next = await takeNext(all[1]!)
  while (typeof next === 'string') next = await takeNext(all[1]!)
  t.equal(await running('a'), 4)
})

t.test('runs of a thread keep their order, and a wrong priority is refused before anything is stored', async t => {
  const { all, store } = await stage(t, 1, undefined, { scheduling: '{"priority":{"run":"metadata.urgency"}}' })
  const [deps] = all as [Deps]
  deps.apps.announce(BUILT_IN_APP, 'g', 'default')
  const thread_id = v7()
  const onThread = async (urgency: unknown) => {
    const run_id = v7()
    const target = { app: BUILT_IN_APP, run_id, thread_id, mode: 'background' as const, brings: null }
    await create(deps, { assistant_id: 'g', if_not_exists: 'create', metadata: { urgency } as never }, target)
    return run_id
  }
  const first = await onThread(5)
  const second = await onThread(-5)
  await t.rejects(onThread(9), { code: 'invalid', message: /metadata\.urgency/ })
  t.equal((await store.runs.list({ thread_id, limit: 9 })).length, 2)
  const lease = await takeNext(deps)
  t.match(lease, { run_id: first }, 'the second run is not ready, however urgent it is')
  t.equal(await takeNext(deps), 'none')
  const error = { error: 'Failed', message: 'a test' }
  await release(deps, lease as never, { charge: false, end: 'error', error, last_event_id: null })
  let next = await takeNext(deps)
  while (next === 'none') next = await takeNext(deps)
  t.match(next, { run_id: second })
})

t.test('three resource workers together start exactly as many runs of a tenant as its rate allows', async t => {
  const { all, store, seen } = await stage(t, 3, undefined, {
    scheduling: '{"tenant":"metadata.team","rates":{"tenants":{"a":{"max":4,"per":"1h","burst":4}}}}',
  })
  for (const deps of all) await deps.apps.announce(BUILT_IN_APP, 'g', 'default')
  const ids = await Promise.all(Array.from({ length: 12 }, (_, i) => createRun(all[i % 3]!, 'a')))
  const others = await Promise.all(Array.from({ length: 6 }, (_, i) => createRun(all[i % 3]!, 'b')))
  for (const id of [...ids, ...others]) await seen(id)
  // Each of them is claimed, as by workers whose views of the store are old.
  const leases = await Promise.all([...ids, ...others].map((id, i) => claimNow(all[i % 3]!, id)))
  const started = leases.filter(one => one !== null)
  t.equal(started.filter(({ run_id }) => ids.includes(run_id)).length, 4)
  t.equal(started.filter(({ run_id }) => others.includes(run_id)).length, 6, 'another tenant is not kept waiting')
  for (const deps of all) t.equal(await takeNext(deps), 'none')

  // What has started counts, whoever dies; what starts again does not.
  const [one, two] = started.filter(({ run_id }) => ids.includes(run_id))
  const error = { error: 'WorkerLost', message: 'a test' }
  await release(all[0]!, one!, { charge: true, end: null, error, last_event_id: null })
  t.match(await takeNext(all[1]!), { run_id: one!.run_id, attempt: 2 })
  await release(all[0]!, two!, { charge: false, end: 'error', error, last_event_id: null })
  t.equal(await takeNext(all[1]!), 'none')
  const [row] = await store.records.due('rate', Number.MAX_SAFE_INTEGER, 9)
  const starts = await startsOf(store, ids)
  t.equal(row!.due_at, starts[0]! + 900_000, 'the alarm is a quarter of an hour after the first start')
  const waiting = ids.filter(id => !started.some(({ run_id }) => run_id === id))
  const [waits] = await store.runs.summary(waiting)
  t.equal(await all[2]!.scheduler.freeAt(waits!), row!.due_at)
})

t.test('a start that did not happen does not count', async t => {
  let isFirst = true
  // As a store without transactions, where another write changes the thread after the start was counted.
  const wrap = (store: Store): Store => ({
    ...store,
    async apply(steps) {
      if (!isFirst || !('row' in steps[0]! && 'kind' in steps[0].row && steps[0].row.kind === 'rate'))
        return store.apply(steps)
      isFirst = false
      t.equal(await store.apply([steps[0]]), -1)
      return 1
    },
  })
  const { all, store, seen } = await stage(t, 1, wrap, {
    scheduling:
      '{"tenant":"metadata.team","limits":{"graphs":{"g":1}},"rates":{"tenants":{"a":{"max":2,"per":"1h","burst":2}}}}',
  })
  const [deps] = all as [Deps]
  await deps.apps.announce(BUILT_IN_APP, 'g', 'default')
  const ids: string[] = []
  for (const team of ['a', 'a', 'a', 'b']) ids.push(await createRun(deps, team))
  for (const id of ids) await seen(id)
  const [one, two, three, other] = ids as [string, string, string, string]
  const end = (lease: object | null) => {
    const error = { error: 'Ended', message: 'a test' }
    return release(deps, lease as never, { charge: false, end: 'error', error, last_event_id: null })
  }
  await end(await claimNow(deps, one))
  t.notOk(isFirst)
  // Given back at the limit: it has not begun.
  const holder = await claimNow(deps, other)
  t.equal(await claimNow(deps, two), null)
  t.match(await store.runs.summary([two]), [{ status: 'pending', started_at: null }])
  await end(holder)
  await end(await claimNow(deps, two))
  t.equal(await claimNow(deps, three), null, 'both starts that happened count')
  t.equal((await startsOf(store, ids)).length, 3)
})

t.test('the alarm of a rate wakes the runs that wait', async t => {
  const { all, store, seen } = await stage(t, 2, undefined, {
    scheduling: '{"tenant":"metadata.team","rates":{"tenant":{"max":10,"per":"1s","burst":2}}}',
  })
  for (const deps of all) {
    await deps.apps.announce(BUILT_IN_APP, 'g', 'default')
    deps.alarms.start(deps)
  }
  const ids: string[] = []
  for (let i = 0; i < 7; i++) ids.push(await createRun(all[i % 2]!, 'a'))
  for (const id of ids) await seen(id)
  const started: string[] = []
  while (started.length < 7) {
    const next = await takeNext(all[started.length % 2]!)
    if (typeof next === 'object') started.push(next.run_id)
    else await new Promise(done => setTimeout(done, 5))
  }
  t.same(started, ids, 'in the order of their creation')
  const starts = await startsOf(store, ids)
  for (const [i, from] of starts.entries())
    for (const [j, to] of starts.entries())
      if (j >= i) t.ok(j - i < 2 + Math.floor((to - from) / 100), `${j - i + 1} starts in ${to - from} ms`)
  while ((await store.records.due('rate', Number.MAX_SAFE_INTEGER, 9)).length > 0)
    await new Promise(done => setTimeout(done, 20))
  t.pass('a tenant without starts that count leaves nothing behind')
})

/** The stored times of the first starts, earliest first. */
async function startsOf(store: Deps['store'], ids: string[]): Promise<number[]> {
  const found = (await store.runs.summary(ids)).map(({ started_at }) => started_at)
  return found.filter(at => at !== null).sort((a, b) => a - b)
}
