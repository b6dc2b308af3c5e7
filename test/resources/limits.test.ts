import t from 'tap'
import { v7 } from 'uuid'
import type { Context, Reply } from '../../bus/serve.js'
import type { Registration } from '../../schemas/announcements.js'
import { containsAll } from '../../schemas/contains.js'
import { BUILT_IN_APP } from '../../schemas/ids.js'
import { wholeApp } from '../../workers/resources/access.js'
import { createAssistant } from '../../workers/resources/assistants/create.js'
import { register } from '../../workers/resources/assistants/register.js'
import type { Deps } from '../../workers/resources/context.js'
import { crons } from '../../workers/resources/crons/rpc.js'
import { newRecord } from '../../workers/resources/rows/record.js'
import { newThread } from '../../workers/resources/rows/thread.js'
import { createBatch } from '../../workers/resources/runs/batch.js'
import { create } from '../../workers/resources/runs/create.js'
import { findByKey, type IdempotencyKey, KIND, removeExpiredKeys } from '../../workers/resources/runs/idempotency.js'
import { remove } from '../../workers/resources/runs/remove.js'
import { removeThread } from '../../workers/resources/threads/remove.js'
import { stage } from './stage.js'

/** Announces it like its graph worker. */
const announce = (registration: Registration, deps: Deps) => register(registration, registration, deps)

interface Handler {
  handle(value: unknown, context: Context): Promise<Reply>
}

const batchTarget = () =>
  ({ app: BUILT_IN_APP, run_id: v7(), thread_id: v7(), mode: 'background', brings: {} }) as const

t.test('a small batch with a large assistant stores few bytes', async t => {
  const { store, all } = await stage(t, 1)
  const deps = all[0]!
  const config = { configurable: { text: 'x'.repeat(900_000) } }
  const { assistant_id } = await createAssistant(deps, wholeApp(BUILT_IN_APP), { graph_id: 'g', config } as never)
  const bodies = Array.from({ length: 100 }, () => ({ assistant_id, after_seconds: 1e6 }))
  const { body } = await createBatch(deps, bodies, batchTarget())
  t.ok(body!.length < 200_000, `the answer has ${body!.length} characters`)
  const made = await store.runs.startsDue(Number.MAX_SAFE_INTEGER, 1_000)
  t.equal(made.length, 100)
  const rows = await Promise.all(made.map(({ run_id }) => store.runs.get(run_id)))
  t.ok(rows.every(row => row!.kwargs.length < 2_000))
})

t.test('a batch whose runs are together larger than a body is refused', async t => {
  const { store, all } = await stage(t, 1, undefined, { body_limit: 400_000 })
  const deps = all[0]!
  const config = { configurable: { text: 'x'.repeat(7_000) } }
  const { assistant_id } = await createAssistant(deps, wholeApp(BUILT_IN_APP), { graph_id: 'g', config } as never)
  const bodies = Array.from({ length: 100 }, () => ({ assistant_id, after_seconds: 1e6 }))
  await t.rejects(createBatch(deps, bodies, batchTarget()), { code: 'too_large', message: /send fewer/ })
  t.same(await store.runs.unsettled(10), [], 'no run of it was stored')
  await createBatch(deps, bodies.slice(0, 3), batchTarget())
  t.equal((await store.runs.startsDue(Number.MAX_SAFE_INTEGER, 10)).length, 3)
})

t.test('an assistant that is too large is refused', async t => {
  const { all } = await stage(t, 1)
  const config = { configurable: { text: 'x'.repeat(1_100_000) } }
  await t.rejects(createAssistant(all[0]!, wholeApp(BUILT_IN_APP), { graph_id: 'g', config } as never), {
    code: 'invalid',
    message: /for the assistant/,
  })
  const metadata = { text: 'x'.repeat(66_000) }
  await t.rejects(createAssistant(all[0]!, wholeApp(BUILT_IN_APP), { graph_id: 'g', metadata } as never), {
    code: 'invalid',
    message: /^metadata: expected at most 65536/,
  })
})

t.test('a cron that is too large is refused when it is created and when it is changed', async t => {
  const { all } = await stage(t, 1)
  const { create, update } = crons(all[0]!) as unknown as { [verb in 'create' | 'update']: Handler }
  const context = (params = {}) =>
    ({ head: { request_id: 'x', params }, from: '', deadline: Date.now() + 10_000, log: all[0]!.link.log }) as Context
  const payload = (size: number) => ({ assistant_id: 'g', schedule: '0 0 1 1 *', input: { text: 'x'.repeat(size) } })
  const tooLarge = { code: 'invalid', message: /expected at most 1048576 characters of JSON for the cron, got 1[12]/ }
  await t.rejects(create.handle(payload(1_100_000), context()), tooLarge)
  const { body } = await create.handle(payload(1_000), context())
  const { cron_id } = JSON.parse(`${body}`) as { cron_id: string }
  await t.rejects(update.handle({ input: { text: 'x'.repeat(1_100_000) } }, context({ cron_id })), tooLarge)
})

