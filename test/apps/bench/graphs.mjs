// The graphs of `npm run bench`, the same files on every server and in the process without one. The graphs do next to
// nothing, so that what is measured is what stands around them.
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'
import { BaseChatModel } from '@langchain/core/language_models/chat_models'
import { AIMessage, AIMessageChunk } from '@langchain/core/messages'
import { ChatGenerationChunk } from '@langchain/core/outputs'
import { Annotation, END, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'

const one = (state, node) =>
  new StateGraph(state).addNode('node', node).addEdge(START, 'node').addEdge('node', END).compile()

/** One node that returns its input. */
export const echo = one(Annotation.Root({ text: Annotation(), seen: Annotation() }), ({ text }) => ({ seen: text }))

/** Writes the custom chunks {i: 0}, {i: 1} …: `count` of them, `delay_ms` apart, the first after `start_ms`. */
export const custom = one(
  Annotation.Root({ count: Annotation(), delay_ms: Annotation(), start_ms: Annotation(), done: Annotation() }),
  async ({ count, delay_ms = 0, start_ms = 0 }, { writer }) => {
    if (start_ms > 0) await sleep(start_ms)
    for (let i = 0; i < count; i++) {
      if (delay_ms > 0) await sleep(delay_ms)
      // Like code that waits for something now and then.
      else if (i % 50 === 49) await turn()
      writer({ i })
    }
    return { done: count }
  },
)

/** `count` steps, one after the other, each with a checkpoint where there is a checkpointer. */
export const steps = new StateGraph(
  Annotation.Root({ count: Annotation(), done: Annotation({ reducer: (_, next) => next, default: () => 0 }) }),
)
  .addNode('step', ({ done }) => ({ done: done + 1 }))
  .addEdge(START, 'step')
  .addConditionalEdges('step', ({ count, done }) => (done % count === 0 ? END : 'step'))
  .compile()

/** Says "w0 w1 … " as a stream of as many tokens as the last message asks for. */
class CountingModel extends BaseChatModel {
  _llmType() {
    return 'counting'
  }

  async *_streamResponseChunks(messages, _options, manager) {
    const count = Number(messages.at(-1).content)
    for (let i = 0; i < count; i++) {
      if (i % 10 === 9) await turn()
      const text = `w${i} `
      const chunk = new ChatGenerationChunk({ text, message: new AIMessageChunk(text) })
      await manager?.handleLLMNewToken(text, undefined, undefined, undefined, undefined, { chunk })
      yield chunk
    }
  }

  async _generate(messages, options, manager) {
    let text = ''
    for await (const chunk of this._streamResponseChunks(messages, options, manager)) text += chunk.text
    return { generations: [{ text, message: new AIMessage(text) }] }
  }
}

const model = new CountingModel({})

export const chat = one(MessagesAnnotation, async ({ messages }) => ({ messages: [await model.invoke(messages)] }))
