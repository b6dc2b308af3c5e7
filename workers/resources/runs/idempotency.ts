/**
 * Idempotency-Key on run creation (decision 023): for 24 hours the same key with the same body answers the run that
 * it made, another body is 422, and one whose first request is still under way 409. The record is written together
 * with the run row, after it, and is removed with it when the run is never accepted: a record without a run means
 * that the run has ended and was removed.
 */
import { createHash, hash } from 'node:crypto'
import type { Reply } from '../../../bus/serve.js'
import type { CallHead } from '../../../schemas/calls.js'
import { fail } from '../../../schemas/errors.js'
import { jsonText, parseJson } from '../../../schemas/exact.js'
import type { Store } from '../../../store/port.js'
import type { RecordRow } from '../../../store/rows/records.js'
import type { RunRow, RunSummary } from '../../../store/rows/runs.js'
import type { Step } from '../../../store/steps.js'
import { appOf } from '../apps.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import { newRecord } from '../rows/record.js'
import { runText } from '../rows/text.js'
import { answer } from './view.js'

export const KIND = 'idempotency'
const KEPT_MS = 24 * 3_600_000
/** Keys removed in one commit. */
const PAGE = 500
/** A longer answer is stored without the payloads that its client sent. */
const MAX_TEXT = 64 * 1024

export interface IdempotencyKey {
  /** Id of its record: one per application, caller and key. */
  id: string
  app: string
  /** Digest of the path and the body of the request. */
  fingerprint: string
}

interface Made {
  run_id: string
  stateless: boolean
  /** The answer of a background create. */
  text: string
}

/** Undefined when the request has no key. */
export function keyOf(head: CallHead, bytes: Uint8Array): IdempotencyKey | undefined {
  if (head.idempotency_key === undefined) return undefined
  const app = appOf(head)
  const where = jsonText([head.run?.mode, head.params?.thread_id?.toLowerCase()])
  return {
    id: hash('sha256', jsonText([app, head.identity?.identity, head.idempotency_key])),
    app,
    fingerprint: createHash('sha256').update(where).update(bytes).digest('hex'),
  }
}

/** The record that makes `made` the only answer to the key. */
export const keyRecord = (
  { id, app, fingerprint }: IdempotencyKey,
  { created_at, thread_id }: Pick<RunRow, 'created_at' | 'thread_id'>,
  made: Made,
): RecordRow =>
  newRecord(KIND, id, {
    app,
    parent: thread_id,
    body: jsonText({ print: fingerprint, ...made }),
    due_at: created_at + KEPT_MS,
  })

/**
 * The answer that the key got before; null when the key is new, or when this is a repeat of the same call (`run_id`).
 * Throws invalid when the key belongs to another request, conflict when that request is under way or its run is removed.
 */
export async function findByKey({ store }: Deps, key: IdempotencyKey, run_id: string): Promise<Reply | null> {
  const found = await readKey(store, key)
  if (found === null || found.run_id === run_id) return null
  const run = await store.runs.get(found.run_id)
  if (run?.status === 'accepting') throw fail('conflict', UNDER_WAY)
  if (run !== null) return answer(run, found.stateless)
  if (found.text !== '') return { body: found.text }
  throw fail('conflict', `The run ${found.run_id} of this Idempotency-Key has ended and is not kept any more`)
}

export const UNDER_WAY = 'A request with this Idempotency-Key is under way; wait for its answer'

/** The record of the key, unless it has expired. Throws invalid when it belongs to another request. */
export async function readKey<Body = Made>(store: Store, { id, fingerprint }: IdempotencyKey): Promise<Body | null> {
  const record = await store.records.get(KIND, id)
  if (record === null) return null
  if (record.due_at !== null && record.due_at <= clock.now()) {
    await store.apply([{ step: 'records.remove', kind: KIND, id, where: { rev: record.rev } }])
    return null
  }
  const { print: stored, ...body } = parseJson(record.body) as { print: string }
  if (stored !== fingerprint)
    throw fail('invalid', 'Idempotency-Key: it was used for another request within the last 24 hours')
  return body as Body
}

/** Whether the key belongs to this run. */
export async function ownsKey(store: Store, { id }: RecordRow, run_id: string): Promise<boolean> {
  const record = await store.records.get(KIND, id)
  return record !== null && (parseJson(record.body) as Made).run_id === run_id
}

/** Removes the key of a run that is never accepted. */
export async function removeKey(store: Store, { idempotency_id: id, run_id }: RunSummary): Promise<void> {
  if (id === null) return
  const record = await store.records.get(KIND, id)
  if (record === null || (parseJson(record.body) as Made).run_id !== run_id) return
  await store.apply([{ step: 'records.remove', kind: KIND, id, where: { rev: record.rev } }])
}

/** A client removed the run: its key still answers for the 24 hours, without the payloads. */
export async function stripKey(store: Store, { idempotency_id: id, run_id }: RunSummary): Promise<void> {
  const record = id === null ? null : await store.records.get(KIND, id)
  if (record === null) return
  const made = parseJson(record.body) as Made
  if (made.run_id !== run_id || made.text === '') return
  const text = jsonText({ ...(parseJson(made.text) as object), kwargs: {} })
  const set = { body: jsonText({ ...made, text }) }
  await store.apply([{ step: 'records.patch', kind: KIND, id: record.id, where: { rev: record.rev }, set }])
}

/** The answer of a background create; '' for streams and waits, which answer with their run. */
export function shortText(run: RunRow): string {
  if (run.mode !== 'background') return ''
  const text = runText({ ...run, status: 'pending' })
  return text.length <= MAX_TEXT ? text : runText({ ...run, status: 'pending', kwargs: '{}' })
}

/** Removes the keys of the runs of a thread; must come before the step that removes the thread. */
export const clearKeys = (thread_id: string): Step => ({ step: 'records.clear', kind: KIND, parent: thread_id })

/** Removes expired keys until none is left: they come as fast as runs do. */
export async function removeExpiredKeys({ store }: Deps): Promise<void> {
  for (let more = true; more; ) {
    const expired = await store.records.due(KIND, clock.now(), PAGE)
    const steps = expired.map(({ id, rev }): Step => ({ step: 'records.remove', kind: KIND, id, where: { rev } }))
    // One commit; one by one when another worker has removed some of them.
    if (steps.length > 0 && (await store.apply(steps)) !== -1) for (const step of steps) await store.apply([step])
    more = expired.length === PAGE
  }
}
