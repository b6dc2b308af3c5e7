// A graph that chats, for clients of A2A.
import { setTimeout as sleep } from 'node:timers/promises'
import { AIMessage, ToolMessage } from '@langchain/core/messages'
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

const ui = (data, mimeType = 'application/json+a2ui') => ({ type: 'data', data, metadata: { mimeType, of: 'form' } })
const surface = { version: 'v0.9', createSurface: { surfaceId: 's', catalogId: 'c' } }
const button = { id: 'root', component: 'Button', child: 'text' }
const components = { version: 'v0.9', updateComponents: { surfaceId: 's', components: [button] } }

/** Answers a text with a form, and an event of the form with what it has got. "wrong" gets a form that is none; "ask" is asked first; "tool" calls tools. */
export const form = new StateGraph(MessagesAnnotation)
  .addNode('show', ({ messages }) => {
    const { content, additional_kwargs } = messages.at(-1)
    const event = Array.isArray(content) ? content.find(({ type }) => type === 'data') : undefined
    if (event !== undefined) return { messages: [new AIMessage(JSON.stringify({ event, additional_kwargs }))] }
    if (content === 'ask') return { messages: [new AIMessage(JSON.stringify(interrupt('Press the button')))] }
    if (content === 'tool') {
      const results = [
        { name: 'render', content: JSON.stringify([surface]) },
        { name: 'secret', content: JSON.stringify([components]) },
        { name: 'render', content: JSON.stringify([components]), status: 'error' },
        { name: 'render', content: 'none' },
      ].map((one, i) => new ToolMessage({ ...one, tool_call_id: `call-${i}` }))
      return { messages: [...results, new AIMessage('Rendered')] }
    }
    const shown = content === 'wrong' ? [{ version: 'v0.9' }] : [surface, components]
    const blocks = [{ type: 'text', text: 'Here:' }, ui(shown), { type: 'data', data: { secret: true } }]
    return { messages: [new AIMessage({ content: blocks })] }
  })
  .addEdge(START, 'show')
  .compile()

/** Its output is no object. */
export const says = entrypoint('says', async ({ text }) => text)
