/**
 * Creating a run. Accepted = its row is stored durably and the thread row has taken it; the wake-up comes after.
 * Order of checks: docs/spec/runs.md#order-of-checks. Repeatable by run id: a repeated create answers the stored run.
 */
import type { Reply } from '../../../bus/serve.js'
import { fail } from '../../../schemas/errors.js'
import { merge } from '../../../schemas/json.js'
import type { RunCreate } from '../../../schemas/runs.js'
import type { RunRow } from '../../../store/rows/runs.js'
import { wholeApp } from '../access.js'
import type { Deps } from '../context.js'
import { accept, acceptNew, type Expects, type Outcome, wakeWhenDue } from './accept.js'
import { findByKey, type IdempotencyKey, keyRecord, shortText } from './idempotency.js'
import { withinLimit } from './key-limit.js'
import { withoutAuth } from './payload.js'
import { prepare, type Target } from './prepare.js'
import { answer } from './view.js'

const steps = [answerKey, prepareRow, expectRoom, acceptRow, answerTaken, wakeRow, answerRun] as const

interface Conditions {
  key?: IdempotencyKey
  expects?: Expects
}

interface Creation extends Conditions {
  deps: Deps
  body: RunCreate
  target: Target
  /** From prepareRow on. */
  run?: RunRow
  /** From acceptRow on. */
  outcome?: Outcome
}

export function create(deps: Deps, body: RunCreate, target: Target, conditions: Conditions = {}): Promise<Reply> {
  return withinLimit(deps, target, 1, () => createNow(deps, body, target, conditions))
}

async function createNow(deps: Deps, body: RunCreate, target: Target, conditions: Conditions): Promise<Reply> {
  const creation: Creation = { deps, body, target, ...conditions }
  for (const step of steps) {
    const reply = await step(creation)
    if (reply) return reply
  }
  throw fail('internal')
}

/** Creates a run in the background that no client waits for. False: it existed already. Throws why it is refused. */
export async function createUnattended(deps: Deps, body: RunCreate, target: Target): Promise<boolean> {
  const creation: Creation = { deps, body, target }
  await withinLimit(deps, target, 1, async () => {
    for (const step of [prepareRow, expectRoom, acceptRow, wakeRow] as const) await step(creation)
  })
  return creation.outcome !== 'known'
}

/** The Idempotency-Key was used before: the answer of the run that it made. */
async function answerKey({ deps, key, target }: Creation): Promise<Reply | null> {
  return key === undefined ? null : findByKey(deps, key, target.run_id)
}

async function prepareRow(creation: Creation): Promise<void> {
  const { deps, body, target, key } = creation
  creation.run = { ...(await prepare(deps, body, target)), idempotency_id: key?.id ?? null }
}

function expectRoom({ deps }: Creation): void {
  deps.disk.expectRoom()
}

async function acceptRow(creation: Creation): Promise<void> {
  const { deps, body, target, key, expects } = creation
  const run = creation.run!
  const { run_id, brings } = target
  const stateless = brings !== null
  const record = key === undefined ? null : keyRecord(key, run, { run_id, stateless, text: shortText(run) })
  // Like on the official server, a thread that a run creates gets the metadata of the run.
  const metadata = withoutAuth(merge(body.metadata))
  const conditions = {
    mayCreate: body.if_not_exists === 'create',
    metadata,
    access: target.access?.threads ?? wholeApp(target.app),
    expects,
  }
  creation.outcome = stateless
    ? await acceptNew(deps, run, record, { ...metadata, ...brings })
    : await deps.serialize(run.thread_id, () => accept(deps, run, conditions, record))
}

/** Another create with this Idempotency-Key was faster: its answer, or a new try when it came to nothing. */
async function answerTaken(creation: Creation): Promise<Reply | null> {
  if (creation.outcome !== 'taken') return null
  const { deps, body, target, key, expects } = creation
  return (await answerKey(creation)) ?? createNow(deps, body, target, { key, expects })
}

function wakeRow({ deps, outcome, run }: Creation): void {
  if (outcome === 'first' || (outcome === 'waits' && run!.due_at > 0)) wakeWhenDue(deps, run!)
}

async function answerRun({ deps, outcome, run, target }: Creation): Promise<Reply> {
  const stateless = target.brings !== null
  if (outcome !== 'known') return answer(run!, stateless)
  const stored = await deps.store.runs.get(run!.run_id)
  if (stored === null) throw fail('unavailable', 'The run is being accepted; ask again')
  if (stored.status !== 'accepting') return answer(stored, stateless)
  // The first try crashed before its thread was inserted or the run was shown. This one brought another thread id.
  if (!stateless) throw fail('unavailable', 'The run is being accepted; ask again')
  if ((await acceptNew(deps, stored)) === 'first') wakeWhenDue(deps, stored)
  return answer(stored, stateless)
}
