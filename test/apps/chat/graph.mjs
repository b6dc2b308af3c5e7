/** A chat without a model of this world: it repeats what it hears, counts as long as one likes, and asks. */
import { setTimeout as sleep } from 'node:timers/promises'
import { BaseChatModel } from '@langchain/core/language_models/chat_models'
import { AIMessageChunk } from '@langchain/core/messages'
import { ChatGenerationChunk } from '@langchain/core/outputs'
import { END, interrupt, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'

class Parrot extends BaseChatModel {
  _llmType() {
    return 'parrot'
  }

  async *_streamResponseChunks(messages, { signal }, manager) {
    const heard = String(messages.at(-1).content)
    const [, many, ms] = /^(?:deep )?count (\d+) (\d+)/.exec(heard) ?? []
    const words = many
      ? Array.from({ length: Number(many) }, (_, i) => `${i + 1}`)
      : ['You', 'said:', ...heard.split(' ')]
    for (const [i, word] of words.entries()) {
      if (ms) await sleep(Number(ms), null, { signal })
      const text = i === 0 ? word : ` ${word}`
      const chunk = new ChatGenerationChunk({ text, message: new AIMessageChunk({ content: text }) })
      yield chunk
      await manager?.handleLLMNewToken(text, undefined, undefined, undefined, undefined, { chunk })
    }
  }

  async _generate(messages, options, manager) {
    let all
    for await (const chunk of this._streamResponseChunks(messages, options, manager)) all = all?.concat(chunk) ?? chunk
    return { generations: [all] }
  }
}

const model = new Parrot({})

const talk = async ({ messages }, config) => ({ messages: [await model.invoke(messages, config)] })

const deep = new StateGraph(MessagesAnnotation).addNode('talk', talk).addEdge(START, 'talk').compile()

function route({ messages }) {
  const [, first] = /^(may I|deep)/.exec(String(messages.at(-1).content)) ?? []
  return first === 'may I' ? 'ask' : (first ?? 'talk')
}

export const chat = new StateGraph(MessagesAnnotation)
  .addNode('talk', talk)
  .addNode('ask', ({ messages }) => {
    const answer = interrupt({ question: String(messages.at(-1).content) })
    return { messages: [{ role: 'ai', content: `The answer was ${answer}` }] }
  })
  .addNode('deep', deep)
  .addConditionalEdges(START, route, ['talk', 'ask', 'deep'])
  .addEdge('talk', END)
  .addEdge('ask', END)
  .addEdge('deep', END)
  .compile()
