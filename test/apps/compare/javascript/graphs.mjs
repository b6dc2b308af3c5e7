// The graphs that `npm run compare` runs on two servers; those of ../python are the same.
import { setTimeout as sleep } from 'node:timers/promises'
import { AIMessage, ToolMessage } from '@langchain/core/messages'
import { FakeListChatModel } from '@langchain/core/utils/testing'
import { Annotation, END, interrupt, MessagesAnnotation, Send, START, StateGraph } from '@langchain/langgraph'
import { z } from 'zod'

const append = (left, right) => left.concat(right)
const graphOf = (annotation, node, context) =>
  new StateGraph(annotation, context).addNode('node', node).addEdge(START, 'node').addEdge('node', END)

const Text = Annotation.Root({ text: Annotation(), seen: Annotation() })
const Numbers = Annotation.Root({
  steps: Annotation(),
  delay_ms: Annotation(),
  numbers: Annotation({ reducer: append, default: () => [] }),
})

export const echo = graphOf(Text, ({ text = null }) => ({ seen: text })).compile()

const model = new FakeListChatModel({ responses: ['Hello there'] })
const call = { name: 'look', args: { at: 'it' }, id: 'call-1', type: 'tool_call' }

export const chat = new StateGraph(MessagesAnnotation)
  .addNode('say', async ({ messages }) => ({ messages: [await model.invoke(messages)] }))
  .addNode('tool', () => ({
    messages: [
      new AIMessage({ content: '', id: 'asked', tool_calls: [call] }),
      new ToolMessage({ content: 'seen', id: 'told', tool_call_id: 'call-1', name: 'look' }),
    ],
  }))
  .addEdge(START, 'say')
  .addEdge('say', 'tool')
  .compile()

export const ask = graphOf(Annotation.Root({ question: Annotation(), answer: Annotation() }), ({ question }) => ({
  answer: { given: interrupt({ question: question === undefined ? 'why?' : question }) },
})).compile()

export const asks = new StateGraph(Numbers)
  .addNode('left', () => ({ numbers: [interrupt('left?')] }))
  .addNode('right', () => ({ numbers: [interrupt('right?')] }))
  .addEdge(START, 'left')
  .addEdge(START, 'right')
  .compile()

const inner = new StateGraph(Numbers)
  .addNode('inside', (_, { writer }) => {
    writer?.({ from: 'inside' })
    return { numbers: [2] }
  })
  .addNode('asking', ({ steps }) => ({ numbers: [steps === 1 ? interrupt('a number?') : 3] }))
  .addEdge(START, 'inside')
  .addEdge('inside', 'asking')
  .compile()

export const outer = new StateGraph(Numbers)
  .addNode('one', () => ({ numbers: [1] }))
  .addNode('inner', inner)
  .addEdge(START, 'one')
  .addEdge('one', 'inner')
  .compile()

export const counter = new StateGraph(Numbers)
  .addNode('count', async ({ numbers, delay_ms = 0 }, { writer }) => {
    writer?.({ counted: numbers.length })
    await sleep(delay_ms)
    return { numbers: [numbers.length + 1] }
  })
  .addEdge(START, 'count')
  .addConditionalEdges('count', ({ numbers, steps = 1 }) => (numbers.length < steps ? 'count' : END))
  .compile()

export const stored = graphOf(Text, async ({ text = null, seen }, { store }) => {
  await store.put(['compare', 'graph'], `${seen}`, { value: text })
  return { seen: (await store.get(['compare', 'graph'], `${seen}`))?.value ?? null }
}).compile()

const pick = (from, names) => Object.fromEntries(Object.entries(from ?? {}).filter(([name]) => names.includes(name)))

export const seen = graphOf(
  Text,
  (_, { configurable, context, metadata, tags, recursionLimit }) => ({
    seen: {
      configurable: pick(configurable, ['model', 'depth', 'user_id', 'graph_id']),
      context: context ?? null,
      metadata: pick(metadata, ['purpose', 'source']),
      tags: tags ?? null,
      limit: recursionLimit ?? null,
    },
  }),
  z.object({ model: z.any().optional(), depth: z.any().optional() }),
).compile()

class TooBadError extends Error {
  name = 'TooBadError'
}

const failures = {
  'no dict': () => 'not a state',
  'no message': () => {
    throw new TooBadError()
  },
  value: () => {
    throw new TypeError('a wrong value')
  },
  key: () => {
    throw 'only a text'
  },
}

export const fail = new StateGraph(Text)
  .addNode('good', () => ({ seen: true }))
  .addNode('bad', ({ text }) => {
    if (Object.hasOwn(failures, text)) return failures[text]()
    throw new TooBadError(`${text}`)
  })
  .addEdge(START, 'good')
  .addConditionalEdges('good', state => [new Send(state.text === 'send' ? 'absent' : 'bad', state)], ['bad'])
  .compile()
