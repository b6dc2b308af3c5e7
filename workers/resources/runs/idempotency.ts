/**
 * Idempotency-Key on run creation (design 7): for 24 hours the same key with the same body answers the run that it made,
 * another body is 422, and one whose first request is still under way 409. The record is written together with the run
 * row, after it, and goes with it when the run is never accepted: a record without a run means that the run is over
 * and gone.
 */
import { createHash } from 'node:crypto'
import type { Reply } from '../../../bus/serve.js'
import type { CallHead } from '../../../schemas/calls.js'
import { fail } from '../../../schemas/errors.js'
import type { RecordRow, RunRow, RunSummary, Store } from '../../../store/port.js'
import { appOf } from '../apps.js'
import type { Deps } from '../context.js'
import { runText } from '../rows/text.js'
import { answer } from './view.js'

export const KIND = 'idempotency'
const KEPT_MS = 24 * 3_600_000
/** A longer answer is kept without the payloads that its client sent. */
const MAX_TEXT = 64 * 1024

/** What a key stands for. */
export interface Once {
  /** Of the record: one per application, caller and key. */
  id: string
  app: string
  /** Of the request: where it went and what it said. */
  print: string
}

interface Made {
  run_id: string
  stateless: boolean
  /** What a background create was answered. */
  text: string
}

/** Undefined when the request has no key. */
export function onceOf(head: CallHead, bytes: Uint8Array): Once | undefined {
  if (head.idempotency_key === undefined) return undefined
  const app = appOf(head)
  const where = JSON.stringify([head.run?.mode, head.params?.thread_id?.toLowerCase()])
  return {
    id: sha256([JSON.stringify([app, head.identity?.identity, head.idempotency_key])]),
    app,
    print: sha256([where, bytes]),
  }
}

const sha256 = (parts: (string | Uint8Array)[]): string => {
  const hash = createHash('sha256')
  for (const part of parts) hash.update(part)
  return hash.digest('hex')
}

/** The record that makes `made` the only answer to the key. */
export function recordOf({ id, app, print }: Once, { created_at }: Pick<RunRow, 'created_at'>, made: Made): RecordRow {
  return {
    kind: KIND,
    app,
    id,
    parent: '',
    name: null,
    rev: 0,
    body: JSON.stringify({ print, ...made }),
    keys: [],
    due_at: created_at + KEPT_MS,
    created_at,
    updated_at: created_at,
  }
}

/**
 * What the key was answered before; null when it is new, or this is the same request once more (`run_id`). Throws
 * invalid when the key belongs to another request, conflict when that one is under way or its run is gone.
 */
export async function recall({ store }: Deps, once: Once, run_id: string): Promise<Reply | null> {
  const found = await recordedBy(store, once)
  if (found === null || found.run_id === run_id) return null
  const run = await store.runs.get(found.run_id)
  if (run?.status === 'accepting') throw fail('conflict', UNDER_WAY)
  if (run !== null) return answer(run, found.stateless)
  if (found.text !== '') return { body: found.text }
  throw fail('conflict', `The run ${found.run_id} of this Idempotency-Key has ended and is not kept any more`)
}

export const UNDER_WAY = 'A request with this Idempotency-Key is under way; wait for its answer'

/** The record that stands, unless its time is over. Throws invalid when it is of another request. */
export async function recordedBy<Body = Made>(store: Store, { id, print }: Once): Promise<Body | null> {
  const record = await store.records.get(KIND, id)
  if (record === null) return null
  if (record.due_at !== null && record.due_at <= Date.now()) {
    await store.apply([{ step: 'records.remove', kind: KIND, id, where: { rev: record.rev } }])
    return null
  }
  const { print: stored, ...body } = JSON.parse(record.body) as { print: string }
  if (stored !== print)
    throw fail('invalid', 'Idempotency-Key: it was used for another request within the last 24 hours')
  return body as Body
}

/** Whether the key is that of this run. */
export async function holds(store: Store, { id }: RecordRow, run_id: string): Promise<boolean> {
  const record = await store.records.get(KIND, id)
  return record !== null && (JSON.parse(record.body) as Made).run_id === run_id
}

/** The run comes to nothing: its key is free again. */
export async function forgetKey(store: Store, { idempotency_id: id, run_id }: RunSummary): Promise<void> {
  if (id === null) return
  const record = await store.records.get(KIND, id)
  if (record === null || (JSON.parse(record.body) as Made).run_id !== run_id) return
  await store.apply([{ step: 'records.remove', kind: KIND, id, where: { rev: record.rev } }])
}

/** What a background create answers; '' for streams and waits, whose answer is their run. */
export function shortText(run: RunRow): string {
  if (run.mode !== 'background') return ''
  const text = runText({ ...run, status: 'pending' })
  return text.length <= MAX_TEXT ? text : runText({ ...run, status: 'pending', kwargs: '{}' })
}

/** Forgets the keys whose time is over. */
export async function forgetExpired({ store }: Deps): Promise<void> {
  for (const { id, rev } of await store.records.due(KIND, Date.now(), 1_000))
    await store.apply([{ step: 'records.remove', kind: KIND, id, where: { rev } }])
}
