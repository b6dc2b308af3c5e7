// Graphs for the whole run payload: models, tools, subgraphs, commands, failures, sizes, signals.
import { setTimeout as sleep } from 'node:timers/promises'
import { BaseChatModel } from '@langchain/core/language_models/chat_models'
import { AIMessage, AIMessageChunk, RemoveMessage, ToolMessage } from '@langchain/core/messages'
import { ChatGenerationChunk } from '@langchain/core/outputs'
import { tool } from '@langchain/core/tools'
import { Annotation, Command, END, interrupt, MessagesAnnotation, Send, START, StateGraph } from '@langchain/langgraph'
import { z } from 'zod'

const append = (left, right) => left.concat(right)
const list = () => ({ reducer: append, default: () => [] })
const graphOf = (annotation, node) =>
  new StateGraph(annotation).addNode('node', node).addEdge(START, 'node').addEdge('node', END)

/** Streams what it is given, as a provider would: one id for all pieces, usage with the last. */
class ScriptedModel extends BaseChatModel {
  constructor(pieces, { awaits = true, ...fields } = {}) {
    super(fields)
    this.pieces = pieces
    this.awaits = awaits
  }
  _llmType() {
    return 'scripted'
  }
  async _generate() {
    let message
    for (const piece of this.pieces) message = message?.concat(new AIMessageChunk(piece)) ?? new AIMessageChunk(piece)
    const { content, tool_calls, additional_kwargs, response_metadata, usage_metadata } = message
    const said = new AIMessage({ content, tool_calls, additional_kwargs, response_metadata, usage_metadata })
    return { generations: [{ text: '', message: said }] }
  }
  async *_streamResponseChunks(_messages, _options, manager) {
    const id = `answer-${Math.random()}`
    for (const piece of this.pieces) {
      const message = new AIMessageChunk({ id, ...piece })
      const chunk = new ChatGenerationChunk({ text: typeof piece.content === 'string' ? piece.content : '', message })
      yield chunk
      const handled = manager?.handleLLMNewToken(chunk.text, undefined, undefined, undefined, undefined, { chunk })
      if (this.awaits) await handled
    }
  }
}

const letters = text => text.split('').map(content => ({ content }))
const toolCall = (part, index = 0) => ({ content: '', tool_call_chunks: [{ index, type: 'tool_call_chunk', ...part }] })
const usage = { input_tokens: 3, output_tokens: 5, total_tokens: 8 }

const calling = new ScriptedModel([
  ...letters('begin'),
  toolCall({ name: 'lookup', args: '{"te', id: 'call-1' }),
  toolCall({ args: 'xt":"x"}' }),
  { content: '', usage_metadata: usage },
])
const blocks = new ScriptedModel(
  [
    { content: [{ type: 'text', text: 'e', index: 0 }] },
    { content: [{ type: 'text', text: 'nd', index: 0 }] },
    { content: [], usage_metadata: usage },
  ],
  { awaits: false },
)
const quiet = new ScriptedModel(letters('secret'), { tags: ['nostream'] })

const lookup = tool(async ({ text }) => `found ${text}`, {
  name: 'lookup',
  description: 'Looks up',
  schema: z.object({ text: z.string() }),
})

/** An agent: a model that calls a tool, the tool, a model that answers in blocks. Tool messages have no id. */
const agentGraph = new StateGraph(MessagesAnnotation)
  .addNode('model', async ({ messages }) => ({ messages: [await calling.invoke(messages)] }))
  .addNode('tools', async ({ messages }) => {
    const [call] = messages.at(-1).tool_calls
    return {
      messages: [new ToolMessage({ content: await lookup.invoke(call.args), tool_call_id: call.id, name: 'lookup' })],
    }
  })
  .addNode('answer', async ({ messages }) => {
    await quiet.invoke(messages)
    return { messages: [await blocks.invoke(messages)] }
  })
  .addEdge(START, 'model')
  .addEdge('model', 'tools')
  .addEdge('tools', 'answer')
export const talker = agentGraph.compile()

/** The agent as a subgraph, and a message of its own after it. */
export const outer = new StateGraph(MessagesAnnotation)
  .addNode('agent', agentGraph.compile())
  .addNode('note', () => ({ messages: [{ role: 'human', content: 'noted' }] }))
  .addEdge(START, 'agent')
  .addEdge('agent', 'note')
  .compile()

