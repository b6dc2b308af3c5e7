/** Crons for clients (docs/spec/crons.md); fire.ts fires them. */
import { v7 } from 'uuid'
import { bytesHandler, jsonHandler } from '../../../bus/serve.js'
import type { AuthEvent } from '../../../schemas/auth/auth.js'
import type { CallHead } from '../../../schemas/calls.js'
import {
  type CronCreate,
  type CronPatch,
  type CronPayload,
  type ThreadCronCreate,
  validateCronCount,
  validateCronCreate,
  validateCronPatch,
  validateCronSearch,
  validateThreadCronCreate,
} from '../../../schemas/crons.js'
import { fail } from '../../../schemas/errors.js'
import { jsonText, parseJson } from '../../../schemas/exact.js'
import type { Store } from '../../../store/port.js'
import type { AssistantRow } from '../../../store/rows/assistants.js'
import type { RecordRow } from '../../../store/rows/records.js'
import { accessOf, seesObject } from '../access.js'
import { appOf } from '../apps.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import { findRunnable, noAssistant } from '../rows/assistant.js'
import { requireThread } from '../rows/thread.js'
import { webhookOf } from '../runs/webhook-check.js'
import { firingsOf } from './firings.js'
import { CRON, type CronBody, changeStep, checkSize, cronOf, rowOf } from './record.js'
import { isSameWork, type Owner, ownerOf } from './rights.js'
import { type CronAccess, count, search } from './search.js'
import { checkTimetable, nextSlot, parseTime } from './slots.js'

export const crons = (deps: Deps) => ({
  create_for_thread: jsonHandler<ThreadCronCreate>(validateThreadCronCreate, async (body, { head }) => {
    const { thread_id } = await requireThread(deps.store, accessOf(head, 'threads:read'), head.params?.thread_id ?? '')
    return create(deps, { ...body, on_run_completed: null }, thread_id, head)
  }),
  create: jsonHandler<CronCreate>(validateCronCreate, (body, { head }) =>
    create(deps, { ...body, on_run_completed: body.on_run_completed ?? 'delete' }, '', head),
  ),
  get: bytesHandler(async (_, { head }) => ({
    body: jsonText(cronOf(await requireCron(deps.store, head, 'crons:read'))),
  })),
  firings: bytesHandler(async (_, { head }) => ({
    body: jsonText(await firingsOf(deps.store, await requireCron(deps.store, head, 'crons:read'))),
  })),
  update: jsonHandler<CronPatch>(validateCronPatch, (body, { head }) => update(deps, body, head)),
  delete: bytesHandler(async (_, { head }) => {
    const { id } = await requireCron(deps.store, head, 'crons:delete')
    await deps.store.apply([{ step: 'records.remove', kind: CRON, id, where: {} }])
    return { head: { status: 204 } }
  }),
  search: jsonHandler(validateCronSearch, (body, { head }) => search(deps.store, visibleTo(head), body)),
  count: jsonHandler(validateCronCount, (body, { head }) => count(deps.store, visibleTo(head), body)),
})

async function create(deps: Deps, body: CronCreate, thread_id: string, head: CallHead) {
  const assistant = await findRunnable(deps.store, accessOf(head, 'assistants:read'), body.assistant_id)
  if (assistant === null) throw await noAssistant(deps.store, appOf(head), body.assistant_id)
  await checkWebhook(deps, assistant, body.webhook)
  const now = clock.now()
  const { schedule, timezone = null, enabled, end_time } = body
  const table = { schedule, timezone, end: end_time == null ? null : parseTime('end_time', end_time) }
  checkTimetable(table, deps.config.cron_seconds)
  const cron: CronBody = {
    ...table,
    assistant_id: assistant.assistant_id,
    enabled: enabled ?? true,
    on_run_completed: body.on_run_completed ?? null,
    next: nextSlot(table, now),
    payload: { ...payloadOf(body), assistant_id: assistant.assistant_id, schedule },
    metadata: body.metadata ?? {},
    ...ownerOf(head),
  }
  checkSize(cron)
  const row = rowOf(cron, { app: assistant.app, id: v7(), parent: thread_id, created_at: now, updated_at: now })
  await deps.store.apply([{ step: 'records.insert', row }])
  if (row.due_at !== null) deps.alarms.set(row.due_at)
  return { body: jsonText(cronOf(row)) }
}

