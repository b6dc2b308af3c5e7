/** START ─▶ model ─▶ END: says what to pack, and remembers the trip in the thread. */
import { type LangGraphRunnableConfig, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'
import { chatModel, type Script } from './model.js'

const script: Script = messages =>
  messages.length > 1
    ? 'And a book for the way back, because the first one ends too soon.'
    : 'Pack a raincoat, good shoes, a charger, and one thing that you will not need.'

async function callModel({ messages }: typeof MessagesAnnotation.State, config: LangGraphRunnableConfig) {
  const model = await chatModel(script)
  return { messages: [await model.invoke(messages, config)] }
}

export const packer = new StateGraph(MessagesAnnotation).addNode('model', callModel).addEdge(START, 'model').compile()
