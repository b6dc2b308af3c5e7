// Every middleware of langchain that needs no other service.
import { ChatAnthropic } from '@langchain/anthropic'
import {
  ClearToolUsesEdit,
  contextEditingMiddleware,
  createAgent,
  createMiddleware,
  dynamicSystemPromptMiddleware,
  humanInTheLoopMiddleware,
  llmToolSelectorMiddleware,
  modelCallLimitMiddleware,
  modelFallbackMiddleware,
  modelRetryMiddleware,
  piiMiddleware,
  summarizationMiddleware,
  todoListMiddleware,
  tool,
  toolCallLimitMiddleware,
  toolRetryMiddleware,
} from 'langchain'
import { z } from 'zod'

const model = new ChatAnthropic({ model: 'claude-sonnet-4-5', maxTokens: 1000 })
const sendMail = tool(({ to }) => `sent to ${to}`, {
  name: 'send_mail',
  description: 'Sends a mail.',
  schema: z.object({ to: z.string() }),
})
const counted = createMiddleware({
  name: 'Counted',
  stateSchema: z.object({ calls: z.number().default(0) }),
  contextSchema: z.object({ style: z.string().default('plain') }),
  beforeModel: state => ({ calls: (state.calls ?? 0) + 1 }),
})

export const graph = createAgent({
  model,
  tools: [sendMail],
  middleware: [
    counted,
    dynamicSystemPromptMiddleware((_state, runtime) => `Answer in the style ${runtime.context.style}.`),
    summarizationMiddleware({ model, trigger: { messages: 4 }, keep: { messages: 2 } }),
    todoListMiddleware(),
    humanInTheLoopMiddleware({ interruptOn: { send_mail: true } }),
    piiMiddleware('email', { strategy: 'redact' }),
    modelCallLimitMiddleware({ runLimit: 20 }),
    toolCallLimitMiddleware({ runLimit: 20 }),
    modelFallbackMiddleware(model),
    modelRetryMiddleware({ maxRetries: 1 }),
    toolRetryMiddleware({ maxRetries: 1 }),
    llmToolSelectorMiddleware({ model, alwaysInclude: ['send_mail', 'write_todos'] }),
    contextEditingMiddleware({ edits: [new ClearToolUsesEdit({ trigger: { tokens: 1000 } })] }),
  ],
})
