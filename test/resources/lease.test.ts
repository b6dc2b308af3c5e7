import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { v7 } from 'uuid'
import type { Context, Reply } from '../../bus/serve.js'
import { root } from '../../cli/root.js'
import type { CallHead, Claim, Lease, Release } from '../../schemas/calls.js'
import { BUILT_IN_APP, token } from '../../schemas/ids.js'
import { control } from '../../schemas/subjects.js'
import type { Store } from '../../store/port.js'
import type { Step } from '../../store/steps.js'
import { HEARTBEAT_MS } from '../../workers/graph/lease-client.js'
import { CONFIRMED_MS } from '../../workers/host/guards/node-gate.js'
import type { Deps } from '../../workers/resources/context.js'
import { newThread } from '../../workers/resources/rows/thread.js'
import { cancel, REASONS } from '../../workers/resources/runs/cancel.js'
import { create } from '../../workers/resources/runs/create.js'
import { endHolders } from '../../workers/resources/runs/ended-holders.js'
import { openHolders, trackHeartbeats, WATCH_MS } from '../../workers/resources/runs/holders.js'
import { leases } from '../../workers/resources/runs/lease.js'
import { figureOf } from '../helpers/figures.js'
import { checkpoint, save } from '../store/conformance-rows.js'
import { stage as openStage } from './stage.js'

const SENDER = { app: BUILT_IN_APP, pool: 'default' }

t.setTimeout(120_000)

interface Handler {
  handle(value: unknown, context: Context): Promise<Reply>
}

/** A resource worker with a clock that the test moves, and one run. */
async function stage(t: Test, wrap: (store: Store) => Store = store => store) {
  const { store, all, connect } = await openStage(t, 1, wrap)
  const clock = { ms: 0 }
  const holders = openHolders(() => clock.ms)
  const deps: Deps = { ...all[0]!, store: trackHeartbeats(all[0]!.store, holders), holders }
  const handlers = leases(deps) as unknown as { [verb in 'claim' | 'release' | 'heartbeat']: Handler }
  const context = (head: Partial<CallHead>): Context => ({
    head: { request_id: 'x', ...head },
    from: '',
    sender: SENDER,
    log: deps.link.log,
  })
  const row = newThread({ app: BUILT_IN_APP, thread_id: v7() })
  await store.apply([{ step: 'threads.insert', row }])
  const { thread_id } = row
  const run_id = v7()
  await create(deps, { assistant_id: 'g' }, { app: BUILT_IN_APP, run_id, thread_id, mode: 'background', brings: null })
  return {
    store,
    deps,
    connect,
    run_id,
    thread_id,
    clock,
    holders,
    async claim(worker: string) {
      const { head } = await handlers.claim.handle({ run_id, thread_id, worker } satisfies Claim, context({}))
      return head!
    },
    async release(lease: Lease, charge = true) {
      const error = { error: 'E', message: 'it failed' }
      const body: Release = { charge, end: null, error, last_event_id: null }
      return JSON.parse((await handlers.release.handle(body, context({ lease }))).body as string) as { ended: boolean }
    },
    heartbeat: ({ token }: Lease) => handlers.heartbeat.handle({ worker: 'w', runs: [{ run_id, token }] }, context({})),
    run: async () => (await store.runs.summary([run_id]))[0]!,
    /** A new checkpoint of the attempt. */
    async saves({ attempt, token }: Lease, id: string, seq: number) {
      const steps: Step[] = [
        { ...save(thread_id, { checkpoints: [checkpoint(id, seq)] }), run_id, attempt } as Step,
        { step: 'threads.patch', thread_id, where: { token }, set: { latest_checkpoint_id: id } },
      ]
      t.equal(await store.apply(steps), -1)
    },
  }
}

t.test('of several workers that watched a dead holder one takes the run, and the others do not', async t => {
  const { clock, claim, run, deps } = await stage(t)
  t.match(await claim('first'), { claim: 'taken', lease: { attempt: 1 } })
  const looks = await Promise.all(['a', 'b', 'c'].map(worker => claim(worker)))
  t.ok(looks.every(({ claim }) => claim === 'held'))
  clock.ms += WATCH_MS
  const claims = []
  for (const worker of ['a', 'b', 'c']) claims.push((await claim(worker)).claim)
  t.same(claims, ['taken', 'held', 'held'])
  t.match(await run(), { attempt: 2, status: 'running', worker: 'a' }, 'one attempt was charged, not three')
  t.equal(await figureOf(deps.link, 'weft_run_takeovers_total'), 1)
  t.equal(await figureOf(deps.link, 'weft_run_claims_total', { answer: 'taken' }), 2)
  t.equal(await figureOf(deps.link, 'weft_run_claims_total', { answer: 'held' }), 5)
})

