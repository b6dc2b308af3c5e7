/**
 * A chat agent that needs no API key: its model is a script (model.ts), everything else is a usual LangGraph agent.
 *
 *   START ─▶ model ─▶ tools ───▶ model …        "what is the weather in Oslo?", "calculate 6 * 7"
 *                ├──▶ approval ─▶ model …       "book a table for two": stops until a person answers
 *                ├──▶ research ─▶ model …       "research tides": a subgraph that reports its progress
 *                └──▶ END
 */
import { type AIMessage, ToolMessage } from '@langchain/core/messages'
import type { LangGraphRunnableConfig } from '@langchain/langgraph'
import { END, interrupt, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'
import { ScriptedModel } from './model.js'
import { research } from './research.js'
import { tools } from './tools.js'

type State = typeof MessagesAnnotation.State

/** The answers that a person may give to a request for approval. */
type Approval = boolean | { approved: boolean; note?: string }

async function callModel({ messages }: State, config: LangGraphRunnableConfig) {
  const delay = config.configurable?.delay_ms
  const model = new ScriptedModel({ delay_ms: typeof delay === 'number' ? delay : 30 })
  return { messages: [await model.invoke(messages, config)] }
}

const callsOf = ({ messages }: State) => (messages.at(-1) as AIMessage).tool_calls ?? []

async function callTools(state: State) {
  const messages = callsOf(state).map(({ id, name, args }) => {
    const content = tools[name]?.(args as { [name: string]: string }) ?? `There is no tool called ${name}.`
    return new ToolMessage({ tool_call_id: id as string, name, content })
  })
  return { messages }
}

/** Nothing is booked or sent before a person has agreed. */
function askApproval(state: State) {
  const messages = callsOf(state).map(({ id, name, args }) => {
    const answer = interrupt<unknown, Approval>({ action: name, args, question: `May I ${name} ${args.what}?` })
    const { approved, note } = typeof answer === 'object' ? answer : { approved: answer, note: undefined }
    const content = approved ? `done: ${name} ${args.what}` : `refused${note ? `: ${note}` : ''}`
    return new ToolMessage({ tool_call_id: id as string, name, content })
  })
  return { messages }
}

function route(state: State): 'tools' | 'approval' | 'research' | typeof END {
  const [call] = callsOf(state)
  if (call === undefined) return END
  if (call.name === 'book' || call.name === 'send') return 'approval'
  return call.name === 'research' ? 'research' : 'tools'
}

export const agent = new StateGraph(MessagesAnnotation)
  .addNode('model', callModel)
  .addNode('tools', callTools)
  .addNode('approval', askApproval)
  .addNode('research', research)
  .addEdge(START, 'model')
  .addConditionalEdges('model', route, ['tools', 'approval', 'research', END])
  .addEdge('tools', 'model')
  .addEdge('approval', 'model')
  .addEdge('research', 'model')
  .compile({ name: 'agent' })
