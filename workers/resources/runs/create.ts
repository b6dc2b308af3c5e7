/**
 * Creating a run. Accepted = its row is stored durably and the thread row has taken it; the wake-up comes after.
 * Order of checks: API threads-and-runs 8.1. Repeatable by run id: a repeated create answers the stored run.
 */
import { v7 } from 'uuid'
import type { Context, Reply } from '../../../bus/serve.js'
import type { CallHead } from '../../../schemas/calls.js'
import { fail } from '../../../schemas/errors.js'
import type { JsonObject } from '../../../schemas/json.js'
import type { RunCreate } from '../../../schemas/runs.js'
import type { RunRow } from '../../../store/port.js'
import type { Deps } from '../context.js'
import { accept, acceptNew, type Expects, wakeWhenDue } from './accept.js'
import { type Once, recall, recordOf, shortText } from './idempotency.js'
import { isStateless, prepare } from './prepare.js'
import { answer } from './view.js'

interface Conditions {
  /** What its Idempotency-Key stands for. */
  once?: Once
  expects?: Expects
}

export async function create(
  deps: Deps,
  body: RunCreate,
  { head }: Context,
  { once, expects }: Conditions = {},
): Promise<Reply> {
  const run_id = head.run?.run_id ?? v7()
  const stored = once === undefined ? null : await recall(deps, once, run_id)
  if (stored !== null) return stored
  const run = { ...(await prepare(deps, body, head, run_id)), idempotency_id: once?.id ?? null }
  const stateless = isStateless(head)
  const record = once === undefined ? null : recordOf(once, run, { run_id, stateless, text: shortText(run) })
  const outcome = stateless
    ? await acceptNew(deps, run, record)
    : await deps.inTurn(run.thread_id, () => accept(deps, run, body.if_not_exists === 'create', record, expects))
  if (outcome === 'taken')
    return (await recall(deps, once!, run_id)) ?? create(deps, body, { head } as Context, { once, expects })
  if (outcome === 'known') return answerKnown(deps, run, stateless)
  if (outcome === 'first' || run.due_at > 0) wakeWhenDue(deps, run)
  return answer(run, stateless)
}

export interface Place {
  app: string
  run_id: string
  thread_id: string
  /** The run brings its thread, with this metadata beside its own; null: the thread is there. */
  brings: JsonObject | null
}

/** A run in the background that nobody waits for. False: it was there already. Throws why it is refused. */
export async function place(deps: Deps, body: RunCreate, { app, run_id, thread_id, brings }: Place): Promise<boolean> {
  const head: CallHead = {
    request_id: run_id,
    app,
    ...(brings === null ? { params: { thread_id } } : {}),
    run: { run_id, mode: 'background' },
  }
  const run = await prepare(deps, body, head, run_id, thread_id)
  const outcome =
    brings === null
      ? await deps.inTurn(thread_id, () => accept(deps, run, false, null))
      : await acceptNew(deps, run, null, brings)
  if (outcome === 'first' || (outcome === 'waits' && run.due_at > 0)) wakeWhenDue(deps, run)
  return outcome !== 'known'
}

async function answerKnown(deps: Deps, run: RunRow, stateless: boolean): Promise<Reply> {
  const stored = await deps.store.runs.get(run.run_id)
  if (stored === null) throw fail('unavailable', 'The run is being accepted; ask again')
  if (stored.status !== 'accepting') return answer(stored, stateless)
  // Cut short before its thread was made, or before the run was shown: this create brought another thread id along.
  if (!stateless) throw fail('unavailable', 'The run is being accepted; ask again')
  if ((await acceptNew(deps, stored)) === 'first') wakeWhenDue(deps, stored)
  return answer(stored, stateless)
}
