import { Annotation, MessagesAnnotation, StateGraph } from '@langchain/langgraph'
import type { Item } from './item.js'

const State = Annotation.Root({
  ...MessagesAnnotation.spec,
  /** How often it ran. */
  count: Annotation<number>({ reducer: (a, b) => a + b, default: () => 0 }),
  items: Annotation<Item[]>,
  notes: Annotation<string[], string | string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }),
  free: Annotation<unknown>,
})
const Input = Annotation.Root({ question: Annotation<string> })
const Settings = Annotation.Root({ model: Annotation<'small' | 'large'>, depth: Annotation<number | undefined> })
const work = async () => ({ count: 1 })

export const graph = new StateGraph({ stateSchema: State, input: Input, output: Input }, Settings)
  .addNode('work', work)
  .addEdge('__start__', 'work')
  .compile()
export const builder = new StateGraph(State).addNode('work', work).addEdge('__start__', 'work')
export async function factory(_config: object) {
  return builder.compile()
}
/** Its type says nothing. */
export const untyped: unknown = builder
