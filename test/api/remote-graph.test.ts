import { createRequire } from 'node:module'
import t from 'tap'
import { basicServer, type Cluster } from '../helpers/cluster.js'
import { lines } from '../helpers/sdk.js'
import { until } from '../helpers/until.js'

t.setTimeout(60_000)

// The CommonJS build of the libraries: as ES modules below the hooks of tap they sometimes fail with an import cycle.
const require = createRequire(import.meta.url)
const { HumanMessage } = require('@langchain/core/messages') as typeof import('@langchain/core/messages')
const { Annotation, Command, START, StateGraph } =
  require('@langchain/langgraph') as typeof import('@langchain/langgraph')
const { RemoteGraph } = require('@langchain/langgraph/remote') as typeof import('@langchain/langgraph/remote')

let cluster: Pick<Cluster, 'url' | 'stop'>
t.before(async () => {
  cluster = await basicServer()
})
t.teardown(() => cluster?.stop())

const remote = (graphId: string) => new RemoteGraph({ graphId, url: cluster.url })
const newThread = async () => {
  const { thread_id } = await lines[0]!.connect(cluster.url).threads.create()
  return { configurable: { thread_id } }
}

t.test('a graph on a server as a node of another program: invoke and stream', async t => {
  t.same(await remote('counter').invoke({ steps: 3 }), { steps: 3, numbers: [1, 2, 3] })
  const updates: unknown[] = []
  for await (const chunk of await remote('counter').stream({ steps: 2 }, { streamMode: 'updates' })) updates.push(chunk)
  t.same(updates, [{ count: { numbers: [1] } }, { count: { numbers: [2] } }])
  const tokens: string[] = []
  for await (const [message] of await remote('model').stream(
    { messages: [new HumanMessage('say it')] },
    { streamMode: 'messages' },
  ))
    tokens.push((message as { content: string }).content)
  t.equal(tokens.join(''), 'every token must arrive, also the last one.')
  await t.rejects(remote('fail').invoke({ message: 'oh no' }), /oh no/)
})

t.test('config and context of the caller arrive', async t => {
  const graph = remote('seen_config')
  const seen = async (options: object) => (await graph.invoke({ ask: 1 }, options)).seen_config
  t.match(await seen({ tags: ['mine'], configurable: { x: 1 }, recursionLimit: 7 }), {
    tags: ['mine'],
    configurable: { x: 1 },
    recursionLimit: 7,
  })
  t.match(await seen({ context: { z: 3 } }), { context: { z: 3 } })
})

t.test('as a node of a local graph it gets the state, gives its own back, and streams below the node', async t => {
  const State = Annotation.Root({
    path: Annotation<string[]>({ reducer: (all, more) => [...all, ...more], default: () => [] }),
  })
  const local = new StateGraph(State)
    .addNode('before', () => ({ path: ['local'] }))
    .addNode('far', remote('deep'))
    .addEdge(START, 'before')
    .addEdge('before', 'far')
    .compile()
  // Each graph appends what it was given to what it returns.
  const far = ['local', 'top', 'local', 'top', 'mid', 'local', 'top', 'mid', 'low']
  t.same(await local.invoke({}), { path: ['local', ...far] })
  const places: string[][] = []
  const options = { streamMode: ['updates' as const, 'custom' as const], subgraphs: true as const }
  for await (const [namespace, mode] of await local.stream({}, options))
    if (mode === 'custom') places.push(namespace.map(part => part.split(':')[0]!))
  t.same(places, [['far'], ['far', 'sub'], ['far', 'sub', 'down']])
})

t.test('subgraphs stream under their namespace', async t => {
  const seen: [string[], unknown][] = []
  for await (const [namespace, chunk] of await remote('deep').stream({}, { subgraphs: true, streamMode: 'updates' }))
    seen.push([namespace as string[], chunk])
  t.match(seen[0], [[], { top: { path: ['top'] } }])
  t.ok(seen.some(([namespace]) => namespace[0]?.startsWith('sub:')))
})

t.test('state, its history, and a change of it', async t => {
  const config = await newThread()
  const graph = remote('counter')
  await graph.invoke({ steps: 2 }, config)
  const state = await graph.getState(config)
  t.match(state, { values: { numbers: [1, 2] }, next: [], config: { configurable: config.configurable } })
  const history: unknown[] = []
  for await (const one of graph.getStateHistory(config)) history.push((one.values as { numbers?: number[] }).numbers)
  t.same(history, [[1, 2], [1], [], []])
  const updated = await graph.updateState(config, { steps: 3, numbers: [9] }, 'count')
  t.type(updated.configurable!.checkpoint_id, 'string')
  t.same((await graph.getState(config)).values, { steps: 3, numbers: [1, 2, 9] })
  t.same((await graph.getState(state.config)).values, { steps: 2, numbers: [1, 2] }, 'what was before stays')
})

t.test('state of a thread, and an interrupt that is answered', async t => {
  const config = await newThread()
  const graph = remote('ask')
  // A node would interrupt its parent graph: the library throws an interrupt for the parent.
  const thrown = await graph.invoke({ question: 'sure?' }, config).catch((error: unknown) => error)
  t.match(thrown, { interrupts: [{ value: { question: 'sure?' } }] })
  // It stops reading at the interrupt, a moment before the end of the run is stored.
  await until(async () => (await graph.getState(config)).next.length > 0)
  const before = await graph.getState(config)
  t.same(before.next, ['node'])
  t.match(before.tasks[0]!.interrupts, [{ value: { question: 'sure?' } }])
  t.match(await graph.invoke(new Command({ resume: 'yes' }), config), { answer: { given: 'yes' } })
  t.same((await graph.getState(config)).next, [])
})
