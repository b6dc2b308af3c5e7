/** A chat agent. Its model is scripted, so that it runs without a key: replace it by one of a provider. */
import { FakeListChatModel } from '@langchain/core/utils/testing'
import { MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'

/** As `new ChatOpenAI({ model: 'gpt-5' })` of the package @langchain/openai. */
const modelFor = (question: string) =>
  new FakeListChatModel({ responses: [`You said: ${question}. I am a scripted model.`] })

export const agent = new StateGraph(MessagesAnnotation)
  .addNode('answer', async ({ messages }) => ({
    messages: [await modelFor(`${messages.at(-1)?.content}`).invoke(messages)],
  }))
  .addEdge(START, 'answer')
  .compile()
