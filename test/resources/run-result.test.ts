/** The answer of wait while the end of a run is written step by step. */
import t from 'tap'
import { v7 } from 'uuid'
import type { Context, Reply } from '../../bus/serve.js'
import type { CallHead, Lease } from '../../schemas/calls.js'
import { BUILT_IN_APP } from '../../schemas/ids.js'
import { resultText } from '../../workers/resources/rows/text.js'
import { newThread } from '../../workers/resources/rows/thread.js'
import { create } from '../../workers/resources/runs/create.js'
import { leases } from '../../workers/resources/runs/lease.js'
import { runs } from '../../workers/resources/runs/rpc.js'
import { stage } from './stage.js'

type Handler = { handle(value: unknown, context: Context): Promise<Reply> }

t.test('the result of a run is not read from its thread before it is stored there', async t => {
  const { store, all } = await stage(t, 1)
  const deps = all[0]!
  const context = (head: Partial<CallHead>): Context => ({
    head: { request_id: 'x', ...head },
    from: '',
    sender: { app: BUILT_IN_APP, pool: 'default' },
    log: deps.link.log,
  })
  const { result, join } = runs(deps) as unknown as { result: Handler; join: Handler }
  const { claim } = leases(deps) as unknown as { claim: Handler }
  const row = newThread({ app: BUILT_IN_APP, thread_id: v7() })
  const { thread_id } = row
  const run_id = v7()
  await store.apply([{ step: 'threads.insert', row }])
  await create(deps, { assistant_id: 'g' }, { app: BUILT_IN_APP, run_id, thread_id, mode: 'background', brings: null })
  const lease = (await claim.handle({ run_id, thread_id, worker: 'w' }, context({}))).head?.lease as Lease
  const params = { thread_id, run_id }
  const asked = () => result.handle(undefined, context({ params: { run_id } }))
  const joined = () => join.handle(undefined, context({ params, run: { run_id, mode: 'wait' } }))
  await t.rejects(asked(), { code: 'conflict' }, 'it runs')

  const now = Date.now()
  await store.apply([
    {
      step: 'runs.patch',
      run_id,
      where: { token: lease.token },
      set: { status: 'success', ended_at: now, updated_at: now },
    },
  ])
  await t.rejects(asked(), { code: 'unavailable' }, 'it has ended, but its result is not stored yet')
  t.equal((await joined()).body, undefined)

  const values = Buffer.from('{"a":1}')
  const { rev } = (await store.threads.get(BUILT_IN_APP, thread_id))!
  await store.apply([
    { step: 'threads.state', thread_id, latest_checkpoint_id: 'c', values, rest: null },
    {
      step: 'threads.patch',
      thread_id,
      where: { rev, token: lease.token },
      set: { active: null, latest_checkpoint_id: 'c' },
    },
  ])
  for (const { body } of [await asked(), await joined()]) t.equal(Buffer.from(body!).toString(), '{"a":1}')
})

t.test('interrupts and URLs for feedback are members of the values', async t => {
  const text = (values: string | null, interrupts: unknown[] = [], feedback: object | null = null, error?: object) =>
    resultText(values === null ? null : Buffer.from(values), interrupts, error ? JSON.stringify(error) : null, feedback)
  const asked = [{ value: 'sure?' }]
  const urls = { good: 'https://feedback.test/good' }
  const both = { __interrupt__: asked, __feedback__: urls }
  const rows: [found: string, wanted: unknown][] = [
    [text(null), {}],
    [text('null'), {}],
    [text('{}', [], urls), { __feedback__: urls }],
    [text('null', [], urls), { __feedback__: urls }],
    [text('{"a":1}', [], urls), { a: 1, __feedback__: urls }],
    [text('{"a":1}', asked, urls), { a: 1, ...both }],
    [text(null, asked, urls), both],
    [text('{"a":1}', asked), { a: 1, __interrupt__: asked }],
    // The result of an entrypoint.
    [text('7', [], urls), 7],
    [text('7', asked, urls), both],
    [text('{"a":1}', asked, urls, { error: 'E', message: 'm' }), { __error__: { error: 'E', message: 'm' } }],
  ]
  for (const [found, wanted] of rows) t.same(JSON.parse(found), wanted, found)
})
