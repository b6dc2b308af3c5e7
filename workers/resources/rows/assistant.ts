/** Assistants as they are first written and found (docs/spec/assistants.md). */
import { v5 } from 'uuid'
import { fail, type WeftError } from '../../../schemas/errors.js'
import { SYSTEM_ASSISTANT_NAMESPACE, uuidOf } from '../../../schemas/ids.js'
import type { Store } from '../../../store/port.js'
import type { AssistantRow, AssistantVersionRow } from '../../../store/rows/assistants.js'
import { type Access, sees } from '../access.js'
import { clock } from '../clock.js'

/** A name with a lone surrogate has no UTF-8 and so no distinct id; no graph has such a name. */
export const systemAssistantId = (graph_id: string): string => v5(graph_id.toWellFormed(), SYSTEM_ASSISTANT_NAMESPACE)

/** A first version; what is not given is empty. */
export const newAssistant = (
  row: Pick<AssistantRow, 'app' | 'assistant_id' | 'graph_id' | 'name'> & Partial<AssistantRow>,
): AssistantRow => {
  const now = clock.now()
  return {
    description: null,
    config: '{}',
    context: '{}',
    metadata: '{}',
    version: 1,
    created_at: now,
    updated_at: now,
    ...row,
  }
}

/** The version that an assistant is now. `created_at`: when the version was made. */
export const versionOf = ({ updated_at, ...row }: AssistantRow): AssistantVersionRow => ({
  ...row,
  created_at: updated_at,
})

/**
 * By id or by graph id: a graph's own name wins (docs/spec/assistants.md#system-assistants). Null when neither is known
 * or visible.
 */
export async function findAssistant(store: Store, access: Access, given: string): Promise<AssistantRow | null> {
  const row = await findAny(store, access.app, given)
  return row !== null && sees(access, row.metadata) ? row : null
}

/** Like `findAssistant`, for runs and crons: they may use every system assistant (docs/spec/auth.md#events). */
export async function findRunnable(store: Store, access: Access, given: string): Promise<AssistantRow | null> {
  const row = await findAny(store, access.app, given)
  return row !== null && (sees(access, row.metadata) || isSystem(row)) ? row : null
}

/** Clients cannot set `created_by` to this. */
const isSystem = ({ metadata }: AssistantRow): boolean =>
  (JSON.parse(metadata) as { created_by?: unknown }).created_by === 'system'

async function findAny(store: Store, app: string, given: string): Promise<AssistantRow | null> {
  const id = uuidOf(given)
  if (id !== null) {
    const row = await store.assistants.get(app, id)
    if (row !== null) return row
  }
  return store.assistants.get(app, systemAssistantId(given))
}

/** The assistant of a path. Throws `not_found`, or `invalid` for what is neither an id nor a graph of the application. */
export async function pathAssistant(store: Store, access: Access, given: string): Promise<AssistantRow> {
  const row = await findAssistant(store, access, given)
  if (row !== null) return row
  if (uuidOf(given) === null && (await store.records.get(GRAPH, graphRecordId(access.app, given))) === null)
    throw (
      (await loadErrorOf(store, access.app, given)) ??
      fail('invalid', `assistant_id: expected a uuid or the id of a graph, got "${given}"`)
    )
  throw fail('not_found', `Assistant with ID ${given} not found`)
}

/** Throws `not_found` when the application has no such graph. Its system assistant may have been deleted. */
export async function checkGraph(store: Store, app: string, graph_id: string): Promise<void> {
  if ((await store.assistants.get(app, systemAssistantId(graph_id))) !== null) return
  if ((await store.records.get(GRAPH, graphRecordId(app, graph_id))) !== null) return
  throw (await loadErrorOf(store, app, graph_id)) ?? fail('not_found', `Graph '${graph_id}' not found`)
}

/** The records of announced graphs. */
export const GRAPH = 'graph'
export const graphRecordId = (app: string, graph_id: string): string => JSON.stringify([app, graph_id])

/** The records of graphs that could not be loaded. */
export const LOAD_ERROR = 'graph_error'

/** Graphs in the sentence about an unknown assistant. */
const LISTED = 20

/** The error for an unknown assistant: why its graph could not be loaded, or the graphs that there are. */
export async function noAssistant(store: Store, app: string, given: string): Promise<WeftError> {
  const broken = await loadErrorOf(store, app, given)
  if (broken !== null) return broken
  const names = (await all(store, app, GRAPH)).map(({ graph_id }) => graph_id)
  const more = names.length > LISTED ? ', …' : ''
  const listed = names.length === 0 ? '' : ` Graphs: ${names.slice(0, LISTED).join(', ')}${more}.`
  return fail(
    'not_found',
    `No assistant found for "${given}". Make sure the assistant ID is for a valid assistant or a valid graph ID.${listed}`,
  )
}

/** Why the graph of this name could not be loaded; null when there is no such failure. */
async function loadErrorOf(store: Store, app: string, graph_id: string): Promise<WeftError | null> {
  const broken = (await all(store, app, LOAD_ERROR)).find(one => one.graph_id === graph_id)
  if (broken === undefined) return null
  const { error } = broken
  // Most sentences of hosts name the graph.
  const isNamed = error.includes(`"${graph_id}"`)
  return fail('not_found', isNamed ? error : `The graph "${graph_id}" could not be loaded: ${error}`)
}

async function all(store: Store, app: string, kind: string): Promise<{ graph_id: string; error: string }[]> {
  const rows = await store.records.list({ kind, app, sort: 'id', order: 'asc', limit: 1_000 })
  return rows.map(({ body }) => JSON.parse(body))
}
