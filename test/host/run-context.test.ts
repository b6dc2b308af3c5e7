import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { BaseCallbackHandler } from '@langchain/core/callbacks/base'
import { getContextVariable, setContextVariable } from '@langchain/core/context'
import { RunnableLambda } from '@langchain/core/runnables'
import { AsyncLocalStorageProviderSingleton } from '@langchain/core/singletons'
import { Annotation, getConfig, START, StateGraph } from '@langchain/langgraph'
import t from 'tap'
import { type Provider, shareUntracedRun } from '../../workers/host/library/context.js'

const provider = AsyncLocalStorageProviderSingleton as unknown as Provider
const theirs = provider.runWithConfig
const storage = () => provider.getInstance()

interface RunTree {
  id: string
  tracingEnabled?: boolean
  child_runs: unknown[]
  metadata: { [key: string]: unknown }
  createChild(config: { name: string }): RunTree
}
/** The LangSmith copy of the library, to read the current run as user code may do. */
const core = createRequire(import.meta.url).resolve('@langchain/core')
const traceable = createRequire(core)
  .resolve('langsmith/singletons/traceable')
  .replace(/\.cjs$/, '.js')
const { getCurrentRunTree } = (await import(pathToFileURL(traceable).href)) as { getCurrentRunTree(): RunTree }

/** Returns the context that a node of a graph and a Runnable inside it receive. */
async function look(config: object = {}) {
  const seen: { tree: RunTree; inner: RunTree; thread: unknown; tags: unknown }[] = []
  const graph = new StateGraph(Annotation.Root({ n: Annotation<number>() }))
    .addNode('node', async ({ n }) => {
      const tree = getCurrentRunTree()
      const inner = await RunnableLambda.from(async () => getCurrentRunTree()).invoke(n)
      const { configurable, tags } = getConfig()
      seen.push({ tree, inner: inner as RunTree, thread: configurable?.thread_id, tags })
      return { n: n + 1 }
    })
    .addEdge(START, 'node')
    .compile()
  const values = await graph.invoke({ n: 1 }, { configurable: { thread_id: 'T' }, tags: ['a'], ...config })
  return { ...seen[0]!, values, graph }
}

t.test('the shared run does not change the context of a node', async t => {
  const before = await look()
  t.equal(shareUntracedRun(provider), true)
  t.not(provider.runWithConfig, theirs)
  const after = await look()
  for (const { tree, inner, ...rest } of [before, after]) {
    t.match(rest, { thread: 'T', tags: ['a'], values: { n: 2 } })
    for (const one of [tree, inner]) {
      t.equal(one.tracingEnabled, false)
      t.match(one.id, /^[0-9a-f-]{36}$/)
      t.same(one.metadata, {})
    }
  }
  t.equal(Object.hasOwn(before.tree, 'id'), true)
  t.equal(Object.hasOwn(after.tree, 'id'), false, 'the run is shared')
  t.not(after.tree, after.inner, 'the object is not')
})

t.test('the shared run accumulates nothing and leaks nothing between calls', async t => {
  const { tree: one } = await look()
  one.createChild({ name: 'child' })
  one.metadata.mine = true
  const { tree: other } = await look()
  t.equal(one.child_runs.length, 1)
  t.same(other.child_runs, [])
  t.same(other.metadata, {})
  const shared = Object.getPrototypeOf(Object.getPrototypeOf(other)) as RunTree
  t.same([shared.child_runs, shared.metadata], [[], {}])
})

t.test('concurrent calls keep separate configs and variables', async t => {
  const names = Array.from({ length: 20 }, (_, i) => `thread ${i}`)
  const graph = new StateGraph(Annotation.Root({ seen: Annotation<unknown[]>() }))
    .addNode('node', async () => {
      const { configurable } = getConfig()
      setContextVariable('mine', configurable?.thread_id)
      await new Promise(done => setImmediate(done))
      const inner = await RunnableLambda.from(async () => getContextVariable('mine')).invoke({})
      return { seen: [getConfig().configurable?.thread_id, inner] }
    })
    .addEdge(START, 'node')
    .compile()
  const all = await Promise.all(names.map(thread_id => graph.invoke({}, { configurable: { thread_id } })))
  t.same(
    all.map(({ seen }) => seen),
    names.map(name => [name, name]),
  )
})

t.test('traced calls use the method of the library', async t => {
  class Tracer extends BaseCallbackHandler {
    name = 'langchain_tracer'
    asked = 0
    getRunTreeWithTracingConfig(): undefined {
      this.asked++
    }
    copyWithTracingConfig() {
      return this
    }
  }
  const tracer = new Tracer()
  await look({ callbacks: [tracer] }).catch(() => {})
  t.ok(tracer.asked > 0, 'a tracer among the handlers is asked for its run')

  process.env.LANGSMITH_TRACING = 'true'
  const around = theirs.call(provider, {}, () => storage().getStore())
  const switched = provider.runWithConfig({}, () => storage().getStore())
  delete process.env.LANGSMITH_TRACING
  t.equal(Object.hasOwn(switched as object, 'id'), true, 'a variable')
  t.ok(around)

  const run = Object.assign(Object.create(Object.getPrototypeOf(around)), around, { tracingEnabled: undefined })
  const below = storage().run(run, () => provider.runWithConfig({}, () => storage().getStore()))
  t.equal(Object.hasOwn(below as object, 'id'), true, 'a run of the user around it')
  t.equal(Object.hasOwn(provider.runWithConfig({}, () => storage().getStore()) as object, 'id'), false, 'else not')
})

t.test('a library with other behaviour stays unchanged', async t => {
  const store = (extra: object) => ({ getStore: () => extra, run: <T>(_: unknown, work: () => T) => work() })
  const others: [string, unknown][] = [
    ['none', undefined],
    ['without the method', { getInstance: () => store({}) }],
    ['without a run', { getInstance: () => store({}), runWithConfig: (_: unknown, work: () => unknown) => work() }],
    [
      'with a run that traces',
      {
        getInstance: () => store({ tracingEnabled: true }),
        runWithConfig: (_: unknown, work: () => unknown) => work(),
      },
    ],
  ]
  for (const [what, other] of others) {
    const method = (other as Provider | undefined)?.runWithConfig
    t.equal(shareUntracedRun(other as Provider | undefined), false, what)
    t.equal((other as Provider | undefined)?.runWithConfig, method)
  }
})

t.teardown(() => {
  provider.runWithConfig = theirs
})
