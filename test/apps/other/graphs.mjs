// A second application: some graphs have the names of the first one's, and answer otherwise.
import { setTimeout as sleep } from 'node:timers/promises'
import { Annotation, END, START, StateGraph } from '@langchain/langgraph'

const graphOf = (annotation, node) =>
  new StateGraph(annotation).addNode('node', node).addEdge(START, 'node').addEdge('node', END).compile()

export const echo = graphOf(Annotation.Root({ text: Annotation(), seen: Annotation() }), ({ text }) => ({
  seen: `other ${text}`,
}))

/** Writes `count` custom chunks, one every 20 ms. */
export const slow = graphOf(
  Annotation.Root({ count: Annotation(), done: Annotation() }),
  async ({ count = 10 }, { writer }) => {
    for (let i = 0; i < count; i++) {
      await sleep(20)
      writer({ i })
    }
    return { done: count }
  },
)
