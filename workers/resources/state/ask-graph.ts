/** Questions to graph code about a thread (decision 008): a graph worker of the thread's graph lends a host. */
import type { UiCall } from '../../../schemas/app-host.js'
import { fail, WeftError } from '../../../schemas/errors.js'
import { jsonText, parseJson } from '../../../schemas/exact.js'
import type {
  DrawCall,
  ForgetCall,
  HistoryCall,
  SchemasCall,
  StateCall,
  SubgraphsCall,
  UpdateCall,
} from '../../../schemas/host.js'
import { token } from '../../../schemas/ids.js'
import { isObject, type JsonObject } from '../../../schemas/json.js'
import { host } from '../../../schemas/subjects.js'
import type { Author, ThreadRow } from '../../../store/rows/threads.js'
import { wholeApp } from '../access.js'
import type { Deps } from '../context.js'
import { findAssistant } from '../rows/assistant.js'

/** A host has 30 s to answer. */
const CALL_MS = 35_000
/** A graph worker that gives no sign for this time is not waited for. Supervisors run no user code, so they are quick. */
const SILENCE_MS = 2_000

export type Question =
  | Omit<StateCall, 'graph_id' | 'thread_id' | 'config'>
  | Omit<HistoryCall, 'graph_id' | 'thread_id' | 'config'>
  | Omit<UpdateCall, 'graph_id' | 'thread_id' | 'config'>
  | Omit<ForgetCall, 'graph_id' | 'thread_id' | 'config'>
  | Omit<DrawCall, 'graph_id' | 'thread_id' | 'config'>
  | Omit<SchemasCall, 'graph_id' | 'thread_id' | 'config'>
  | Omit<SubgraphsCall, 'graph_id' | 'thread_id' | 'config'>
  | Omit<UiCall, 'graph_id'>

interface Asked {
  app: string
  thread_id: string
  graph_id: string
  /** Config of the assistant, for graphs that are made by a function. */
  config?: JsonObject
  timeout?: number
}

/**
 * Answer bytes (schemas/host.ts). A question changes nothing, so that another worker is asked when one is silent or has
 * no host for it. Throws unavailable when no host answers in time, and the errors of the host.
 */
export async function askHost(
  { caller, apps }: Pick<Deps, 'caller' | 'apps'>,
  { app, thread_id, graph_id, config = {}, timeout = CALL_MS }: Asked,
  question: Question,
): Promise<Uint8Array> {
  // A user interface may have a name that is no graph.
  const isAlias = question.verb === 'ui' && !(await apps.serves(app, graph_id))
  const pool = await (isAlias ? apps.anyPool(app) : apps.poolOf(app, graph_id))
  if (pool === null) throw fail('unavailable', `Nobody serves the graph "${graph_id}" at the moment`)
  const body = Buffer.from(jsonText({ ...question, graph_id, thread_id, config }))
  const until = performance.now() + timeout
  const ask = async (offered: boolean) => {
    const options = { timeout: until - performance.now(), silence: SILENCE_MS, repeat: true, offered }
    return (await caller.ask(host(token('pool', pool), question.verb), { request_id: '' }, body, options)).body
  }
  return ask(false).catch(error => {
    if (!isUnavailable(error) || performance.now() >= until) throw error
    return ask(true)
  })
}

/** No host answered: none is ready, or none in time. */
export const isUnavailable = (error: unknown): boolean => error instanceof WeftError && error.code === 'unavailable'

/** Like askHost, with the graph and the assistant of the thread. Throws bad_request when the thread has no graph. */
export async function askGraph(deps: Deps, row: ThreadRow, question: Question): Promise<Uint8Array> {
  const { app, thread_id } = row
  const { graph_id, assistant_id } = await authorOf(deps, row)
  if (graph_id === undefined)
    throw fail('bad_request', `Thread ${thread_id} has no graph: run one on it, or name it as metadata.graph_id`)
  const assistant = assistant_id === undefined ? null : await findAssistant(deps.store, wholeApp(app), assistant_id)
  const config = assistant?.graph_id === graph_id ? (parseJson(assistant.config) as JsonObject) : {}
  return askHost(deps, { app, thread_id, graph_id, config }, question)
}

/**
 * The graph and the assistant that can read the state of the thread: those that left it. While a run executes, and where
 * that graph is no longer served, those of the metadata.
 */
export async function authorOf({ apps }: Pick<Deps, 'apps'>, row: ThreadRow): Promise<Partial<Author>> {
  const { app, active, left_by = null } = row
  if (active !== null || left_by === null || !(await apps.serves(app, left_by.graph_id))) return graphIds(row)
  return left_by
}

/** Graph and assistant in the metadata of the thread: of its newest run, or given by the client at its creation. */
export function graphIds(row: Pick<ThreadRow, 'metadata'>): Partial<Author> {
  const metadata: unknown = parseJson(row.metadata)
  if (!isObject(metadata)) return {}
  const { graph_id, assistant_id } = metadata
  return {
    ...(typeof graph_id === 'string' ? { graph_id } : {}),
    ...(typeof assistant_id === 'string' ? { assistant_id } : {}),
  }
}
