/** A subgraph with the parent's messages: outlines, writes, and tells how far it is through `custom` events. */
import { type AIMessage, ToolMessage } from '@langchain/core/messages'
import {
  Annotation,
  END,
  type LangGraphRunnableConfig,
  MessagesAnnotation,
  START,
  StateGraph,
} from '@langchain/langgraph'

const ResearchState = Annotation.Root({ ...MessagesAnnotation.spec, outline: Annotation<string[]> })

function outline({ messages }: typeof ResearchState.State, { writer }: LangGraphRunnableConfig) {
  const [call] = (messages.at(-1) as AIMessage).tool_calls ?? []
  const points = ['origins', 'present', 'outlook'].map(part => `${part} of ${call?.args.topic}`)
  writer?.({ step: 'outline', points: points.length })
  return { outline: points }
}

function write({ messages, outline }: typeof ResearchState.State, { writer }: LangGraphRunnableConfig) {
  const [call] = (messages.at(-1) as AIMessage).tool_calls ?? []
  writer?.({ step: 'write', points: outline.length })
  const content = `I looked at three points: ${outline.join('; ')}.`
  return { messages: [new ToolMessage({ tool_call_id: call?.id as string, name: 'research', content })] }
}

export const research = new StateGraph(ResearchState)
  .addNode('plan', outline)
  .addNode('write', write)
  .addEdge(START, 'plan')
  .addEdge('plan', 'write')
  .addEdge('write', END)
  .compile()
