// Human in the loop, as the documentation of langchain shows it.
import { ChatOpenAI } from '@langchain/openai'
import { createAgent, humanInTheLoopMiddleware, tool } from 'langchain'
import { z } from 'zod'

const sendMail = tool(({ to }) => `sent to ${to}`, {
  name: 'send_mail',
  description: 'Sends a mail.',
  schema: z.object({ to: z.string() }),
})

export const graph = createAgent({
  model: new ChatOpenAI({ model: 'gpt-4o-mini' }),
  tools: [sendMail],
  middleware: [humanInTheLoopMiddleware({ interruptOn: { send_mail: true } })],
})
