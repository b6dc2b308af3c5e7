/** The activity of the nodes of a graph, computed from the `tasks` events of a run. */
import { createStore, type Store } from '../../api/store'

/** The begin or the end of a task. */
export interface TaskEvent {
  id: string
  name: string
  error?: unknown
  interrupts?: unknown[]
  result?: unknown
}

export interface NodeActivity {
  running: number
  /** How often it has begun; more than the graph asks for when it is tried again. */
  begun: number
  /** Milliseconds of all its ends. */
  ms: number
  failed: boolean
  waits: boolean
}

export interface Activity {
  nodes: Store<{ byId: { readonly [node: string]: NodeActivity } }>
  /** `namespace`: the subgraphs around the node, each as "name:task". */
  note(event: TaskEvent, namespace?: string[]): void
  clear(): void
}

export const NOTHING: NodeActivity = { running: 0, begun: 0, ms: 0, failed: false, waits: false }

export function openActivity(): Activity {
  const nodes = createStore<{ byId: { [node: string]: NodeActivity } }>({ byId: {} })
  const begins = new Map<string, number>()
  return {
    nodes,
    note(event, namespace = []) {
      const { byId } = nodes.get()
      const id = [...namespace.map(part => part.split(':', 1)[0]), event.name].join(':')
      const last = byId[id] ?? NOTHING
      const isEnd = 'result' in event || 'error' in event
      nodes.change({ byId: { ...byId, [id]: isEnd ? ended(last, event) : begun(last, event) } })
    },
    clear() {
      begins.clear()
      nodes.change({ byId: {} })
    },
  }

  function begun(last: NodeActivity, { id }: TaskEvent): NodeActivity {
    begins.set(id, performance.now())
    return { ...last, running: last.running + 1, begun: last.begun + 1, waits: false, failed: false }
  }

  function ended(last: NodeActivity, { id, error, interrupts = [] }: TaskEvent): NodeActivity {
    const since = begins.get(id)
    begins.delete(id)
    return {
      ...last,
      running: Math.max(0, last.running - 1),
      ms: last.ms + (since === undefined ? 0 : performance.now() - since),
      failed: error != null,
      waits: interrupts.length > 0,
    }
  }
}
