import { Annotation, START, StateGraph } from '@langchain/langgraph'
import { Client } from '@langchain/langgraph-sdk'

const Seen = Annotation.Root({ thread_id: Annotation(), owner: Annotation(), child: Annotation(), user: Annotation() })

export const calls = new StateGraph(Seen)
  .addNode('call', async (_, config) => {
    const client = new Client()
    const { thread_id, metadata } = await client.threads.create()
    const child = await client.runs.wait(thread_id, 'private', { input: { question: '?' } })
    const user = config.configurable.langgraph_auth_user
    return { thread_id, owner: metadata.owner, child, user: { ...user, name: user.identity } }
  })
  .addEdge(START, 'call')
  .compile()
