/** An agent with a tool that takes long. A page that was read is not read again when the process dies in between. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { BaseChatModel } from '@langchain/core/language_models/chat_models'
import type { BaseMessage } from '@langchain/core/messages'
import { tool } from '@langchain/core/tools'
import { getWriter, task } from '@langchain/langgraph'
import { createCompletionCallbackMiddleware, createDeepAgent } from 'deepagents'
import { z } from 'zod'
import { chatModel, type Reply } from './model.js'

const LIBRARY = {
  moon: 'The moon pulls the water of the nearer side more strongly than the earth below it.',
  sun: 'The sun pulls, too, a little less than half as strongly as the moon.',
  coast: 'A coast decides how high a tide becomes.',
}
const PAGE_MS = 1_000 * Number(process.env.PAGE_SECONDS || 1)
const PROMPT = 'Read the library and answer the question from it.'

/** The result of a task is stored with the checkpoint of the run: the next attempt takes it from there. */
const readPage = task('read_page', async (name: keyof typeof LIBRARY) => {
  getWriter()?.({ reads: name })
  await sleep(PAGE_MS)
  return LIBRARY[name]
})

const readLibrary = tool(
  async () => {
    const pages: string[] = []
    for (const name of Object.keys(LIBRARY) as (keyof typeof LIBRARY)[]) pages.push(await readPage(name))
    return pages.join(' ')
  },
  {
    name: 'read_library',
    description: 'Reads every page of the library.',
    schema: z.object({ question: z.string() }),
  },
)

/** Without a key: reads the library, and says what is in it. */
function script(messages: BaseMessage[]): Reply {
  const last = messages.at(-1)!
  return last.type === 'tool' ? last.text : { tool: 'read_library', args: { question: last.text } }
}

const model = (await chatModel(script)) as BaseChatModel

/** Its last message wakes the lead, with a run on the thread that has started the task. */
const report = createCompletionCallbackMiddleware({ callbackGraphId: 'lead' })

export const researcher = createDeepAgent({ model, systemPrompt: PROMPT, tools: [readLibrary], middleware: [report] })
