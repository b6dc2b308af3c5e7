/** Runs that are claimed by the commit that accepts them: what the graph worker gets, and what happens when it does not. */
import t from 'tap'
import { v7 } from 'uuid'
import { bytesHandler, serve } from '../../bus/serve.js'
import type { HandOver, SlotOffer, SlotRequest } from '../../schemas/calls.js'
import { fail } from '../../schemas/errors.js'
import { BUILT_IN_APP, type Pool, token } from '../../schemas/ids.js'
import { unpack } from '../../schemas/packed.js'
import type { RunCreate } from '../../schemas/runs.js'
import { control, slots } from '../../schemas/subjects.js'
import type { Deps } from '../../workers/resources/context.js'
import { newThread } from '../../workers/resources/rows/thread.js'
import { createBatch } from '../../workers/resources/runs/batch.js'
import { cancel } from '../../workers/resources/runs/cancel.js'
import { create } from '../../workers/resources/runs/create.js'
import { dropOrphan, repair } from '../../workers/resources/runs/repair.js'
import { until } from '../helpers/until.js'
import { type Stage, type Stepwise, stage, stepwise } from './stage.js'

const POOL = token<'pool'>('pool', 'default') as Pool

interface Handed {
  hand_over: HandOver
  head: { run_id: string; attempt: number; kwargs: { input: unknown } }
}

/** A graph worker that offers slots. `onStart` decides on each run; what it throws is the answer. */
async function graphWorker({ connect }: Stage, onStart: (handed: Handed) => Promise<void> | void = () => {}) {
  const link = await connect('graphs')
  const handed: Handed[] = []
  const offer = (member: string): SlotOffer => ({ member, worker: 'w', slots: 64, stamp: performance.now() })
  const start = bytesHandler(async (body, { head }) => {
    const one = { hand_over: head.hand_over!, head: unpack<Handed['head']>(body).head }
    handed.push(one)
    await onStart(one)
    return { body: JSON.stringify(offer(served.member)) }
  })
  const served = serve(link, `host.${POOL}`, 'graphs', { start })
  let asked = 0
  const subscription = link.subscribe(slots(POOL), message => {
    t.type(message.json<SlotRequest>().asker, 'string')
    asked++
    message.respond(JSON.stringify(offer(served.member)))
  })
  await link.nc.flush()
  return {
    link,
    handed,
    asked: () => asked,
    /** Answers no request for slots any more, and receives nothing. */
    async leaves() {
      subscription.unsubscribe()
      await served.quiet()
    },
  }
}

/** Resolves when a slot is offered to this resource worker. */
async function offered(deps: Deps): Promise<void> {
  await until(() => {
    const slot = deps.slots.take(POOL)
    slot?.release()
    return slot !== null
  })
}

const target = (thread_id: string | null, run_id = v7()) => ({
  app: BUILT_IN_APP,
  run_id,
  thread_id: thread_id ?? v7(),
  mode: 'background' as const,
  brings: thread_id === null ? {} : null,
})

const body = (more: Partial<RunCreate> = {}): RunCreate => ({ assistant_id: 'g', ...more })

async function newIdleThread({ store }: Pick<Stage, 'store'>): Promise<string> {
  const row = newThread({ app: BUILT_IN_APP, thread_id: v7() })
  await store.apply([{ step: 'threads.insert', row }])
  return row.thread_id
}

t.test('a run is claimed by its create while a slot is offered', async t => {
  const on = await stage(t, 1)
  const { store, all } = on
  const deps = all[0]!
  const worker = await graphWorker(on)
  const first = target(null)
  await create(deps, body(), first)
  await on.seen(first.run_id)
  t.equal(
    (await store.runs.get(first.run_id))!.status,
    'pending',
    'the first run of a pool goes through the work queue',
  )

  await offered(deps)
  const thread_id = await newIdleThread(on)
  const made = target(thread_id)
  const { head } = await create(deps, body({ input: { n: 1 } }), made)
  t.equal(head!.run!.run_id, made.run_id)
  const [run, thread] = [await store.runs.get(made.run_id), await store.threads.get(BUILT_IN_APP, thread_id)]
  t.match(run, { status: 'running', attempt: 1, worker: 'w', claim_no: 1 })
  t.match(thread, {
    status: 'busy',
    queue: [],
    claim_no: 1,
    active: { run_id: made.run_id, attempt: 1, token: run!.token },
  })
  await until(() => worker.handed.length === 1)
  t.match(worker.handed[0], {
    hand_over: { lease: { run_id: made.run_id, thread_id, attempt: 1, token: run!.token, graph_id: 'g' } },
    head: { run_id: made.run_id, attempt: 1, kwargs: { input: { n: 1 } } },
  })

  const behind = target(thread_id)
  await create(deps, body(), behind)
  t.equal((await store.runs.get(behind.run_id))!.status, 'pending', 'the next one of the thread waits')
  const delayed = target(null)
  await create(deps, body({ after_seconds: 60 }), delayed)
  t.equal((await store.runs.get(delayed.run_id))!.status, 'pending', 'so does one that is not due')

  const stateless = target(null)
  await create(deps, body({ on_completion: 'keep' }), stateless)
  t.equal((await store.runs.get(stateless.run_id))!.status, 'running')
  await createBatch(deps, [body(), body()], target(null))
  await until(() => worker.handed.length === 4)
  await create(deps, body({ input: { n: 1 } }), made)
  t.equal(worker.handed.length, 4, 'a repeated create starts nothing')
  t.equal(deps.slots.take(POOL)!.worker, 'w')
})

