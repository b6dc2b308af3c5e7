/**
 * An assistant that asks before it acts. A person approves a call, edits its arguments, or rejects it with a reason.
 *
 *   START ─▶ model ─▶ act ─▶ model …
 *               └──▶ END
 */
import { AIMessage, type BaseMessage, ToolMessage } from '@langchain/core/messages'
import type { ToolCall } from '@langchain/core/messages/tool'
import {
  END,
  interrupt,
  type LangGraphRunnableConfig,
  MessagesAnnotation,
  START,
  StateGraph,
} from '@langchain/langgraph'
import { z } from 'zod'
import { chatModel } from './model.js'
import { script } from './script.js'
import { GUARDED, tools } from './tools.js'

type State = typeof MessagesAnnotation.State

const Decision = z.discriminatedUnion('type', [
  z.object({ type: z.literal('approve') }),
  z.object({
    type: z.literal('edit'),
    edited_action: z.object({ name: z.string(), args: z.record(z.string(), z.unknown()) }),
  }),
  z.object({ type: z.literal('reject'), message: z.string().optional() }),
])
type Decision = z.infer<typeof Decision>
const DECISIONS = ['approve', 'edit', 'reject']

const callsOf = (messages: BaseMessage[]): ToolCall[] => (messages.at(-1) as AIMessage).tool_calls ?? []

/**
 * One question for all calls, in the form of LangChain's middleware for people in the loop: the console and other front
 * ends have buttons for it. An answer of another form is asked for again, with the reason.
 */
function ask(calls: ToolCall[]): Decision[] {
  const form = z.object({ decisions: z.array(Decision).length(calls.length) })
  const question = {
    action_requests: calls.map(({ name, args }) => ({ name, args })),
    review_configs: [...GUARDED].map(action_name => ({ action_name, allowed_decisions: DECISIONS })),
  }
  for (let message: string | null = null; ; ) {
    const answer = form.safeParse(interrupt(message === null ? question : { ...question, message }))
    if (answer.success) return answer.data.decisions
    message = `expected ${calls.length} of the decisions ${DECISIONS.join(', ')} as {"decisions": [{"type": "approve"}]}`
  }
}

async function callModel({ messages }: State, config: LangGraphRunnableConfig) {
  const model = await chatModel(script, tools)
  return { messages: [await model.invoke(messages, config)] }
}

/** This node runs from its start again after each answer, so that nothing happens before `ask` has returned. */
async function act({ messages }: State, config: LangGraphRunnableConfig) {
  const calls = callsOf(messages)
  const guarded = calls.filter(({ name }) => GUARDED.has(name))
  const decisions = guarded.length > 0 ? ask(guarded) : []
  const decisionOf = new Map(guarded.map((call, i) => [call, decisions[i]]))
  const decided = calls.map(call => {
    const decision = decisionOf.get(call)
    return { decision, call: decision?.type === 'edit' ? { ...call, args: decision.edited_action.args } : call }
  })
  const answers = decided.map(async ({ decision, call }) => {
    const { id: tool_call_id = '', name } = call
    if (decision?.type === 'reject') {
      const why = decision.message === undefined ? '' : `, because ${decision.message}`
      return new ToolMessage({ tool_call_id, name, status: 'error', content: `not sent${why}` })
    }
    return runTool(call, config)
  })
  // The message of the model gets the arguments that were used: what the thread shows is what was done.
  const { id, content } = messages.at(-1) as AIMessage
  const said = new AIMessage({ id, content, tool_calls: decided.map(({ call }) => call) })
  return { messages: [said, ...(await Promise.all(answers))] }
}

async function runTool(call: ToolCall, config: LangGraphRunnableConfig): Promise<ToolMessage> {
  const { id: tool_call_id = '', name } = call
  const tool = tools.find(tool => tool.name === name)
  try {
    if (tool === undefined) throw new Error(`there is no tool called ${name}`)
    return await tool.invoke({ ...call, type: 'tool_call' }, config)
  } catch (error) {
    return new ToolMessage({ tool_call_id, name, status: 'error', content: (error as Error).message })
  }
}

export const assistant = new StateGraph(MessagesAnnotation)
  .addNode('model', callModel)
  .addNode('act', act)
  .addEdge(START, 'model')
  .addConditionalEdges('model', ({ messages }) => (callsOf(messages).length > 0 ? 'act' : END), ['act', END])
  .addEdge('act', 'model')
  .compile()
