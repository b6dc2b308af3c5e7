// Graphs that use the item store, each way that the library offers.
import { HumanMessage } from '@langchain/core/messages'
import { Annotation, getStore, START, StateGraph } from '@langchain/langgraph'

const State = Annotation.Root({ steps: Annotation(), found: Annotation(), x: Annotation() })
const single = node => new StateGraph(State).addNode('node', node).addEdge(START, 'node').compile()

const shown = item =>
  item && { ...item, createdAt: item.createdAt instanceof Date, updatedAt: item.updatedAt instanceof Date }

/** Carries out the steps of its input on the store, one after the other, and returns what each answered. */
const work = async ({ steps }, config) => {
  const store = config.store ?? getStore(config)
  const found = []
  for (const [method, ...args] of steps) {
    if (method === 'message') await store.put(args[0], args[1], { message: new HumanMessage('hi'), big: 12n })
    else
      try {
        const answer = await store[method](...args)
        found.push(Array.isArray(answer) ? answer.map(one => (Array.isArray(one) ? one : shown(one))) : shown(answer))
      } catch (error) {
        found.push(`${error.name}: ${error.message}`)
      }
  }
  return { found }
}
export const memory = single(work)

/** The same in a subgraph, with the store of `getStore`. */
export const sub = new StateGraph(State)
  .addNode(
    'inner',
    single((state, config) => work(state, { ...config, store: getStore(config) })),
  )
  .addEdge(START, 'inner')
  .compile()

/** Many operations in one turn. */
export const crowd = single(async ({ x }, { store }) => {
  await Promise.all(Array.from({ length: x }, (_, i) => store.put(['crowd'], `k${i}`, { i })))
  const all = await Promise.all(Array.from({ length: x }, (_, i) => store.get(['crowd'], `k${i}`)))
  return { found: all.every((item, i) => item.value.i === i) }
})

let keptStore

/** Keeps the store of its first run, as managers of memories do, and uses it in later ones. */
export const kept = single(async ({ x }, { store }) => {
  keptStore ??= store
  await Promise.all([keptStore.put(['kept'], `k${x}`, { x }), store.put(['own'], `k${x}`, { x })])
  return { found: (await keptStore.get(['kept'], `k${x}`))?.value }
})

/** Its run ends before its operation begins; the next run says what that answered. */
let late
export const tooLate = single(async ({ x }, { store }) => {
  if (x === 1) return { found: await late }
  late = new Promise(done => setTimeout(done, 500))
    .then(() => store.get(['own'], 'k1'))
    .then(String, error => error.message)
})