t.test('a run that is refused goes through the work queue, without a charge', async t => {
  const on = await stage(t, 1)
  const deps = on.all[0]!
  const worker = await graphWorker(on, () => {
    throw fail('conflict', 'No slot is kept free for this run')
  })
  for (const one of [target(null), target(await newIdleThread(on))]) {
    // A refusal ends the offer.
    await offered(deps)
    await create(deps, body(), one)
    await on.seen(one.run_id)
    t.match(await on.store.runs.get(one.run_id), { status: 'pending', attempt: 1 })
    t.match(await on.store.threads.get(BUILT_IN_APP, one.thread_id), {
      active: null,
      queue: [{ run_id: one.run_id, charges: 0 }],
    })
  }
  await offered(deps)
  await worker.leaves()
  const late = target(null)
  await create(deps, body(), late)
  await on.seen(late.run_id)
  t.match(await on.store.runs.get(late.run_id), { status: 'pending' }, 'the worker is gone')
})

t.test('a worker that is silent may have begun the run: it keeps it', async t => {
  const on = await stage(t, 1)
  const deps = on.all[0]!
  let answer = () => {}
  const silence = new Promise<void>(resolve => (answer = resolve))
  const worker = await graphWorker(on, () => {
    worker.link.nc.close()
    return silence
  })
  await offered(deps)
  const made = target(null)
  await create(deps, body(), made)
  await deps.slots.close()
  t.match(await on.store.runs.get(made.run_id), { status: 'running', attempt: 1 })
  answer()
})

t.test('a cancel that overtakes the run reaches its worker, and ends it nowhere else', async t => {
  const on = await stage(t, 2)
  const [deps, other] = on.all as [Deps, Deps]
  let arrived = () => {}
  let begin = () => {}
  const hasArrived = new Promise<void>(resolve => (arrived = resolve))
  const mayBegin = new Promise<void>(resolve => (begin = resolve))
  const worker = await graphWorker(on, async () => {
    arrived()
    await mayBegin
  })
  await offered(deps)
  const made = target(null)
  await create(deps, body(), made)
  await hasArrived
  await cancel(other, made.run_id, 'interrupt', 'cancelled: by a test')
  // More than one signal has reached nobody by now.
  await new Promise(done => setTimeout(done, 300))
  t.match(await on.store.runs.get(made.run_id), { status: 'running', cancel: 'interrupt' })
  const signalled = new Promise<void>(resolve =>
    worker.link.subscribe(control(POOL, token('run', made.run_id)), () => resolve()),
  )
  begin()
  await signalled
  t.match(await on.store.runs.get(made.run_id), { status: 'running', cancel: 'interrupt' }, 'its worker ends it')
})

t.test('every crash point of a create that claims', async t => {
  const on = await stage(t, 1, stepwise)
  const { store: real } = on
  const deps = on.all[0]! as Deps & { store: Stepwise }
  await graphWorker(on)
  const heal = async (thread_id: string) => {
    for (const run of await real.runs.unsettled(1_000)) if (run.thread_id === thread_id) await dropOrphan(deps, run)
    for (let i = 0; i < 3; i++) {
      const thread = await real.threads.get(BUILT_IN_APP, thread_id)
      if (thread !== null) await repair(deps, thread)
    }
  }
  for (const isStateless of [true, false])
    for (let at = 0; at < 3; at++)
      await t.test(`${isStateless ? 'stateless' : 'on a thread'}, before step ${at}`, async t => {
        await offered(deps)
        const made = target(isStateless ? null : await newIdleThread(on))
        deps.store.crashBefore(at)
        await t.rejects(create(deps, body(), made), { message: 'crashed' })
        if (at === 2)
          t.match(
            await real.threads.get(BUILT_IN_APP, made.thread_id),
            { active: { run_id: made.run_id } },
            'half claimed',
          )
        await heal(made.thread_id)
        const [run] = await real.runs.summary([made.run_id])
        t.equal(run?.status ?? 'none', at < 2 ? 'none' : 'pending')
        await offered(deps)
        await create(deps, body(), made)
        const [again] = await real.runs.summary([made.run_id])
        t.equal(again!.status, at < 2 ? 'running' : 'pending', 'a repeated create makes one run')
        const thread = (await real.threads.get(BUILT_IN_APP, made.thread_id))!
        t.equal(thread.queue.length + (thread.active === null ? 0 : 1), 1)
      })
})
