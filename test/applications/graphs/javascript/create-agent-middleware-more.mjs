// The middleware of langchain that emulates tools, searches them, handles their errors and marks what a provider may cache.
import { ChatAnthropic } from '@langchain/anthropic'
import {
  anthropicPromptCachingMiddleware,
  createAgent,
  providerToolSearchMiddleware,
  tool,
  toolEmulatorMiddleware,
  toolErrorMiddleware,
} from 'langchain'
import { z } from 'zod'

const model = new ChatAnthropic({ model: 'claude-sonnet-4-5', maxTokens: 1000 })
const failing = (name, description, argument) =>
  tool(
    args => {
      throw new Error(args[argument])
    },
    { name, description, schema: z.object({ [argument]: z.string() }) },
  )
const rare = tool(({ text }) => text, {
  name: 'rare',
  description: 'Is found by a search.',
  schema: z.object({ text: z.string() }),
})

export const graph = createAgent({
  model,
  tools: [failing('fails', 'Fails.', 'why'), failing('weather', 'Says how the weather is.', 'city'), rare],
  middleware: [
    providerToolSearchMiddleware({ searchableTools: ['rare'] }),
    toolErrorMiddleware({ onError: error => `failed: ${error.message}` }),
    toolEmulatorMiddleware({ tools: ['weather'], model }),
    anthropicPromptCachingMiddleware({ minMessagesToCache: 1 }),
  ],
})
