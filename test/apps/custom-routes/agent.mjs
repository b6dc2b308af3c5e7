import { setTimeout as sleep } from 'node:timers/promises'
import { Annotation, StateGraph } from '@langchain/langgraph'

const State = Annotation.Root({ said: Annotation(), wait: Annotation() })

/** Repeats what it is told, after a wait. */
export const graph = new StateGraph(State)
  .addNode('echo', async ({ said, wait }, { writer, signal }) => {
    writer?.({ said })
    await sleep(wait ?? 0, undefined, { signal })
    return { said }
  })
  .addEdge('__start__', 'echo')
  .compile()
