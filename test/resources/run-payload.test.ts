/** Runs of large assistants refer to them: a host receives the same payload as with a copy. */
import fc from 'fast-check'
import t from 'tap'
import { v7 } from 'uuid'
import type { Context, Reply } from '../../bus/serve.js'
import { BUILT_IN_APP } from '../../schemas/ids.js'
import { unpack } from '../../schemas/packed.js'
import type { RunCreate } from '../../schemas/runs.js'
import { wholeApp } from '../../workers/resources/access.js'
import { createAssistant } from '../../workers/resources/assistants/create.js'
import { patchAssistant } from '../../workers/resources/assistants/versions.js'
import type { Deps } from '../../workers/resources/context.js'
import { create } from '../../workers/resources/runs/create.js'
import { leases } from '../../workers/resources/runs/lease.js'
import { kwargsOf, readReference } from '../../workers/resources/runs/payload.js'
import { stage } from './stage.js'

const PAD = 'x'.repeat(9_000)

const value = fc.oneof(fc.constant(null), fc.integer({ min: 0, max: 9 }), fc.constantFrom('a', 'b'))
const key = fc.constantFrom(
  'a',
  'user_id',
  'thread_id',
  'langgraph_auth_user',
  '__pregel_x',
  '__proto__',
  'checkpoint_id',
)
const members = fc.dictionary(key, value)
const section = fc.option(members, { nil: undefined })
const config = fc.record(
  {
    tags: fc.option(fc.array(fc.constant('t'), { maxLength: 2 }), { nil: null }),
    recursion_limit: fc.option(fc.constantFrom(1, 2), { nil: null }),
    configurable: fc.option(members, { nil: null }),
    metadata: fc.option(members, { nil: null }),
    other: value,
  },
  { requiredKeys: [] },
)
const context = fc.oneof(fc.constant(null), fc.constant('text'), members)

t.test('a payload merged at the claim equals one copied at the creation', t => {
  const body = fc.record(
    { config, context, checkpoint_id: fc.constantFrom('c'), input: value, stream_mode: fc.constant('values') },
    { requiredKeys: [] },
  )
  const base = fc.record({ config, context })
  fc.assert(
    fc.property(body, base, section, members, (body, base, headers, metadata) => {
      const options = {
        ids: { graph_id: 'g', thread_id: 'own', run_id: 'r' },
        metadata: metadata as never,
        temporary: false,
        ...(headers && { headers: headers as never }),
      }
      const row = (pad: object) => ({
        config: JSON.stringify({ ...base.config, ...pad }),
        context: JSON.stringify(base.context),
        version: 1,
        created_at: 1,
      })
      const copied = JSON.parse(kwargsOf(body as RunCreate, row({}), options))
      const run = {
        kwargs: kwargsOf(body as RunCreate, row({ pad: PAD }), options),
        metadata: JSON.stringify(metadata),
      }
      const { config, ...rest } = JSON.parse(readReference(run)!.whole(row({ pad: PAD })))
      const { pad, ...merged } = config
      t.equal(pad, PAD)
      t.strictSame({ ...rest, config: merged }, copied)
      return run.kwargs.length < 2_000
    }),
    { numRuns: 500 },
  )
  t.end()
})

async function withRun(deps: Deps, assistant_id: string) {
  const run_id = v7()
  const thread_id = v7()
  await create(
    deps,
    { assistant_id, config: { configurable: { own: 1 } }, after_seconds: 0 },
    { app: BUILT_IN_APP, run_id, thread_id, mode: 'background', brings: {} },
  )
  const { claim } = leases(deps) as unknown as { claim: { handle(value: unknown, context: Context): Promise<Reply> } }
  const context = {
    head: { request_id: 'x' },
    from: '',
    sender: { app: BUILT_IN_APP, pool: 'default' },
    deadline: Date.now() + 10_000,
    log: deps.link.log,
  }
  return {
    run: async () => (await deps.store.runs.get(run_id))!,
    claim: () => claim.handle({ run_id, thread_id, worker: 'w' }, context),
  }
}

const configurableIn = ({ body }: Reply) =>
  (unpack(body as Uint8Array).head as { kwargs: { config: { configurable: object } } }).kwargs.config.configurable

t.test('a run gets the version of its assistant that it was created with', async t => {
  const { all } = await stage(t, 1)
  const deps = all[0]!
  const access = wholeApp(BUILT_IN_APP)
  const given = { graph_id: 'g', config: { configurable: { pad: PAD, v: 1 } } }
  const { assistant_id } = await createAssistant(deps, access, given as never)
  const first = await withRun(deps, assistant_id)
  t.ok((await first.run()).kwargs.length < 1_000)
  const row = (await deps.store.assistants.get(BUILT_IN_APP, assistant_id))!
  await patchAssistant(deps, row, { config: { configurable: { pad: PAD, v: 2 } } })
  const second = await withRun(deps, assistant_id)
  t.match(configurableIn(await first.claim()), { pad: PAD, v: 1, own: 1, assistant_id })
  t.match(configurableIn(await second.claim()), { pad: PAD, v: 2, own: 1, assistant_id })
})

t.test('a run whose assistant was deleted, or created again with the same id, ends with that error', async t => {
  const { all } = await stage(t, 1)
  const deps = all[0]!
  const access = wholeApp(BUILT_IN_APP)
  const given = { graph_id: 'g', config: { configurable: { pad: PAD } } }
  for (const again of [false, true]) {
    const { assistant_id } = await createAssistant(deps, access, given as never)
    const run = await withRun(deps, assistant_id)
    await deps.store.apply([{ step: 'assistants.remove', app: BUILT_IN_APP, assistant_id }])
    if (again) await createAssistant(deps, access, { ...given, assistant_id } as never)
    t.match(await run.claim(), { head: { claim: 'ended' } })
    const { status, error } = await run.run().catch(() => ({ status: 'removed', error: '' }))
    if (status !== 'removed') t.match([status, error], ['error', /AssistantNotFound/])
  }
})