async function update(deps: Deps, patch: CronPatch, head: CallHead) {
  for (;;) {
    const stored = await requireCron(deps.store, head, 'crons:update')
    const before = parseJson(stored.body) as CronBody
    if (patch.webhook) {
      const assistant = await deps.store.assistants.get(stored.app, before.assistant_id)
      await checkWebhook(deps, assistant ?? { app: stored.app, graph_id: '' }, patch.webhook)
    }
    const body = applyPatch(before, patch, stored.parent === '', ownerOf(head))
    checkTimetable(body, deps.config.cron_seconds)
    checkSize(body)
    const moved =
      body.schedule !== before.schedule ||
      body.timezone !== before.timezone ||
      body.end !== before.end ||
      (body.enabled && !before.enabled)
    if (moved) body.next = nextSlot(body, clock.now())
    const row = rowOf(body, { ...stored, updated_at: Math.max(clock.now(), stored.updated_at + 1) })
    const failed = await deps.store.apply([changeStep(row, body)])
    // Fired or patched meanwhile: retry on the current row.
    if (failed !== -1) continue
    if (row.due_at !== null) deps.alarms.set(row.due_at)
    return { body: jsonText(cronOf(row)) }
  }
}

/**
 * Absent and null are "unchanged", except that `end_time: null` clears it; metadata is merged. Who changes what the cron
 * executes, or enables a paused one, is its owner from then on.
 */
function applyPatch(before: CronBody, patch: CronPatch, stateless: boolean, owner: Owner): CronBody {
  const { end_time } = patch
  const metadata = { ...before.metadata, ...patch.metadata }
  const schedule = patch.schedule ?? before.schedule
  const payload = { ...before.payload, ...payloadOf(patch), schedule }
  const body: CronBody = {
    ...before,
    schedule,
    timezone: patch.timezone ?? before.timezone,
    end: end_time === undefined ? before.end : end_time === null ? null : parseTime('end_time', end_time),
    enabled: patch.enabled ?? before.enabled,
    on_run_completed: stateless ? (patch.on_run_completed ?? before.on_run_completed) : null,
    payload: patch.metadata ? { ...payload, metadata } : payload,
    metadata,
  }
  const resumes = before.paused !== undefined && body.enabled
  if (resumes) delete body.paused
  return resumes || !isSameWork(before, body) ? { ...body, ...owner } : body
}

const TEMPLATE = [
  'input',
  'config',
  'context',
  'metadata',
  'webhook',
  'interrupt_before',
  'interrupt_after',
  'multitask_strategy',
  'stream_mode',
  'stream_subgraphs',
  'stream_resumable',
  'durability',
  'checkpoint_during',
] as const satisfies (keyof CronPayload)[]

/** The given members of the run template. */
function payloadOf(given: Pick<Partial<CronPayload>, (typeof TEMPLATE)[number]>): Partial<CronPayload> {
  return Object.fromEntries(TEMPLATE.filter(name => given[name] != null).map(name => [name, given[name]]))
}

async function checkWebhook(
  deps: Deps,
  { app, graph_id }: Pick<AssistantRow, 'app' | 'graph_id'>,
  url: string | null | undefined,
): Promise<void> {
  if (url) await webhookOf(deps, app, (await deps.apps.poolOf(app, graph_id)) ?? '', url)
}

/** The rights of a search for crons: also the thread of a cron must be visible. */
const visibleTo = (head: CallHead): CronAccess => ({
  crons: accessOf(head, 'crons:search'),
  threads: accessOf(head, 'threads:search'),
})

async function requireCron(store: Store, head: CallHead, event: AuthEvent): Promise<RecordRow> {
  const cron_id = head.params?.cron_id?.toLowerCase() ?? ''
  const row = await store.records.get(CRON, cron_id)
  const isVisible = row !== null && row.app === appOf(head) && seesObject(accessOf(head, event), cronOf(row).metadata)
  if (!isVisible) throw fail('not_found', `Cron with ID ${cron_id} not found`)
  return row
}
