import t, { type Test } from 'tap'
import { v7 } from 'uuid'
import type { Context, Reply } from '../../bus/serve.js'
import type { CallHead, Lease } from '../../schemas/calls.js'
import type { SaveHead } from '../../schemas/checkpoints.js'
import type { FinishHead } from '../../schemas/host.js'
import { BUILT_IN_APP } from '../../schemas/ids.js'
import { pack } from '../../schemas/packed.js'
import { isTerminal, type RunCreate } from '../../schemas/runs.js'
import type { Deps } from '../../workers/resources/context.js'
import { newThread } from '../../workers/resources/rows/thread.js'
import { cancel } from '../../workers/resources/runs/cancel.js'
import { create } from '../../workers/resources/runs/create.js'
import { keyOf } from '../../workers/resources/runs/idempotency.js'
import { leases } from '../../workers/resources/runs/lease.js'
import { targetOf } from '../../workers/resources/runs/prepare.js'
import { remove } from '../../workers/resources/runs/remove.js'
import { dropOrphan, repair } from '../../workers/resources/runs/repair.js'
import { bytes, checkpoint } from '../store/conformance-rows.js'
import { Crash, type Stepwise, stage, stepwise } from './stage.js'

t.test('every crash point between the steps of create, claim, end and cancel', async t => {
  const { store: real, all } = await stage(t, 1, stepwise)
  const [deps] = all as [Deps & { store: Stepwise }]
  const { store, link } = deps
  type Handler = { handle(value: unknown, context: Context): Promise<Reply> }
  const handlers = leases(deps) as unknown as { claim: Handler; finish: Handler }
  const context = (head: Partial<CallHead>): Context => ({
    head: { request_id: 'x', ...head },
    from: '',
    sender: { app: BUILT_IN_APP, pool: 'default' },
    log: link.log,
  })
  const make = async (thread_id: string, run_id = v7(), more: Partial<RunCreate> = {}) => {
    const target = { app: BUILT_IN_APP, run_id, thread_id, mode: 'background', brings: null } as const
    await create(deps, { assistant_id: 'g', ...more }, target)
    return run_id
  }
  const claim = async (thread_id: string, run_id: string) => {
    const { head } = await handlers.claim.handle({ run_id, thread_id, worker: 'w' }, context({}))
    return head?.claim === 'taken' ? (head.lease as Lease) : null
  }
  /** With a last save: the checkpoint `head` and its state. */
  const finish = (lease: Lease, head = `end of ${lease.run_id}`) => {
    const values = Buffer.from('{}')
    const rest = Buffer.from('"next":[],"tasks":[]}')
    const save = pack({ checkpoints: [checkpoint(head, lease.attempt)], blobs: [], writes: [] } satisfies SaveHead, [
      bytes(`value of ${head}`),
      bytes(`metadata of ${head}`),
    ])
    const sizes = { values_size: values.length, rest_size: rest.length, save_size: save.length }
    const ending = {
      status: 'success' as const,
      error: null,
      last_event_id: 1,
      head,
      next: [],
      interrupts: {},
      ...sizes,
    }
    return handlers.finish.handle(pack(ending satisfies FinishHead, [values, rest, save]), context({ lease }))
  }
  const thread = async () => {
    const row = newThread({ app: BUILT_IN_APP, thread_id: v7() })
    await real.apply([{ step: 'threads.insert', row }])
    return row.thread_id
  }
  const crashes = async (at: number, work: () => Promise<unknown>) => {
    store.crashBefore(at)
    const crashed = await work().then(
      () => false,
      error => {
        if (error instanceof Crash) return true
        throw error
      },
    )
    store.crashBefore(Number.POSITIVE_INFINITY)
    return crashed
  }
  /** The sweeper when rows are 30 s old. */
  const heal = async (thread_id: string) => {
    for (const run of await real.runs.unsettled(1_000)) if (run.thread_id === thread_id) await dropOrphan(deps, run)
    for (let i = 0; i < 3; i++) await repair(deps, (await real.threads.get(BUILT_IN_APP, thread_id))!)
  }
  /** Runs the remaining runs to their end, one at a time; then the thread is idle. */
  const drains = async (t: Test, thread_id: string) => {
    for (let i = 0; i < 10; i++) {
      const row = (await real.threads.get(BUILT_IN_APP, thread_id))!
      if (row.active !== null) {
        const [run] = await real.runs.summary([row.active.run_id])
        t.match(
          run,
          { status: 'running', token: row.active.token, attempt: row.active.attempt },
          'who holds the thread is running',
        )
        await finish({ ...row.active, thread_id })
      } else if (row.queue.length > 0) {
        const lease = await claim(thread_id, row.queue[0]!.run_id)
        if (lease !== null) await finish(lease)
      } else break
    }
    const row = (await real.threads.get(BUILT_IN_APP, thread_id))!
    t.match(row, { active: null, queue: [], status: 'idle' }, 'the thread is idle')
    t.equal(
      (await real.runs.unsettled(1_000)).filter(run => run.thread_id === thread_id).length,
      0,
      'no run is left behind',
    )
  }
  const statusOf = async (run_id: string) => (await real.runs.summary([run_id]))[0]?.status ?? 'none'

  for (let at = 0; at < 3; at++) {
    await t.test(`create, before step ${at}`, async t => {
      const thread_id = await thread()
      const run_id = v7()
      t.ok(await crashes(at, () => make(thread_id, run_id)))
      if (at === 2) {
        await make(thread_id, run_id).catch(() => {})
      }
      await heal(thread_id)
      t.equal(
        await statusOf(run_id),
        at < 2 ? 'none' : 'pending',
        'before the thread row it was never accepted, after it it was',
      )
      await make(thread_id, run_id)
      t.equal(await statusOf(run_id), 'pending', 'a repeated create with the same id makes one run')
      t.equal((await real.threads.get(BUILT_IN_APP, thread_id))!.queue.length, 1)
      await drains(t, thread_id)
      t.equal(await statusOf(run_id), 'success')
    })
  }

  // Its steps: the run row, the key, the thread row, the status of the run.
  for (let at = 0; at < 4; at++) {
    await t.test(`create with an Idempotency-Key, before step ${at}`, async t => {
      const thread_id = await thread()
      const [first, second, third] = [v7(), v7(), v7()]
      const key = v7()
      const ask = async (run_id: string) => {
        const head: CallHead = {
          request_id: 'x',
          params: { thread_id },
          run: { run_id, mode: 'background' },
          idempotency_key: key,
        }
        const { head: answer } = await create(deps, { assistant_id: 'g' }, targetOf(head), {
          key: keyOf(head, bytes('{}')),
        })
        return answer!.run!.run_id
      }
      t.ok(await crashes(at, () => ask(first)))
      // Another request: only the key tells that it is the same.
      if (at < 2) t.equal(await ask(second), second, 'the first request has no answer')
      else await t.rejects(ask(second), { code: 'conflict' }, 'under way')
      await heal(thread_id)
      t.equal(await ask(third), [second, second, third, first][at], 'after the sweep one run has the key')
      t.equal((await real.threads.get(BUILT_IN_APP, thread_id))!.queue.length, 1)
      await drains(t, thread_id)
      t.equal(await ask(v7()), [second, second, third, first][at], 'and keeps it when it has ended')
    })
  }

  // Its steps: the thread row, the state, the checkpoints, the run row.
  for (let at = 0; at < 4; at++) {
    await t.test(`delete of a run, before step ${at}`, async t => {
      const thread_id = await thread()
      for (const head of ['first', 'second']) await finish((await claim(thread_id, await make(thread_id)))!, head)
      const [newest] = await real.runs.list({ thread_id, limit: 1 })
      const gone = () => remove(deps, newest!, context({}))
      t.ok(await crashes(at, gone))
      await gone()
      t.same(await real.runs.summary([newest!.run_id]), [])
      t.match(await real.threads.get(BUILT_IN_APP, thread_id), {
        latest_checkpoint_id: 'first',
        status: 'idle',
        active: null,
      })
      t.equal((await real.checkpoints.get({ thread_id }))!.id, 'first')
      t.equal(await real.checkpoints.get({ thread_id, checkpoint_id: 'second' }), null)
      await make(thread_id)
      await drains(t, thread_id)
    })
  }

  for (let at = 0; at < 2; at++) {
    await t.test(`claim, before step ${at}`, async t => {
      const thread_id = await thread()
      const run_id = await make(thread_id)
      const next = await make(thread_id)
      t.ok(await crashes(at, () => claim(thread_id, run_id)))
      await heal(thread_id)
      await drains(t, thread_id)
      t.same([await statusOf(run_id), await statusOf(next)], ['success', 'success'])
    })
  }

  // Its steps: the save, the head, the run row, the state, the thread row.
  for (const [at, repeated] of [0, 1, 2, 3, 4].flatMap(at => [[at, true] as const, [at, false] as const])) {
    await t.test(`end, before step ${at}, ${repeated ? 'repeated' : 'found by the sweeper'}`, async t => {
      const thread_id = await thread()
      const run_id = await make(thread_id)
      const next = await make(thread_id)
      const lease = (await claim(thread_id, run_id))!
      t.ok(await crashes(at, () => finish(lease)))
      if (repeated) await finish(lease)
      else await heal(thread_id)
      if (repeated || at > 2)
        t.match(
          await real.threads.get(BUILT_IN_APP, thread_id),
          { active: null, latest_checkpoint_id: `end of ${run_id}`, settled: 'idle' },
          'what it saved last is the head',
        )
      await drains(t, thread_id)
      t.same([await statusOf(run_id), await statusOf(next)], ['success', 'success'])
    })
  }

  for (let at = 0; at < 2; at++) {
    await t.test(`cancel of a pending run, before step ${at}`, async t => {
      const thread_id = await thread()
      const run_id = await make(thread_id)
      const next = await make(thread_id)
      t.ok(await crashes(at, () => cancel(deps, run_id, 'interrupt', 'cancelled: by a test')))
      await heal(thread_id)
      if (at === 0) await cancel(deps, run_id, 'interrupt', 'cancelled: by a test')
      await drains(t, thread_id)
      t.same([await statusOf(run_id), await statusOf(next)], ['interrupted', 'success'])
    })
  }

  for (let at = 0; at < 5; at++) {
    await t.test(`a run that interrupts the one before it, before step ${at}`, async t => {
      const thread_id = await thread()
      const run_id = await make(thread_id)
      const lease = (await claim(thread_id, run_id))!
      const second = v7()
      await crashes(at, () => make(thread_id, second, { multitask_strategy: 'interrupt' }))
      await heal(thread_id)
      const again = await make(thread_id, second, { multitask_strategy: 'interrupt' }).then(
        () => true,
        () => false,
      )
      t.ok(again, 'the repeated create is answered')
      await finish(lease)
      await drains(t, thread_id)
      t.ok(isTerminal(await statusOf(run_id)))
      t.equal(await statusOf(second), 'success')
    })
  }
})