/** The answer of a provider with everything: reasoning, text, two calls of tools at once, its own keys, usage. */
const provider = new ScriptedModel(
  [
    { content: [{ type: 'reasoning', reasoning: 'let me ', index: 0 }], additional_kwargs: { trace: 'abc' } },
    { content: [{ type: 'reasoning', reasoning: 'see', index: 0 }] },
    { content: [{ type: 'text', text: 'Looking ', index: 1 }] },
    { content: [{ type: 'text', text: 'up', index: 1 }] },
    toolCall({ name: 'lookup', args: '{"text":', id: 'call-a' }),
    toolCall({ args: '"a"}' }),
    toolCall({ name: 'lookup', args: '{"text":"b"}', id: 'call-b' }, 1),
    { content: [], response_metadata: { finish_reason: 'tool_calls', model_name: 'scripted' } },
    { content: [], usage_metadata: { ...usage, input_token_details: { cache_read: 1 } } },
  ],
  { awaits: false },
)

/** Messages of every kind: those of a provider, tools that answer and that fail, parts that are no text, a removal. */
export const shapes = new StateGraph(MessagesAnnotation)
  .addNode('ask', async ({ messages }) => ({ messages: [await provider.invoke(messages)] }))
  .addNode('tools', () => ({
    messages: [
      new ToolMessage({
        id: 'tool-a',
        content: 'found',
        tool_call_id: 'call-a',
        name: 'lookup',
        status: 'success',
        artifact: { rows: [{ id: 1 }], raw: null },
      }),
      new ToolMessage({ id: 'tool-b', content: 'broken', tool_call_id: 'call-b', name: 'lookup', status: 'error' }),
    ],
  }))
  .addNode('show', ({ messages }) => ({
    messages: [
      new RemoveMessage({ id: messages[0].id }),
      new AIMessage({
        id: 'shown',
        content: [
          { type: 'text', text: 'Here:' },
          { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
        ],
        name: 'painter',
      }),
    ],
  }))
  .addEdge(START, 'ask')
  .addEdge('ask', 'tools')
  .addEdge('tools', 'show')
  .compile()

/** Three steps; each says where it is. */
const Path = Annotation.Root({ path: Annotation(list()), note: Annotation() })
const step =
  name =>
  async (_, { writer }) => {
    writer?.({ at: name })
    return { path: [name] }
  }
export const steps = new StateGraph(Path)
  .addNode('a', step('a'))
  .addNode('b', step('b'))
  .addNode('c', step('c'))
  .addEdge(START, 'a')
  .addEdge('a', 'b')
  .addEdge('b', 'c')
  .compile()

const low = new StateGraph(Path).addNode('low', step('low')).addEdge(START, 'low').compile()
const mid = new StateGraph(Path)
  .addNode('mid', step('mid'))
  .addNode('down', low)
  .addEdge(START, 'mid')
  .addEdge('mid', 'down')
  .compile()
/** A subgraph in a subgraph. */
export const deep = new StateGraph(Path)
  .addNode('top', step('top'))
  .addNode('sub', mid)
  .addEdge(START, 'top')
  .addEdge('top', 'sub')
  .compile()

/** Two nodes at once that both write to one channel twice. */
export const twice = new StateGraph(Path)
  .addNode(
    'left',
    () =>
      new Command({
        update: [
          ['path', ['l1']],
          ['path', ['l2']],
        ],
      }),
  )
  .addNode('right', () => {})
  .addEdge(START, 'left')
  .addEdge(START, 'right')
  .compile()

/** Waits for orders: nothing leads from `ask` to the others but a command. */
export const orders = new StateGraph(Path)
  .addNode('ask', () => ({ path: [`answer ${interrupt('where to?')}`] }), { ends: ['b', 'c'] })
  .addNode('b', ({ item }) => ({ path: [item === undefined ? 'b' : `b ${item}`] }))
  .addNode('c', ({ item }) => ({ path: [item === undefined ? 'c' : `c ${item}`] }))
  .addEdge(START, 'ask')
  .compile()

/** Asks once for each name, at the same time. */
export const asks = new StateGraph(Annotation.Root({ names: Annotation(), answers: Annotation(list()) }))
  .addNode('one', ({ name }) => ({ answers: [interrupt(`${name}?`)] }))
  .addConditionalEdges(START, ({ names }) => names.map(name => new Send('one', { name })))
  .compile()

/** Asks with a value of types that JSON does not have, which is in its state, too. */
const oddly = () => ({
  big: 12345678901234567890n,
  map: new Map([['a', 1]]),
  set: new Set([1, 2]),
  cause: new TypeError('bad'),
  bytes: new Uint8Array([1, 2, 3]),
})
export const asksOddly = new StateGraph(Annotation.Root({ value: Annotation(), answer: Annotation() }))
  .addNode('keep', () => ({ value: oddly() }))
  .addNode('ask', () => ({ answer: interrupt(oddly()) }))
  .addEdge(START, 'keep')
  .addEdge('keep', 'ask')
  .compile()

/** A factory that fails. */
export const breaks = () => {
  throw new Error('the factory failed')
}

/** Sends one task for each item. */
export const fan = new StateGraph(Annotation.Root({ items: Annotation(), done: Annotation(list()) }))
  .addNode('work', ({ item }) => ({ done: [item] }))
  .addConditionalEdges(START, ({ items }) => items.map(item => new Send('work', { item })))
  .compile()

class Strange {
  code = 7
}
class BareError extends Error {}
const thrown = {
  string: 'just text',
  empty: '',
  undefined,
  null: null,
  number: 0,
  object: new Strange(),
  bare: new BareError(),
  frozen: Object.freeze(new Error('frozen')),
  nested: new TypeError('with a cause', { cause: new Error('the cause') }),
}
const throwing = graphOf(Annotation.Root({ kind: Annotation(), done: Annotation() }), ({ kind }) => {
  throw thrown[kind]
}).compile()
/** Throws what `kind` says. */
export const throws = throwing
/** The same one level down. */
export const throwsBelow = graphOf(Annotation.Root({ kind: Annotation(), done: Annotation() }), throwing).compile()

/** A state of `parts` channels of `size` bytes each, made in one step. */
export const large = graphOf(
  Annotation.Root({ size: Annotation(), parts: Annotation(), a: Annotation(), b: Annotation(), after: Annotation() }),
  ({ size, parts = 1 }) => ({ a: 'a'.repeat(size), ...(parts > 1 ? { b: 'b'.repeat(size) } : {}) }),
)
  .addNode('later', () => ({ after: true }))
  .addEdge('node', 'later')
  .compile()

const Seen = Annotation.Root({ name: Annotation(), ms: Annotation(), slow: Annotation(), seen: Annotation(list()) })
const waiting =
  own =>
  async ({ name, ms, slow }, { signal }) => {
    console.log(`${name} ${own} starts`)
    await sleep(own === slow ? 2000 : ms, undefined, { signal }).catch(error => {
      console.log(`${name} ${own} hears it`)
      throw error
    })
    return { seen: [own] }
  }
const patient = new StateGraph(Seen)
  .addNode('inner', waiting('inner'))
  .addNode('innerAfter', waiting('innerAfter'))
  .addEdge(START, 'inner')
  .addEdge('inner', 'innerAfter')
  .compile()
/** Nodes that wait, hear their signal, and say so on stdout. */
export const signals = new StateGraph(Seen)
  .addNode('first', waiting('first'))
  .addNode('sub', patient)
  .addNode('last', waiting('last'))
  .addEdge(START, 'first')
  .addEdge('first', 'sub')
  .addEdge('sub', 'last')
  .compile()

/** Deaf to its signal; says on stdout which nodes start. */
export const deaf = new StateGraph(Seen)
  .addNode('first', async ({ ms }) => {
    console.log('deaf first')
    await sleep(ms)
    return { seen: ['first'] }
  })
  .addNode('second', () => {
    console.log('deaf second')
    return { seen: ['second'] }
  })
  .addEdge(START, 'first')
  .addEdge('first', 'second')
  .compile()

/** Returns the config that its node receives. */
export const seen_config = graphOf(Annotation.Root({ ask: Annotation(), seen_config: Annotation() }), (_, config) => {
  const configurable = Object.fromEntries(
    Object.entries(config.configurable ?? {}).filter(([key]) => !key.startsWith('__')),
  )
  const { context, tags, metadata, recursionLimit } = config
  return { seen_config: { configurable, context, tags, metadata, recursionLimit } }
}).compile()

/** Writes what cannot be shown, and works on. */
export const unshowable = graphOf(
  Annotation.Root({ ms: Annotation(), done: Annotation() }),
  async ({ ms }, { writer }) => {
    writer({
      toJSON() {
        throw new RangeError('not to be shown')
      },
    })
    await sleep(ms)
    throw new Error('late')
  },
).compile()
