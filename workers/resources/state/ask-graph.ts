/** Questions to graph code about a thread (design 2.8): a graph worker of the thread's graph lends a host. */
import { fail } from '../../../schemas/errors.js'
import type { HistoryCall, StateCall, UpdateCall } from '../../../schemas/host.js'
import { token } from '../../../schemas/ids.js'
import { isObject, type JsonObject } from '../../../schemas/json.js'
import { host } from '../../../schemas/subjects.js'
import type { ThreadRow } from '../../../store/port.js'
import { find } from '../assistants.js'
import type { Deps } from '../context.js'

/** A host may take 30 s. */
const CALL_MS = 35_000

type Question =
  | Omit<StateCall, 'graph_id' | 'thread_id' | 'config'>
  | Omit<HistoryCall, 'graph_id' | 'thread_id' | 'config'>
  | Omit<UpdateCall, 'graph_id' | 'thread_id' | 'config'>

/**
 * The answer's bytes (workers/graph/protocol.ts). Throws bad_request when no graph has run on the thread, unavailable
 * when nobody can answer now, and what the host says.
 */
export async function askGraph(deps: Deps, row: ThreadRow, question: Question): Promise<Uint8Array> {
  const { graph_id, assistant_id } = idsIn(row)
  if (graph_id === undefined)
    throw fail('bad_request', `Thread ${row.thread_id} has no graph: run one on it, or name it as metadata.graph_id`)
  const pool = await deps.apps.pool(row.app, graph_id)
  if (pool === null) throw fail('unavailable', `Nobody serves the graph "${graph_id}" at the moment`)
  const assistant = assistant_id === undefined ? null : await find(deps.store, row.app, assistant_id)
  const config = assistant?.graph_id === graph_id ? (JSON.parse(assistant.config) as JsonObject) : {}
  const call = { ...question, graph_id, thread_id: row.thread_id, config }
  const answer = await deps.caller.ask(
    host(token('pool', pool), question.verb),
    { request_id: '' },
    Buffer.from(JSON.stringify(call)),
    { timeout: CALL_MS },
  )
  return answer.body
}

/** What the last run on the thread has written into its metadata, or the client at its creation. */
export function idsIn(row: Pick<ThreadRow, 'metadata'>): { graph_id?: string; assistant_id?: string } {
  const metadata: unknown = JSON.parse(row.metadata)
  if (!isObject(metadata)) return {}
  const { graph_id, assistant_id } = metadata
  return {
    ...(typeof graph_id === 'string' ? { graph_id } : {}),
    ...(typeof assistant_id === 'string' ? { assistant_id } : {}),
  }
}
