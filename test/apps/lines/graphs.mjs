// Graphs of features that every version of LangGraph has, on scripted models: an agent with one tool, alone and as a subgraph.
import { BaseChatModel } from '@langchain/core/language_models/chat_models'
import { AIMessage, AIMessageChunk } from '@langchain/core/messages'
import { ChatGenerationChunk } from '@langchain/core/outputs'
import { tool } from '@langchain/core/tools'
import * as library from '@langchain/langgraph'
import { createReactAgent } from '@langchain/langgraph/prebuilt'
import { z } from 'zod'

const { Annotation, interrupt, MessagesAnnotation, START, StateGraph } = library

/** Calls the tool `add` when a person speaks, and says the sum when the tool has answered. */
class Adder extends BaseChatModel {
  _llmType() {
    return 'adder'
  }
  bindTools() {
    return this
  }
  async *_streamResponseChunks(messages, _options, manager) {
    const last = messages.at(-1)
    const id = `answer-${messages.length}-${Math.random()}`
    const pieces =
      last._getType() === 'tool'
        ? ['The sum ', 'is ', String(last.content)].map(content => ({ content }))
        : [
            { content: 'I add.' },
            {
              content: '',
              tool_call_chunks: [
                { index: 0, type: 'tool_call_chunk', name: 'add', args: '{"a":2,', id: `call-${messages.length}` },
              ],
            },
            { content: '', tool_call_chunks: [{ index: 0, type: 'tool_call_chunk', args: '"b":3}' }] },
          ]
    for (const piece of pieces) {
      const chunk = new ChatGenerationChunk({ text: piece.content, message: new AIMessageChunk({ id, ...piece }) })
      yield chunk
      await manager?.handleLLMNewToken(chunk.text, undefined, undefined, undefined, undefined, { chunk })
    }
  }
  async _generate(messages, options, manager) {
    let all
    for await (const chunk of this._streamResponseChunks(messages, options, manager)) all = all?.concat(chunk) ?? chunk
    return { generations: [all] }
  }
}

const add = tool(({ a, b }) => String(a + b), {
  name: 'add',
  description: 'Adds two numbers',
  schema: z.object({ a: z.number(), b: z.number() }),
})

// Older lines have no package `langchain`; the agent is the library's then.
const { createAgent } = await import('langchain').catch(() => ({}))
const made =
  createAgent === undefined
    ? createReactAgent({ llm: new Adder({}), tools: [add] })
    : createAgent({ model: new Adder({}), tools: [add] })
export const agent = made

const speak = at => (_, config) => {
  config.writer?.({ at })
  return {}
}

const inner = new StateGraph(MessagesAnnotation)
  .addNode('begin', speak('inner'))
  .addNode('agent', createReactAgent({ llm: new Adder({}), tools: [add] }))
  .addEdge(START, 'begin')
  .addEdge('begin', 'agent')
  .compile()

/** A tool and a model two levels down, and custom chunks on two levels. */
export const outer = new StateGraph(MessagesAnnotation)
  .addNode('first', speak('outer'))
  .addNode('sub', inner)
  .addNode('note', () => ({ messages: [new AIMessage({ content: 'noted', id: 'noted' })] }))
  .addEdge(START, 'first')
  .addEdge('first', 'sub')
  .addEdge('sub', 'note')
  .compile()

/** The functional API: a model, a tool and a custom chunk in a task that another task calls. */
export const functional =
  library.entrypoint === undefined
    ? null
    : (() => {
        const model = new Adder({})
        const ask = library.task('ask', async messages => {
          library.getConfig().writer?.({ at: 'ask' })
          return model.invoke(messages)
        })
        const middle = library.task('middle', async messages => ask(messages))
        return library.entrypoint('functional', async ({ messages }) => {
          const called = await middle(messages)
          const [call] = called.tool_calls
          return (await add.invoke({ ...call, type: 'tool_call' })).content
        })
      })()

/** Asks, then keeps the answer. */
export const ask =
  interrupt === undefined
    ? null
    : new StateGraph(Annotation.Root({ question: Annotation(), answer: Annotation() }))
        .addNode('node', ({ question }) => ({ answer: interrupt({ question }) }))
        .addEdge(START, 'node')
        .compile()

/** The functional API: the first run of a thread returns, later ones ask first. */
export const review =
  library.entrypoint === undefined || interrupt === undefined
    ? null
    : library.entrypoint('review', async ({ text }) => {
        const before = library.getPreviousState()
        return { result: before === undefined ? text : `${text} ${interrupt({ review: text })}` }
      })