t.test('a run that was just taken over is not taken again by a worker that still reads its old row', async t => {
  const { clock, claim, run, run_id, thread_id, deps } = await stage(t)
  const holders = openHolders(() => clock.ms)
  await claim('first')
  const old = (await deps.store.runs.get(run_id))!
  holders.isDead(old)
  await claim('a')
  clock.ms += WATCH_MS
  const { lease } = await claim('a')
  const reads = [old]
  const runs = { ...deps.store.runs, get: async (id: string) => reads.pop() ?? deps.store.runs.get(id) }
  const second = leases({ ...deps, holders, store: { ...deps.store, runs } }) as unknown as { claim: Handler }
  const body: Claim = { run_id, thread_id, worker: 'b' }
  const { head } = await second.claim.handle(body, {
    head: { request_id: 'x' },
    from: '',
    sender: SENDER,
    log: deps.link.log,
  })
  t.match(head, { claim: 'held' })
  t.match(await run(), { attempt: 2, worker: 'a', token: lease!.token })
})

t.test('a heartbeat that arrives during a take-over keeps the run with its holder', async t => {
  let meanwhile: (() => Promise<unknown>) | null = null
  const { clock, claim, heartbeat, run } = await stage(t, store => ({
    ...store,
    async apply(steps) {
      const work = meanwhile
      meanwhile = null
      await work?.()
      return store.apply(steps)
    },
  }))
  const lease = (await claim('first')).lease!
  await claim('other')
  clock.ms += WATCH_MS
  meanwhile = () => heartbeat(lease)
  t.equal((await claim('other')).claim, 'held')
  t.match(await run(), { attempt: 1, worker: 'first', heartbeats: 1 })
})

t.test('the wait for the next heartbeat begins with the last one, not with the first look after it', async t => {
  const { clock, claim, heartbeat } = await stage(t)
  const lease = (await claim('first')).lease!
  clock.ms += WATCH_MS
  await heartbeat(lease)
  clock.ms += WATCH_MS - 1
  t.equal((await claim('a')).claim, 'held')
  clock.ms += 1
  t.equal((await claim('a')).claim, 'taken')
})

t.test('a worker that takes a run after another taker died does not wait again', async t => {
  const { clock, claim } = await stage(t)
  await claim('first')
  await claim('a')
  clock.ms += WATCH_MS
  t.equal((await claim('b')).claim, 'taken', 'its first look, but the resource worker has watched the run')
})

t.test('heartbeats that the store could not take do not count against a run', async t => {
  let away = false
  const { clock, claim, heartbeat, run } = await stage(t, store => ({
    ...store,
    apply: steps =>
      away && steps.some(({ step }) => step === 'runs.beat')
        ? Promise.reject(new Error('the database is locked'))
        : store.apply(steps),
  }))
  const lease = (await claim('first')).lease!
  await claim('other')
  clock.ms += 3_000
  away = true
  await t.rejects(heartbeat(lease))
  away = false
  clock.ms += 3_000
  t.equal((await claim('other')).claim, 'held', 'only 3 s since the outage')
  clock.ms += 1_999
  await heartbeat(lease)
  clock.ms += 1_001
  t.equal((await claim('other')).claim, 'held', 'it sent a heartbeat after the outage')
  t.match(await run(), { attempt: 1, worker: 'first' })
  clock.ms += WATCH_MS
  t.equal((await claim('other')).claim, 'taken', 'a dead holder is still replaced')
})

t.test('outages pause the wait for a dead holder and do not start it again', async t => {
  const { clock, claim, holders, run } = await stage(t)
  await claim('first')
  await claim('other')
  let outages = 0
  while ((await claim('other')).claim === 'held') {
    clock.ms += 5_000
    // The broker answers, and is away a moment later.
    await holders.track(Promise.resolve())
    clock.ms += 1_000
    holders.reset()
    outages++
    if (outages > 10) break
  }
  t.equal(outages, 3, 'three times four or five seconds in which heartbeats could arrive')
  t.match(await run(), { attempt: 2, worker: 'other' })
})

t.test('the time of an outage does not count, however late it is noticed', async t => {
  const { clock, claim, holders } = await stage(t)
  await claim('first')
  await claim('other')
  for (let n = 0; n < 10; n++) {
    clock.ms += 11_000
    t.equal((await claim('other')).claim, 'held')
    holders.reset()
  }
})

t.test('a holder that is heard between two outages keeps its run', async t => {
  const { clock, claim, heartbeat, holders, run } = await stage(t)
  const lease = (await claim('first')).lease!
  for (let n = 0; n < 10; n++) {
    clock.ms += 3_000
    await heartbeat(lease)
    clock.ms += 2_000
    holders.reset()
    t.equal((await claim('other')).claim, 'held')
  }
  t.match(await run(), { attempt: 1, worker: 'first' })
})

