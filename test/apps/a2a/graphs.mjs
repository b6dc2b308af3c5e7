// A graph that chats, for clients of A2A.
import { setTimeout as sleep } from 'node:timers/promises'
import { AIMessage } from '@langchain/core/messages'
import { FakeStreamingChatModel } from '@langchain/core/utils/testing'
import { entrypoint, interrupt, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'

const textOf = ({ content }) => (typeof content === 'string' ? content : JSON.stringify(content))

/** "You said …", a letter at a time. "ask …" asks for a name first; "wait n" waits n ms in the middle of the answer. */
export const talk = new StateGraph(MessagesAnnotation)
  .addNode('speak', async ({ messages }) => {
    const said = textOf(messages.at(-1))
    const name = said.startsWith('ask') ? `${interrupt('Your name?')}: ` : ''
    const model = new FakeStreamingChatModel({ sleep: 1, responses: [new AIMessage(`You said ${name}${said}`)] })
    const waits = /^wait (\d+)/.exec(said)
    const answer = await model.invoke(messages)
    if (waits !== null) await sleep(Number(waits[1]))
    return { messages: [answer] }
  })
  .addEdge(START, 'speak')
  .compile()

/** Its output is no object. */
export const says = entrypoint('says', async ({ text }) => text)
