/** The row of a new run: its assistant, its pool, its payload. Nothing is stored here. */
import { v7 } from 'uuid'
import type { AuthUser } from '../../../schemas/auth/auth.js'
import type { CallHead } from '../../../schemas/calls.js'
import { fail } from '../../../schemas/errors.js'
import { jsonText, parseJson } from '../../../schemas/exact.js'
import { type JsonObject, merge } from '../../../schemas/json.js'
import type { RunCreate, RunMode } from '../../../schemas/runs.js'
import type { AssistantRow } from '../../../store/rows/assistants.js'
import type { RunRow } from '../../../store/rows/runs.js'
import { type Access, accessOf, wholeApp } from '../access.js'
import { appOf } from '../apps.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import { findRunnable, noAssistant } from '../rows/assistant.js'
import { requireCheckpoint } from '../rows/checkpoint.js'
import { checkConfig, checkContext, metadataText } from '../rows/limits.js'
import { kwargsOf, userOf, withoutAuth } from './payload.js'
import { webhookOf } from './webhook-check.js'

/** Where a new run belongs: the same for an HTTP call, an element of a batch, a command of protocol v2 and a cron. */
export interface Target {
  app: string
  run_id: string
  thread_id: string
  mode: RunMode
  /** The authenticated caller. */
  user?: AuthUser | null
  /** The rights of the caller; absent: the run is created inside the cluster, which sees the whole application. */
  access?: { assistants: Access; threads: Access }
  /** The key of the caller; absent: it has none. */
  key?: CallHead['key']
  /** Request headers for `config.configurable`. */
  headers?: { [name: string]: string }
  /** The span of the caller. */
  traceparent?: string
  /** A stateless run brings its thread, with this metadata beside its own. Null: the run is for an existing thread. */
  brings: JsonObject | null
}

/** The target of a call: a path without a thread asks for a stateless run. */
export function targetOf(head: CallHead): Target {
  const thread_id = head.params?.thread_id?.toLowerCase()
  return {
    app: appOf(head),
    run_id: head.run?.run_id ?? v7(),
    thread_id: thread_id ?? v7(),
    mode: head.run?.mode ?? 'background',
    user: head.identity,
    key: head.key,
    access: { assistants: accessOf(head, 'assistants:read'), threads: accessOf(head, 'threads:create_run') },
    headers: head.headers,
    traceparent: head.traceparent,
    brings: thread_id === undefined ? {} : null,
  }
}

/** The row of a new run, after the checks that do not read its thread. */
export async function prepare(deps: Deps, body: RunCreate, target: Target): Promise<RunRow> {
  const { app, brings } = target
  checkConfig(body)
  // A cron may have both: its runs would fail where nobody sees it.
  if (target.access !== undefined) checkContext(body)
  const access = target.access?.assistants ?? wholeApp(app)
  const assistant = await findRunnable(deps.store, access, body.assistant_id)
  if (assistant === null) throw await noAssistant(deps.store, app, body.assistant_id)
  const pool = await deps.apps.poolOf(app, assistant.graph_id)
  if (pool === null)
    throw fail('not_found', `Graph '${assistant.graph_id}' is not one of those that this application serves now`)
  const webhook = await webhookOf(deps, app, pool, body.webhook)
  const temporary = brings !== null && (body.on_completion ?? 'delete') === 'delete'
  const run = newRun({ ...body, webhook }, assistant, { ...target, pool, temporary })
  if (deps.scheduler.isOn) Object.assign(run, deps.scheduler.columnsOf(run))
  await checkSelection(deps, body, run)
  return run
}

/** A checkpoint that is named must exist on the thread: the library would start from nothing without an error. */
async function checkSelection({ store }: Deps, body: RunCreate, { thread_id, temporary }: RunRow): Promise<void> {
  const checkpoint_id = body.checkpoint?.checkpoint_id ?? body.checkpoint_id
  if (temporary) return
  await requireCheckpoint(store, thread_id, { checkpoint_id, checkpoint_ns: body.checkpoint?.checkpoint_ns })
}

/** The latest time that a Date can hold. */
const LAST_MS = 8.64e15

interface Given extends Target {
  pool: string
  temporary: boolean
}

/** A run row as it is first inserted. */
export function newRun(
  body: RunCreate,
  assistant: AssistantRow,
  { pool, run_id, thread_id, mode, brings, temporary, user, key, headers, traceparent }: Given,
): RunRow {
  const now = clock.now()
  const { graph_id, assistant_id } = assistant
  const user_id = userOf(body, parseJson(assistant.config)) ?? user?.identity
  const ids = { graph_id, assistant_id, thread_id, run_id, ...(user_id === undefined ? {} : { user_id }) }
  const metadata = merge(withoutAuth(merge(parseJson(assistant.metadata), body.metadata)), ids)
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
    metadata: metadataText(metadata),
    kwargs: kwargsOf(body, assistant, { ids, metadata, temporary, headers }),
    multitask_strategy: body.multitask_strategy ?? 'enqueue',
    mode,
    resumable: body.stream_resumable ?? false,
    temporary,
    on_disconnect:
      mode === 'background' || mode === 'events'
        ? 'continue'
        : (body.on_disconnect ?? (brings !== null && mode === 'stream' ? 'cancel' : 'continue')),
    due_at: body.after_seconds ? Math.min(now + Math.ceil(body.after_seconds * 1000), LAST_MS) : 0,
    attempt: 0,
    token: null,
    heartbeats: 0,
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
    key_id: key?.id ?? null,
    tenant: null,
    priority: 0,
    ready_at: null,
    auth_user: user == null ? null : jsonText(user),
    traceparent: traceparent ?? null,
  }
}
