/**
 * An agent that gives work to another one. Each task is a run of its own on this server, on a thread of its own.
 *
 * The subagent has no address, so the tools of deepagents call the server that runs the lead, as the user of its run.
 */
import type { BaseChatModel } from '@langchain/core/language_models/chat_models'
import type { BaseMessage } from '@langchain/core/messages'
import { type AsyncSubAgent, createDeepAgent } from 'deepagents'
import { chatModel, type Reply } from './model.js'

const RESEARCHER: AsyncSubAgent = {
  name: 'researcher',
  description: 'Reads every page of a library and answers a question. It takes a while.',
  graphId: 'researcher',
}
const PROMPT = 'Give questions to the researcher, say at once that you did, and report what it finds when you are told.'

/** Without a key: `research …`, `also …`, `status` and `stop` call a tool; a notification becomes a report. */
function script(messages: BaseMessage[]): Reply {
  const last = messages.at(-1)!
  if (last.type === 'tool') return last.text
  const result = /^\[task_id=.*?\]Completed\. Result: (.*)$/s.exec(last.text)?.[1]
  if (result !== undefined) return `The researcher says: ${result}`
  const [order, rest = ''] = last.text.split(/ (.*)/s)
  if (order === 'research') return { tool: 'start_async_task', args: { description: rest, agentName: RESEARCHER.name } }
  const all = messages.map(({ text }) => text).join('\n')
  const taskId = [...all.matchAll(/Launched async subagent\. taskId: (\S+)/g)].at(-1)?.[1]
  if (order === 'status') return { tool: 'list_async_tasks', args: {} }
  if (taskId !== undefined && order === 'also') return { tool: 'update_async_task', args: { taskId, message: rest } }
  if (taskId !== undefined && order === 'stop') return { tool: 'cancel_async_task', args: { taskId } }
  return 'Say for example: research why are there tides?'
}

const model = (await chatModel(script)) as BaseChatModel

export const lead = createDeepAgent({ model, systemPrompt: PROMPT, subagents: [RESEARCHER] })
