/**
 * A travel guide: it searches trains, and asks a person before it books one.
 *
 *   START ─▶ model ─▶ tools ─▶ model …
 *               └──▶ END
 */
import { tool } from '@langchain/core/tools'
import { interrupt, type LangGraphRunnableConfig, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'
import { ToolNode, toolsCondition } from '@langchain/langgraph/prebuilt'
import { z } from 'zod'
import { chatModel } from './model.js'
import { script } from './script.js'

const searchTrains = tool(({ to }) => `${to}: 08:15 direct, 09:40 with one change, 11:05 direct`, {
  name: 'search_trains',
  description: 'Finds the trains of the morning to a city.',
  schema: z.object({ to: z.string() }),
})

const bookTrain = tool(
  ({ to, at }) => {
    // The run ends here, and goes on with the answer. The tool is called again, so that nothing happens before.
    const agreed = interrupt<{ question: string }, boolean>({ question: `Book the train to ${to} at ${at}?` })
    return agreed ? `booked: ${to} at ${at}` : `not booked: ${to} at ${at}`
  },
  {
    name: 'book_train',
    description: 'Books the train to a city at a time.',
    schema: z.object({ to: z.string(), at: z.string() }),
  },
)

const tools = [searchTrains, bookTrain]

async function callModel({ messages }: typeof MessagesAnnotation.State, config: LangGraphRunnableConfig) {
  const model = await chatModel(script, tools)
  return { messages: [await model.invoke(messages, config)] }
}

export const guide = new StateGraph(MessagesAnnotation)
  .addNode('model', callModel)
  .addNode('tools', new ToolNode(tools))
  .addEdge(START, 'model')
  .addConditionalEdges('model', toolsCondition)
  .addEdge('tools', 'model')
  .compile()
