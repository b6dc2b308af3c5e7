/** The graph that a thread, or one of its checkpoints, belongs to, and the assistant to go on with. */
import type { Assistant } from '@langchain/langgraph-sdk'
import { ask, client } from './client'

export interface Author {
  graph_id: string
  /** Null: nothing serves the graph now. */
  assistant: Assistant | null
}

/** Metadata of a thread or of a checkpoint. */
type Named = { [name: string]: unknown } | null | undefined

/** The author of the newest state of a thread. Null: no run has been on it. */
export async function authorOf(threadId: string): Promise<Author | null> {
  const state = await ask<{ metadata: Named }>(`/threads/${threadId}/state?select=metadata`).catch(() => null)
  const author = await authorIn(state?.metadata)
  // The first run has not stored a state yet, nobody can read it, or a client has named the graph of its thread.
  return author ?? authorIn((await client.threads.get(threadId, { include: [] })).metadata)
}

/** Null: the metadata name no graph. */
export async function authorIn(metadata: Named): Promise<Author | null> {
  const { assistant_id, graph_id } = metadata ?? {}
  const own = typeof assistant_id === 'string' ? await find(assistant_id) : null
  if (typeof graph_id !== 'string') return own === null ? null : { graph_id: own.graph_id, assistant: own }
  // The assistant may be of another graph by now, or deleted.
  return { graph_id, assistant: own?.graph_id === graph_id ? own : await find(graph_id) }
}

/** By its id, or by that of its graph. */
const find = (id: string): Promise<Assistant | null> =>
  client.assistants.get(id).catch(error => {
    const { status } = error as { status?: number }
    // 422: the id of a graph that does not exist is no id of an assistant.
    if (status === 404 || status === 422) return null
    throw error
  })