t.test('a holder whose heartbeats arrive and cannot be stored keeps its run', async t => {
  let away = false
  const { clock, claim, heartbeat, holders, run } = await stage(t, store => ({
    ...store,
    apply: steps =>
      away && steps.some(({ step }) => step === 'runs.beat')
        ? Promise.reject(new Error('the database is locked'))
        : store.apply(steps),
  }))
  const lease = (await claim('first')).lease!
  for (let n = 0; n < 10; n++) {
    clock.ms += 5_000
    await holders.track(Promise.resolve())
    away = true
    await t.rejects(heartbeat(lease))
    away = false
    t.equal((await claim('other')).claim, 'held')
  }
  t.match(await run(), { attempt: 1, worker: 'first' })
})

t.test('a run whose holder is seen to end is taken over at once', async t => {
  const { clock, claim, deps, holders, run } = await stage(t)
  await claim('default-first')
  t.equal((await claim('other')).claim, 'held')
  await endHolders(deps, ['irst', 'second', 'default'])
  t.equal((await claim('other')).claim, 'held', 'those were others')
  await endHolders(deps, ['second', 'first'])
  // An outage does not bring it back.
  holders.reset()
  t.equal((await claim('other')).claim, 'taken')
  t.match(await run(), { attempt: 2, worker: 'other' })
  clock.ms += WATCH_MS - 1
  t.equal((await claim('third')).claim, 'held', 'that says nothing about the next holder')
})

t.test('a heartbeat that waits for the store keeps its run', async t => {
  let locked: Promise<void> = Promise.resolve()
  const { clock, claim, heartbeat } = await stage(t, store => ({
    ...store,
    apply: async steps => {
      if (steps.some(({ step }) => step === 'runs.beat')) await locked
      return store.apply(steps)
    },
  }))
  const lease = (await claim('first')).lease!
  await claim('other')
  let unlock = () => {}
  locked = new Promise(done => (unlock = done))
  clock.ms += 5_000
  const sent = heartbeat(lease)
  clock.ms += 1_000
  t.equal((await claim('other')).claim, 'held')
  unlock()
  await sent
  clock.ms += 5_000
  t.equal((await claim('other')).claim, 'held', 'the look is older than the heartbeat')
})

t.test('an attempt that stored a new checkpoint is not charged for the attempts before it', async t => {
  const { claim, release, saves, run } = await stage(t)
  for (let i = 1; i <= 5; i++) {
    const lease = (await claim('w')).lease!
    await saves(lease, `c${i}`, i)
    t.same(await release(lease), { ended: false }, `attempt ${i} made progress`)
  }
  for (const ended of [false, true]) t.same(await release((await claim('w')).lease!), { ended })
  t.match(await run(), { status: 'error', attempt: 7 })
  t.match(JSON.parse((await run()).error!), { message: /^The run was given up after 3 attempts: it failed$/ })
})

t.test('a run that fails three times at the same step ends', async t => {
  const { claim, release, run } = await stage(t)
  await release((await claim('w')).lease!, false)
  for (const ended of [false, false, true]) t.same(await release((await claim('w')).lease!), { ended })
  t.match(await run(), { status: 'error', attempt: 4 }, 'an attempt that was merely interrupted is not charged')
})

const settled = async (run: () => Promise<{ status: string }>) => {
  while ((await run()).status === 'running') await new Promise(next => setTimeout(next, 10))
}

for (const receives of [true, false])
  t.test(
    `a cancelled run is left to a holder that ${receives ? 'receives' : 'misses'} signals, and ended when that is dead`,
    async t => {
      const { deps, connect, clock, claim, run, run_id } = await stage(t)
      const supervisor = await connect('graphs')
      const signals: string[] = []
      if (receives)
        supervisor.subscribe(
          control(token('pool', 'default'), token('run', run_id)),
          message => void signals.push(message.string()),
        )
      await supervisor.nc.flush()
      await claim('w')
      await cancel(deps, run_id, 'interrupt', REASONS.client)
      while (receives && signals.length === 0) await new Promise(next => setTimeout(next, 10))
      if (receives) t.match(JSON.parse(signals[0]!), { do: 'cancel' })
      while (!deps.holders.prune()) await new Promise(next => setTimeout(next, 10))
      t.match(await run(), { status: 'running', cancel: 'interrupt' }, 'a holder that is cut off still starts nodes')
      clock.ms += WATCH_MS
      await settled(run)
      t.match(await run(), { status: 'interrupted', attempt: 1 }, 'no other worker had to claim it')
    },
  )

t.test('hosts stop starting nodes before their runs may be taken over', async t => {
  // A heartbeat is confirmed after it was sent, and is stored in between: what the host counts began earlier.
  t.ok(CONFIRMED_MS < WATCH_MS, 'no node of the old attempt starts beside the new one')
  t.ok(CONFIRMED_MS >= 2 * HEARTBEAT_MS, 'a lost heartbeat stops no run')
  const python = readFileSync(join(root, 'workers/host-python/weft_host/node_gate.py'), 'utf8')
  t.equal(Number(/^CONFIRMED_MS = ([\d_]+)$/m.exec(python)![1]!.replaceAll('_', '')), CONFIRMED_MS, 'also in Python')
})
