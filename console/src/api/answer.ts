/** Goes on with a thread that waits for a person. */
import type { Run } from '@langchain/langgraph-sdk'
import { authorOf } from './author'
import { client } from './client'

/** `resume`: the answer; undefined for a thread that stopped without a question. Only the graph that asked may take it. */
export async function goOn(threadId: string, resume: unknown): Promise<Run> {
  const author = await authorOf(threadId)
  if (!author?.assistant)
    throw new Error(
      author === null
        ? 'No run has been on this thread yet.'
        : `The graph ${author.graph_id} of this thread is not served now.`,
    )
  return client.runs.create(threadId, author.assistant.assistant_id, {
    ...(resume === undefined ? { input: null } : { command: { resume } }),
    streamResumable: true,
    // Two people answer: the second answer is not meant for what the graph asks next.
    multitaskStrategy: 'reject',
  })
}
