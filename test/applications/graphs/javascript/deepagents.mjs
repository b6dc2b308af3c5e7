// A deep agent with a subagent, and a file tool that waits for approval.
import { ChatAnthropic } from '@langchain/anthropic'
import { createDeepAgent } from 'deepagents'

export const graph = createDeepAgent({
  model: new ChatAnthropic({ model: 'claude-sonnet-4-5', maxTokens: 1000 }),
  systemPrompt: 'You are a researcher.',
  subagents: [{ name: 'critic', description: 'Criticises a text.', systemPrompt: 'You criticise.' }],
  interruptOn: { write_file: true },
})
