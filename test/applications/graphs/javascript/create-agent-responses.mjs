// The Responses API, and an answer with a schema.
import { ChatOpenAI } from '@langchain/openai'
import { createAgent, toolStrategy } from 'langchain'
import { z } from 'zod'

export const graph = createAgent({
  model: new ChatOpenAI({ model: 'gpt-5-mini', useResponsesApi: true }),
  tools: [],
  responseFormat: toolStrategy(z.object({ city: z.string(), people: z.number() })),
})
