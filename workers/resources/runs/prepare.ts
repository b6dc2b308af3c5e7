/** The row of a new run: its assistant, its pool, what it was asked with. Nothing is stored here. */
import { v7 } from 'uuid'
import type { CallHead } from '../../../schemas/calls.js'
import { fail } from '../../../schemas/errors.js'
import { merge } from '../../../schemas/json.js'
import type { RunCreate, RunMode } from '../../../schemas/runs.js'
import type { AssistantRow, RunRow } from '../../../store/port.js'
import { refusal } from '../../outbound.js'
import { appOf } from '../apps.js'
import { find, noAssistant } from '../assistants.js'
import type { Deps } from '../context.js'
import { kwargsOf, userOf, withoutAuth } from './payload.js'

/**
 * The row of a new run, after the checks that do not look at its thread. Nothing is stored yet. `own_thread`: the id of
 * the thread that a stateless run brings.
 */
export async function prepare(
  deps: Deps,
  body: RunCreate,
  head: CallHead,
  run_id: string,
  own_thread = v7(),
): Promise<RunRow> {
  const mode = head.run?.mode ?? 'background'
  const stateless = isStateless(head)
  if (body.webhook) {
    const no = refusal(body.webhook, deps.allowed)
    if (no !== null) throw fail('invalid', `webhook: ${no}`)
  }
  const app = appOf(head)
  const assistant = await find(deps.store, app, body.assistant_id)
  if (assistant === null) throw fail('not_found', noAssistant(body.assistant_id))
  const pool = await deps.apps.pool(app, assistant.graph_id)
  if (pool === null)
    throw fail('not_found', `Graph '${assistant.graph_id}' is not one of those that this application serves now`)
  const thread_id = head.params?.thread_id?.toLowerCase() ?? own_thread
  const temporary = stateless && (body.on_completion ?? 'delete') === 'delete'
  const identity = head.identity?.identity
  const run = runRow(body, assistant, { pool, run_id, thread_id, mode, stateless, temporary, identity })
  await checkSelection(deps, body, run)
  return run
}

export const isStateless = (head: CallHead): boolean => head.params?.thread_id === undefined

/** A checkpoint that is named must be one of the thread: an unknown one would start from nothing, silently. */
async function checkSelection({ store }: Deps, body: RunCreate, { thread_id, temporary }: RunRow): Promise<void> {
  const checkpoint_id = body.checkpoint?.checkpoint_id ?? body.checkpoint_id
  if (!checkpoint_id || temporary) return
  const ns = body.checkpoint?.checkpoint_ns ?? ''
  if ((await store.checkpoints.get({ thread_id, ns, checkpoint_id })) === null)
    throw fail('not_found', `Checkpoint ${checkpoint_id} not found on thread ${thread_id}`)
}

/** The last time that a date can name. */
const LAST_MS = 8.64e15

interface Given {
  pool: string
  run_id: string
  thread_id: string
  mode: RunMode
  stateless: boolean
  temporary: boolean
  identity: string | undefined
}

function runRow(
  body: RunCreate,
  assistant: AssistantRow,
  { pool, run_id, thread_id, mode, stateless, temporary, identity }: Given,
): RunRow {
  const now = Date.now()
  const { graph_id, assistant_id } = assistant
  const user_id = userOf(body, JSON.parse(assistant.config)) ?? identity
  const ids = { graph_id, assistant_id, thread_id, run_id, ...(user_id === undefined ? {} : { user_id }) }
  const metadata = merge(withoutAuth(merge(JSON.parse(assistant.metadata), body.metadata)), ids)
  return {
    app: assistant.app,
    run_id,
    thread_id,
    assistant_id: assistant.assistant_id,
    graph_id: assistant.graph_id,
    pool,
    status: 'accepting',
    created_at: now,
    updated_at: now,
    metadata: JSON.stringify(metadata),
    kwargs: JSON.stringify(kwargsOf(body, assistant, { ids, metadata, temporary })),
    multitask_strategy: body.multitask_strategy ?? 'enqueue',
    mode,
    resumable: body.stream_resumable ?? false,
    temporary,
    on_disconnect:
      mode === 'background' || mode === 'events'
        ? 'continue'
        : (body.on_disconnect ?? (stateless && mode === 'stream' ? 'cancel' : 'continue')),
    due_at: body.after_seconds ? Math.min(now + Math.ceil(body.after_seconds * 1000), LAST_MS) : 0,
    attempt: 0,
    token: null,
    hb: 0,
    worker: null,
    cancel: null,
    cancel_due_at: null,
    cancel_reason: null,
    joined_at: null,
    started_at: null,
    ended_at: null,
    last_event_id: null,
    claim_no: null,
    resumable_until_id: null,
    error: null,
    base: null,
    webhook: body.webhook ?? null,
    webhook_due_at: null,
    webhook_tries: 0,
    idempotency_id: null,
    result: null,
  }
}
