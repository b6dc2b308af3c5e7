// The quick start of the package.
import { tool } from '@langchain/core/tools'
import { createReactAgent } from '@langchain/langgraph/prebuilt'
import { createSupervisor } from '@langchain/langgraph-supervisor'
import { ChatOpenAI } from '@langchain/openai'
import { z } from 'zod'

const llm = new ChatOpenAI({ model: 'gpt-4o' })
const add = tool(({ a, b }) => a + b, {
  name: 'add',
  description: 'Add two numbers.',
  schema: z.object({ a: z.number(), b: z.number() }),
})
const mathAgent = createReactAgent({ llm, tools: [add], name: 'math_expert', prompt: 'You are a math expert.' })
const writer = createReactAgent({ llm, tools: [], name: 'writer', prompt: 'You write.' })

export const graph = createSupervisor({ agents: [mathAgent, writer], llm, prompt: 'You supervise.' }).compile()
