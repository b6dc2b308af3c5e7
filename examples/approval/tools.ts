/** The tools of the assistant. The outbox is the item store of the server, so that its content can be read by clients. */
import { type StructuredToolInterface, tool } from '@langchain/core/tools'
import type { LangGraphRunnableConfig } from '@langchain/langgraph'
import { z } from 'zod'

const CONTACTS: { [name: string]: string } = { ada: 'ada@example.com', bob: 'bob@example.com' }

const findAddress = tool(({ name }) => CONTACTS[name.toLowerCase()] ?? `nobody is called ${name}`, {
  name: 'find_address',
  description: 'Finds the e-mail address of a person.',
  schema: z.object({ name: z.string() }),
})

const sendEmail = tool(
  async ({ to, text }, { store, toolCall }: LangGraphRunnableConfig & { toolCall?: { id?: string } }) => {
    // The id of the call is the key: a node that runs again after a crash sends no second e-mail.
    await store?.put(['outbox'], toolCall?.id ?? to, { to, text })
    return `sent to ${to}: ${text}`
  },
  {
    name: 'send_email',
    description: 'Sends an e-mail to an address.',
    schema: z.object({ to: z.string(), text: z.string() }),
  },
)

export const tools: StructuredToolInterface[] = [findAddress, sendEmail]
/** Tools with an effect outside, which a person has to allow. */
export const GUARDED: ReadonlySet<string> = new Set([sendEmail.name])
