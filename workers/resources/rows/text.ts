/** Rows as the text that clients get. Stored JSON text is inserted as it is, never parsed and serialised again. */

import type { AssistantField } from '../../../schemas/assistants.js'
import { jsonText, parseJson } from '../../../schemas/exact.js'
import { time } from '../../../schemas/json.js'
import type { AssistantRow, AssistantVersionRow } from '../../../store/rows/assistants.js'
import type { ItemRow } from '../../../store/rows/items.js'
import type { RunRow } from '../../../store/rows/runs.js'
import type { StateRow, ThreadRow } from '../../../store/rows/threads.js'

const decoder = new TextDecoder()
const json = jsonText

/** The members of an assistant as JSON text. */
export const assistantFields = (row: AssistantRow): { [field in AssistantField]: string } => ({
  assistant_id: `"${row.assistant_id}"`,
  graph_id: json(row.graph_id),
  name: json(row.name),
  description: json(row.description),
  config: row.config,
  context: row.context,
  metadata: row.metadata,
  version: `${row.version}`,
  created_at: `"${time(row.created_at)}"`,
  updated_at: `"${time(row.updated_at)}"`,
})

export const assistantText = (row: AssistantRow): string =>
  `{${Object.entries(assistantFields(row))
    .map(([name, text]) => `"${name}":${text}`)
    .join()}}`

/** A version was written once, when it was made. */
export const versionText = (row: AssistantVersionRow): string => assistantText({ ...row, updated_at: row.created_at })

/** The members of a thread as JSON text. */
export const threadFields = (row: ThreadRow, state: StateRow | null) => ({
  thread_id: `"${row.thread_id}"`,
  created_at: `"${time(row.created_at)}"`,
  updated_at: `"${time(row.updated_at)}"`,
  state_updated_at: `"${time(row.state_updated_at)}"`,
  metadata: row.metadata,
  config: row.config,
  context: '{}',
  status: `"${row.status}"`,
  values: state?.values ? decoder.decode(state.values) : 'null',
  interrupts: row.interrupts,
  error: row.error ?? 'null',
})

/** The members that `isWanted` selects, and `more` members as text. */
export function threadText(
  row: ThreadRow,
  state: StateRow | null,
  { isWanted = isShown, more = [] }: { isWanted?: (name: string) => boolean; more?: readonly string[] } = {},
): string {
  const members: string[] = []
  for (const [name, text] of Object.entries(threadFields(row, state)))
    if (isWanted(name)) members.push(`"${name}":${text}`)
  return `{${[...members, ...more].join()}}`
}

/** Threads have no context; it is answered only to a client that selects it. */
const isShown = (name: string): boolean => name !== 'context'

/** The member that `include=ttl` asks for. */
export function ttlText({ ttl }: ThreadRow, expires_at: number | null): string {
  if (ttl === null || expires_at === null) return '"ttl":null'
  return `"ttl":{"strategy":"${ttl.strategy}","ttl_minutes":${ttl.minutes},"expires_at":"${time(expires_at)}"}`
}

export const runText = (row: Omit<RunRow, 'auth_user' | 'traceparent'>): string =>
  `{"run_id":"${row.run_id}","thread_id":"${row.thread_id}","assistant_id":"${row.assistant_id}","created_at":"${time(row.created_at)}",` +
  `"updated_at":"${time(row.updated_at)}","status":"${row.status}","metadata":${row.metadata},"kwargs":${row.kwargs},` +
  `"multitask_strategy":"${row.multitask_strategy}","cancel_reason":${json(row.cancel_reason ?? null)}${row.error === null ? '' : `,"error":${row.error}`}}`

/** The members of a run as JSON text, but for its error. `runText` is composed for every answer and therefore not of these. */
export const runFields = (row: Parameters<typeof runText>[0]) => ({
  run_id: `"${row.run_id}"`,
  thread_id: `"${row.thread_id}"`,
  assistant_id: `"${row.assistant_id}"`,
  created_at: `"${time(row.created_at)}"`,
  updated_at: `"${time(row.updated_at)}"`,
  status: `"${row.status}"`,
  metadata: row.metadata,
  kwargs: row.kwargs,
  multitask_strategy: `"${row.multitask_strategy}"`,
  cancel_reason: json(row.cancel_reason ?? null),
})

/** docs/spec/items.md. */
export const itemText = ({ namespace, key, value, created_at, updated_at, score }: FoundItem): string =>
  `{"namespace":${json(namespace)},"key":${json(key)},"value":${value},` +
  `"created_at":"${time(created_at)}","updated_at":"${time(updated_at)}"${score === undefined ? '' : `,"score":${score}`}}`

/** `score`: of an item that was searched for by meaning; null when it has no vectors. */
export type FoundItem = ItemRow & { score?: number | null }

/** The state of a thread that has no checkpoint (docs/spec/threads.md#state-and-history). */
export const EMPTY_STATE =
  '{"values":{},"next":[],"tasks":[],"checkpoint":null,"parent_checkpoint":null,"metadata":{},"created_at":null,"interrupts":[]}'

/** A ThreadState from its two stored parts. */
export const stateText = (values: Uint8Array | null, rest: Uint8Array): string =>
  `{"values":${values ? decoder.decode(values) : '{}'},${decoder.decode(rest)}`

/** The stored error of a run without its place in the application: what threads, wait and webhooks say of it. */
export function plainError(stored: string): string {
  if (!stored.includes('"at":{')) return stored
  const { error, message } = parseJson(stored) as { error: string; message: string }
  return json({ error, message })
}

/**
 * The answer of wait and join (docs/spec/runs.md#wait-and-join): values, with `__interrupt__` and `__feedback__`, or as
 * `__error__`.
 */
export function resultText(
  values: Uint8Array | null,
  interrupts: unknown[],
  error: string | null,
  feedback: object | null = null,
): string {
  if (error !== null) return `{"__error__":${plainError(error)}}`
  const decoded = values === null ? '{}' : decoder.decode(values)
  const text = decoded === 'null' ? '{}' : decoded
  const more: string[] = []
  if (interrupts.length > 0) more.push(`"__interrupt__":${json(interrupts)}`)
  if (feedback !== null) more.push(`"__feedback__":${json(feedback)}`)
  const hasMembers = text.endsWith('}')
  // The output of an entrypoint may be no object: only an interrupt is said instead of it.
  if (more.length === 0 || (!hasMembers && interrupts.length === 0)) return text
  return hasMembers && text.length > 2 ? `${text.slice(0, -1)},${more.join()}}` : `{${more.join()}}`
}
