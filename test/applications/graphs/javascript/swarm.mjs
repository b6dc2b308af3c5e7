// The quick start of the package.
import { tool } from '@langchain/core/tools'
import { createReactAgent } from '@langchain/langgraph/prebuilt'
import { createHandoffTool, createSwarm } from '@langchain/langgraph-swarm'
import { ChatOpenAI } from '@langchain/openai'
import { z } from 'zod'

const llm = new ChatOpenAI({ model: 'gpt-4o' })
const add = tool(({ a, b }) => a + b, {
  name: 'add',
  description: 'Add two numbers.',
  schema: z.object({ a: z.number(), b: z.number() }),
})
const alice = createReactAgent({ llm, tools: [add, createHandoffTool({ agentName: 'Bob' })], name: 'Alice' })
const bob = createReactAgent({ llm, tools: [createHandoffTool({ agentName: 'Alice' })], name: 'Bob' })

export const graph = createSwarm({ agents: [alice, bob], defaultActiveAgent: 'Alice' }).compile()
