/**
 * The rights of a call: it sees the rows of its application that pass the filters of its authorization handlers
 * (docs/spec/auth.md#filters). The one place where a filter meets a row. Only the edge sets filters, in the head of
 * the call; a call from inside the cluster (crons, webhooks, graph workers) has none and sees its whole application.
 */
import type { AuthEvent } from '../../schemas/auth/auth.js'
import { compileFilter, equalMembers, filterKeys, type Matcher } from '../../schemas/auth/filter.js'
import type { CallHead } from '../../schemas/calls.js'
import { fail } from '../../schemas/errors.js'
import { parseJson } from '../../schemas/exact.js'
import { isObject, type JsonObject } from '../../schemas/json.js'
import type { Store } from '../../store/port.js'
import type { ThreadRow } from '../../store/rows/threads.js'
import { appOf } from './apps.js'

export interface Access {
  app: string
  /** Null: every row of the application. */
  filter: Matcher | null
  /** Keys (schemas/contains.ts) that the metadata of every visible row has: a search can narrow by them. */
  keys: readonly string[]
  /** The members that every visible document has, with the scalars that they equal. */
  members: JsonObject
}

/**
 * The access of a call for one event. Throws `internal` when the call passed authorization but this event was not asked:
 * then its route names other events than its handler needs, and nothing may pass.
 */
export function accessOf(head: CallHead, event: AuthEvent): Access {
  const app = appOf(head)
  if (head.unchecked) throw fail('unavailable', UNCHECKED)
  if (head.filters === undefined) return wholeApp(app)
  const filter = head.filters[event]
  if (filter === undefined) throw fail('internal', `The request was not authorized for ${event}`)
  if (filter === null || Object.keys(filter).length === 0) return wholeApp(app)
  return { app, filter: compileFilter(filter), keys: filterKeys(filter), members: equalMembers(filter) }
}

const UNCHECKED =
  'The application authenticates its callers, but this edge does not run its "auth": start the edge with --app'

export const wholeApp = (app: string): Access => ({ app, filter: null, keys: NO_KEYS, members: {} })

const NO_KEYS: readonly string[] = []

/** Whether a row with this metadata (JSON text) is visible. */
export function sees({ filter }: Access, metadata: string): boolean {
  if (filter === null) return true
  const parsed: unknown = parseJson(metadata)
  return filter(isObject(parsed) ? parsed : {})
}

/** Like `sees`, for a value that was parsed already. */
export const seesObject = ({ filter }: Access, value: JsonObject): boolean => filter === null || filter(value)

/** Whether the thread of a run is visible; reads it only when a filter decides. */
export async function seesThread(store: Store, access: Access, thread_id: string): Promise<boolean> {
  if (access.filter === null) return true
  const thread = await store.threads.get(access.app, thread_id)
  return thread !== null && sees(access, thread.metadata)
}

/** Which of these threads are visible. */
export async function visibleThreads(
  store: Store,
  access: Access,
  thread_ids: Iterable<string>,
): Promise<(thread_id: string) => boolean> {
  if (access.filter === null) return () => true
  const unique = [...new Set(thread_ids)]
  const rows = await Promise.all(unique.map(id => store.threads.get(access.app, id)))
  const seen = new Set(
    rows.filter((row): row is ThreadRow => row !== null && sees(access, row.metadata)).map(row => row.thread_id),
  )
  return thread_id => seen.has(thread_id)
}
