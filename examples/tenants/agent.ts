/** Remembers what its user tells it, in the part of the item store that clients of this user see as `["notes"]`. */
import { type BaseMessage, SystemMessage } from '@langchain/core/messages'
import { type LangGraphRunnableConfig, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'
import { chatModel } from './model.js'

/** Says what the notes in the system message are. */
const script = ([system]: BaseMessage[]): string => `You told me: ${system?.text.split('\n').slice(1).join('; ')}.`

async function answer({ messages }: typeof MessagesAnnotation.State, config: LangGraphRunnableConfig) {
  const { store } = config
  // The server sets it from `authenticate`; what clients send under this name is removed.
  const user = config.configurable?.langgraph_auth_user_id as string
  const said = messages.at(-1)?.text ?? ''
  const [, note] = /^remember (.+)$/i.exec(said) ?? []
  if (note !== undefined) await store?.put([user, 'notes'], note, { note })
  const found = (await store?.search([user, 'notes'])) ?? []
  const notes = found.map(({ value }) => value.note as string).sort()
  const system = new SystemMessage(['Answer with what you know of your user:', ...notes].join('\n'))
  const model = await chatModel(script)
  return { messages: [await model.invoke([system, ...messages], config)] }
}

export const notes = new StateGraph(MessagesAnnotation).addNode('answer', answer).addEdge(START, 'answer').compile()