t.test('the comparisons of one search are limited together', t => {
  const stored = { a: Array.from({ length: 1_000 }, (_, i) => ({ i })) }
  const filter = { a: [...stored.a].reverse() }
  const isContained = containsAll(filter)
  t.throws(() => {
    for (let i = 0; i < 150; i++) isContained(stored)
  }, /too large to be compared/)
  const small = containsAll({ owner: 'a', tags: ['x'] })
  for (let i = 0; i < 200_000; i++) small({ owner: 'a', tags: ['x', 'y'] })
  t.pass('a search over many small documents is not')
  t.end()
})

t.test('idempotency keys are removed as fast as they are created', async t => {
  const { store, all } = await stage(t, 1)
  const due_at = Date.now() - 1
  const rows = Array.from({ length: 1_700 }, (_, i) => newRecord(KIND, `k${i}`, { body: '{}', due_at }))
  await store.apply(rows.map(row => ({ step: 'records.insert' as const, row })))
  await store.apply([{ step: 'records.insert', row: newRecord(KIND, 'later', { body: '{}', due_at: due_at + 1e6 }) }])
  await removeExpiredKeys(all[0]!)
  t.same(await store.records.due(KIND, due_at, 10), [])
  t.ok(await store.records.get(KIND, 'later'))
})

t.test('an idempotency key loses its payload with its run, and is removed with its thread', async t => {
  const { store, all } = await stage(t, 1)
  const deps = all[0]!
  const row = newThread({ app: BUILT_IN_APP, thread_id: v7() })
  await store.apply([{ step: 'threads.insert', row }])
  const make = async (id: string) => {
    const key: IdempotencyKey = { id, app: BUILT_IN_APP, fingerprint: 'f' }
    const run_id = v7()
    const target = { app: BUILT_IN_APP, run_id, thread_id: row.thread_id, mode: 'background', brings: null } as const
    await create(deps, { assistant_id: 'g', input: 'a prompt' }, target, { key })
    t.ok(await findByKey(deps, key, v7()), 'a repeat is answered')
    await store.apply([{ step: 'runs.patch', run_id, where: {}, set: { status: 'success', ended_at: Date.now() } }])
    return (await store.runs.summary([run_id]))[0]!
  }
  await remove(deps, await make('of a run'), { head: { request_id: 'x' } } as never)
  const kept = (await store.records.get(KIND, 'of a run'))!
  t.notMatch(kept.body, /a prompt/)
  t.match(kept.body, /run_id/, 'it still answers, so that no second run is created')
  await make('of a thread')
  await store.apply([
    { step: 'threads.patch', thread_id: row.thread_id, where: {}, set: { queue: [], status: 'idle' } },
  ])
  await removeThread(deps, (await store.threads.get(BUILT_IN_APP, row.thread_id))!)
  t.equal(await store.records.get(KIND, 'of a thread'), null)
})

t.test('a run of an unknown graph names the graphs of the application, and why one could not be loaded', async t => {
  const { all } = await stage(t, 1)
  const deps = all[0]!
  const registration = { app: BUILT_IN_APP, pool: 'default', graphs: [{ graph_id: 'agent' }] }
  const failed = [
    { graph_id: 'paths', error: "Cannot find package '@/lib'" },
    { graph_id: 'named', error: 'Graph "named": the file none.ts does not exist.' },
  ]
  await announce({ ...registration, failed }, deps)
  const run = (assistant_id: string) => create(deps, { assistant_id }, batchTarget())
  await t.rejects(run('agnet'), { code: 'not_found', message: /^No assistant found for "agnet".* Graphs: agent\.$/ })
  await t.rejects(run('paths'), {
    code: 'not_found',
    message: 'The graph "paths" could not be loaded: Cannot find package \'@/lib\'',
  })
  await t.rejects(run('named'), { message: /^Graph "named": the file none\.ts does not exist\.$/ }, 'not named twice')
  await announce({ ...registration, graphs: [{ graph_id: 'agent' }, { graph_id: 'paths' }] }, deps)
  t.match(await run('paths'), { head: { run: { status: 'pending' } } }, 'it was mended')
})
