// Graphs whose drawings, schemas and subgraphs are asked for.
import {
  Annotation,
  END,
  MessagesAnnotation,
  MessagesValue,
  ReducedValue,
  START,
  StateGraph,
  StateSchema,
} from '@langchain/langgraph'
import { z } from 'zod'
import { z as z3 } from 'zod/v3'

const single = state =>
  new StateGraph(state)
    .addNode('one', () => ({}))
    .addEdge(START, 'one')
    .compile()

export const annotation = single(Annotation.Root({ ...MessagesAnnotation.spec, topic: Annotation() }))

export const zod3 = single(z3.object({ name: z3.string().describe('who'), count: z3.number().default(1) }))

export const zod4 = new StateGraph(z.object({ name: z.string(), steps: z.array(z.number()) }), {
  input: z.object({ name: z.string() }),
  output: z.object({ steps: z.array(z.number()) }),
  context: z.object({ model: z.enum(['small', 'large']) }),
})
  .addNode('one', () => ({ steps: [] }))
  .addEdge(START, 'one')
  .compile()

export const stateSchema = single(
  new StateSchema({
    messages: MessagesValue,
    total: new ReducedValue(z.number().default(0), {
      inputSchema: z.string(),
      reducer: (sum, text) => sum + text.length,
      jsonSchemaExtra: { title: 'Total' },
    }),
  }),
)

const State = Annotation.Root({ x: Annotation() })
const pass = () => ({ x: 1 })
const leaf = new StateGraph(State)
  .addNode('l1', pass)
  .addNode('l2', pass)
  .addEdge(START, 'l1')
  .addEdge('l1', 'l2')
  .compile()
const middle = new StateGraph(State)
  .addNode('m1', pass)
  .addNode('leaf', leaf)
  .addEdge(START, 'm1')
  .addEdge('m1', 'leaf')
  .compile()
export const tree = new StateGraph(State)
  .addNode('first', pass)
  .addNode('middle', middle)
  .addEdge(START, 'first')
  .addConditionalEdges('first', () => 'middle', { go: 'middle', stop: END })
  .compile()

/** Draws the process that made it and what its config says; a run returns the process that executes it. */
export const factory = async config =>
  new StateGraph(Annotation.Root({ pid: Annotation() }))
    .addNode(config.configurable?.node ?? 'unnamed', () => ({ pid: process.pid }))
    .addNode(`pid${process.pid}`, () => ({}))
    .addEdge(START, config.configurable?.node ?? 'unnamed')
    .addEdge(config.configurable?.node ?? 'unnamed', `pid${process.pid}`)
    .compile()

export const broken = () => {
  throw new Error('no such luck')
}
