// Small graphs for tests: each shows one thing that a run may do.
import { setTimeout as sleep } from 'node:timers/promises'
import { AIMessage } from '@langchain/core/messages'
import { FakeListChatModel, FakeStreamingChatModel } from '@langchain/core/utils/testing'
import {
  Annotation,
  DeltaChannel,
  END,
  getWriter,
  interrupt,
  MessagesAnnotation,
  Send,
  START,
  StateGraph,
  task,
} from '@langchain/langgraph'

const append = (left, right) => left.concat(right)
const list = () => ({ reducer: append, default: () => [] })
const graphOf = (annotation, node) =>
  new StateGraph(annotation).addNode('node', node).addEdge(START, 'node').addEdge('node', END)

/** Returns its input. */
export const echo = graphOf(Annotation.Root({ text: Annotation(), seen: Annotation() }), ({ text }) => ({
  seen: text,
})).compile()

/** Appends a number per step, `steps` times. */
export const counter = new StateGraph(Annotation.Root({ steps: Annotation(), numbers: Annotation(list()) }))
  .addNode('count', ({ numbers }) => ({ numbers: [numbers.length + 1] }))
  .addEdge(START, 'count')
  .addConditionalEdges('count', ({ numbers, steps }) => (numbers.length < steps ? 'count' : END))
  .compile()

/** Like counter, over a channel that is kept as changes, and whole after every fourth. */
const changes = new DeltaChannel((left, writes) => left.concat(...writes), { snapshotFrequency: 4 })
export const delta = new StateGraph(Annotation.Root({ steps: Annotation(), numbers: () => changes }))
  .addNode('count', ({ numbers }) => ({ numbers: [numbers.length + 1] }))
  .addEdge(START, 'count')
  .addConditionalEdges('count', ({ numbers, steps }) => (numbers.length < steps ? 'count' : END))
  .compile()

/** Writes `count` custom chunks; then `say` to its stdout. */
export const chunks = graphOf(
  Annotation.Root({
    count: Annotation(),
    size: Annotation(),
    delay_ms: Annotation(),
    say: Annotation(),
    done: Annotation(),
  }),
  async ({ count = 10, size = 0, delay_ms, say }, { writer }) => {
    const filler = 'x'.repeat(size)
    for (let i = 0; i < count; i++) {
      if (delay_ms !== undefined) await sleep(delay_ms)
      else if (i % 50 === 49) await new Promise(resolve => setImmediate(resolve))
      writer(filler === '' ? { i } : { i, filler })
    }
    if (say !== undefined) console.log(say)
    return { done: count }
  },
).compile()

class TooBadError extends Error {
  name = 'TooBadError'
}

/** Throws an error with a name, after one good step. */
export const fail = new StateGraph(Annotation.Root({ message: Annotation(), before: Annotation() }))
  .addNode('good', () => ({ before: true }))
  .addNode('bad', ({ message }) => {
    throw new TooBadError(message ?? 'too bad')
  })
  .addEdge(START, 'good')
  .addEdge('good', 'bad')
  .compile()

/** Asks, then keeps the answer. */
export const ask = graphOf(Annotation.Root({ question: Annotation(), answer: Annotation() }), ({ question }) => ({
  answer: { given: interrupt({ question: question ?? 'why?' }) },
})).compile()

const inner = new StateGraph(Annotation.Root({ numbers: Annotation(list()) }))
  .addNode('inside', (_, { writer }) => {
    writer?.({ from: 'inside' })
    return { numbers: [2] }
  })
  .addNode('asking', () => ({ numbers: [interrupt('a number?')] }))
  .addEdge(START, 'inside')
  .addEdge('inside', 'asking')
  .compile()

/** A subgraph that interrupts in its second node. */
export const nested = new StateGraph(Annotation.Root({ numbers: Annotation(list()) }))
  .addNode('outside', () => ({ numbers: [1] }))
  .addNode('sub', inner)
  .addEdge(START, 'outside')
  .addEdge('outside', 'sub')
  .compile()

/** A tool call whose tool runs another graph. */
export const delegate = new StateGraph(Annotation.Root({ numbers: Annotation(list()) }))
  .addNode('tools', ({ lg_tool_call: { args } }) => counter.invoke(args))
  .addConditionalEdges(START, () => [new Send('tools', { lg_tool_call: { id: 'call-1', args: { steps: 1 } } })], [
    'tools',
  ])
  .compile()

const speak = graphOf(Annotation.Root({ count: Annotation() }), (_, { writer }) => {
  writer({ i: 2 })
  return {}
}).compile()
/** Writes a custom chunk in a task of its node, and one in a subgraph. */
const speakOnce = task('speak_once', async () => getWriter()({ i: 1 }))
export const tasked = graphOf(Annotation.Root({ count: Annotation() }), async () => {
  await speakOnce()
  await speak.invoke({})
  return { count: 2 }
}).compile()

/** Waits `ms` and honours nothing. */
export const slow = graphOf(Annotation.Root({ ms: Annotation(), done: Annotation() }), async ({ ms = 1000 }) => {
  await sleep(ms)
  return { done: true }
}).compile()

/** A model that does not await its callbacks. */
const model = new FakeListChatModel({ responses: ['every token must arrive, also the last one.'] })
export const talk = graphOf(MessagesAnnotation, async ({ messages }) => ({
  messages: [await model.invoke(messages)],
})).compile()

const streaming = new FakeStreamingChatModel({ sleep: 1, responses: [new AIMessage('streamed')] })
export const stream = graphOf(MessagesAnnotation, async ({ messages }) => ({
  messages: [await streaming.invoke(messages)],
})).compile()

/** A factory: called per run with the run's config, and with what it is called for. */
export const factory = async (config, { accessContext, executionRuntime }) => {
  const name = executionRuntime?.context.name ?? 'nobody'
  if ((accessContext === 'threads.create_run') !== (executionRuntime !== null)) throw new Error(accessContext)
  return graphOf(Annotation.Root({ who: Annotation() }), () => ({ who: config.configurable?.who ?? name }))
}

/** A builder that nobody compiled, and a promise of a graph. */
export const builder = graphOf(Annotation.Root({ text: Annotation() }), () => ({ text: 'built' }))
export const promised = Promise.resolve(echo)

/** An agent-like wrapper. */
export const agent = { graph: echo, invoke: () => {} }

/** Values that JSON does not know. */
export const odd = graphOf(Annotation.Root({ value: Annotation() }), () => {
  const value = { big: 12n, map: new Map([['a', 1]]), set: new Set([1]), lone: 'a\ud800b', nothing: undefined }
  value.self = value
  return { value }
}).compile()

export const notAGraph = { hello: 'world' }
