import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import t from 'tap'
import { loadApplication } from '../../workers/host/application.js'
import { NEWEST_LIBRARY, OLDEST_LIBRARY, refusalOf, warningOf } from '../../workers/host/library/library-versions.js'
import { startHost } from './host-helper.js'

const root = mkdtempSync(join(tmpdir(), 'weft-app-'))
t.teardown(() => rmSync(root, { recursive: true, force: true }))
let made = 0

/** Writes an application outside of the repository, where no libraries are installed. */
function application(description: unknown, files: { [name: string]: string } = {}): string {
  const folder = join(root, `app${++made}`)
  const text = typeof description === 'string' ? description : JSON.stringify(description)
  for (const [name, content] of Object.entries({ ...files, 'langgraph.json': text })) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(join(folder, name), content)
  }
  return join(folder, 'langgraph.json')
}

const graph = (value: string, suffix = '') => `
  import { Annotation, START, StateGraph } from '@langchain/langgraph'
  export const graph = new StateGraph(Annotation.Root({ value: Annotation${suffix} }))
    .addNode('node', () => ({ value: ${value} }))
    .addEdge(START, 'node')
    .compile()
`

t.test('an invalid file is reported in one sentence', async t => {
  const sentence = async (description: unknown) => (await loadApplication(application(description))).hello.error
  t.match(await sentence('{"graphs": '), /langgraph\.json is not valid JSON: /)
  t.match(await sentence('[]'), /must hold a JSON object\.$/)
  t.match(await sentence({}), /names no graphs: "graphs" must map a name to "file:export"\.$/)
  t.match(await sentence({ graphs: {} }), /names no graphs/)
  const guarded = application({ graphs: { a: './a.mjs:a' }, auth: { path: './auth.mjs:auth' } })
  t.match((await loadApplication(guarded)).hello, { error: null, auth: { path: './auth.mjs:auth' } })
  const withTtl = (ttl: unknown) => ({ graphs: { a: './a.mjs:a' }, checkpointer: { ttl } })
  t.match(await sentence(withTtl({ default_ttl: 0 })), /checkpointer\.ttl\.default_ttl must be .*number/)
  t.match(await sentence(withTtl({ strategy: 'x' })), /checkpointer\.ttl\.strategy must be .*keep_latest/)
  t.match(await sentence(withTtl({ sweep_limit: 1.5 })), /checkpointer\.ttl\.sweep_limit must be/)
  t.match(await sentence(withTtl('1 day')), /checkpointer\.ttl must be/)
  const ttl = { strategy: 'keep_latest', default_ttl: 10, sweep_interval_minutes: 1, sweep_limit: 5 }
  t.same((await loadApplication(application(withTtl(ttl)))).hello.ttl, ttl)
  t.match((await loadApplication(join(root, 'none.json'))).hello.error, /none\.json cannot be read\.$/)
})

t.test('a graph that hangs during loading is reported and not served; the others are served', async t => {
  const path = application(
    { graphs: { hangs: './hang.mjs:graph', works: './a.mjs:graph' } },
    { 'hang.mjs': 'await new Promise(() => {})', 'a.mjs': graph('1') },
  )
  const host = await startHost(path)
  t.teardown(() => host.stop())
  const { error, graphs } = await host.hello
  t.equal(error, null)
  t.match(graphs, [
    { graph_id: 'hangs', error: /^Graph "hangs" \(.*hang\.mjs\) did not finish loading in time: / },
    { graph_id: 'works', error: null },
  ])
  t.match(host.output.stderr, /^Still loading graph "hangs" \(.*hang\.mjs\)\.$/m)
})

t.test('a library that is too old is reported with the supported versions', async t => {
  const library = (version: string) => ({
    'node_modules/@langchain/langgraph/package.json': JSON.stringify({ name: '@langchain/langgraph', version }),
    'node_modules/@langchain/langgraph/index.js': '',
    'a.mjs': 'export const a = { invoke() {} }',
  })
  const path = application({ graphs: { a: './a.mjs:a' } }, library('0.2.5'))
  const { hello } = await loadApplication(path)
  t.equal(
    hello.error,
    `The application uses @langchain/langgraph 0.2.5; Weft serves ${OLDEST_LIBRARY} to ${NEWEST_LIBRARY}: ` +
      `run npm install @langchain/langgraph@latest @langchain/core@latest in ${dirname(path)}.`,
  )
  for (const [version, refused, warned] of [
    ['0.2.19', true, false],
    [OLDEST_LIBRARY, false, false],
    ['1.0.0', false, false],
    [NEWEST_LIBRARY, false, false],
    ['1.10.0', false, true],
    ['2.0.0-alpha.1', false, true],
    ['unknown', false, false],
  ] as const) {
    t.equal(refusalOf(version, '/app') !== null, refused, `${version} refused`)
    t.equal(warningOf(version) !== null, warned, `${version} warned`)
  }
})

t.test('a missing package is reported with the importing file and the install command', async t => {
  const files = {
    'src/a.mjs': `import '@langchain/openai'`,
    'src/b.cjs': `require('not-here/deep')`,
    // Names of packages that Weft lends, which it does not have itself.
    'src/c.cjs': `require('@langchain/not-here')`,
    'src/d.ts': `import { Model } from '@langchain/not-here'\nexport const d = new Model()`,
    'src/e.ts': `import { model } from '@/model'\nexport const e = model()`,
    'package.json': '{}',
  }
  const path = application(
    {
      graphs: { a: './src/a.mjs:a', b: './src/b.cjs:b', c: './src/c.cjs:c', d: './src/d.ts:d', e: './src/e.ts:e' },
    },
    files,
  )
  const folder = dirname(path)
  const host = await startHost(path)
  t.teardown(() => host.stop())
  const { graphs } = await host.hello
  t.equal(
    graphs[0]!.error,
    `Graph "a" cannot be loaded: Cannot find package '@langchain/openai' imported from ${join(folder, 'src/a.mjs')} (run npm install in ${folder})`,
  )
  t.match(graphs[1]!.error, `Graph "b" cannot be loaded: Cannot find module 'not-here/deep'`)
  t.match(graphs[1]!.error, `(run npm install in ${folder})`)
  t.match(graphs[2]!.error, `Graph "c" cannot be loaded: Cannot find module '@langchain/not-here'`)
  t.match(graphs[3]!.error, /^Graph "d" cannot be loaded: Cannot find (module|package) '@langchain\/not-here'/)
  t.match(graphs[4]!.error, /^Graph "e" cannot be loaded: Cannot find (module|package) '@\/model'/)
  t.match(graphs[4]!.error, `(the paths of tsconfig.json in ${folder} do not resolve it)`)
})

t.test('an invalid graph does not hide the others', async t => {
  const path = application(
    {
      graphs: {
        good: { path: './good.mjs:graph', description: 'Good' },
        python: './agent.py:graph',
        missing: './missing.mjs:graph',
        unnamed: './good.mjs:other',
        plain: './bad.mjs:plain',
        throws: './throws.mjs:graph',
        shapeless: 7,
        colonless: './good.mjs',
      },
      unknown_key: { ignored: true },
    },
    {
      'good.mjs': graph('1'),
      'bad.mjs': 'export const plain = { a: 1 }',
      'throws.mjs': 'throw new Error("at load")',
    },
  )
  const host = await startHost(path)
  const { error, graphs } = await host.hello
  const errorOf = (id: string) => graphs.find(({ graph_id }) => graph_id === id)!.error
  t.equal(error, null)
  t.match(graphs[0], { graph_id: 'good', description: 'Good', error: null })
  t.notOk(
    graphs.some(({ graph_id }) => graph_id === 'python'),
    'a graph of Python is that of another host',
  )
  t.match(errorOf('missing'), /missing\.mjs does not exist\.$/)
  t.match(errorOf('unnamed'), /has no export named "other"\.$/)
  t.match(errorOf('plain'), /the export "plain" of .* is not a graph\.$/)
  t.match(errorOf('throws'), /cannot be loaded: at load$/)
  t.match(errorOf('shapeless'), /must be given as "file:export"\.$/)
  t.match(errorOf('colonless'), /must be given as "file:export"\.$/)
  t.same(
    (await host.run({ graph_id: 'good', kwargs: { input: { value: 0 } } })).values,
    { value: 1 },
    'with libraries lent by us',
  )
  await host.stop()
})

t.test('TypeScript, with and without "type": "module", and a default export', async t => {
  const typed = `${graph('"typed" as string', '<string>')}\nexport default graph`
  const path = application(
    {
      graphs: { common: './common/graph.ts:graph', module: './module/graph.ts:graph', fallback: './module/graph.ts:' },
    },
    {
      'common/graph.ts': typed,
      'common/package.json': '{}',
      'module/graph.ts': typed,
      'module/package.json': '{"type": "module"}',
    },
  )
  const host = await startHost(path)
  t.ok((await host.hello).graphs.every(({ error }) => error === null))
  for (const graph_id of ['common', 'module', 'fallback'])
    t.same((await host.run({ graph_id, kwargs: { input: { value: '' } } })).values, { value: 'typed' })
  t.match(host.output, { stderr: '' })
  await host.stop()
})

t.test('a tsconfig.json that extends a package which is not installed is named', async t => {
  const path = application(
    { graphs: { a: './a.ts:a' } },
    { 'a.ts': 'export const a = {}', 'tsconfig.json': JSON.stringify({ extends: '@tsconfig/none/tsconfig.json' }) },
  )
  const host = await startHost(path)
  t.teardown(() => host.stop())
  const folder = dirname(path)
  const { error } = await host.hello
  t.equal(
    error,
    `${join(folder, 'tsconfig.json')} cannot be used: File '@tsconfig/none/tsconfig.json' not found (run npm install in ${folder}, with its devDependencies)`,
  )
})

t.test('the tsconfig.json nearest to the graphs applies: path aliases and JSX', async t => {
  const jsx = "export const jsx = (type: string) => '<' + type + '>'\n"
  const view = 'export const view = (<b />) as unknown as string\n'
  const files = {
    'tsconfig.json': '{}',
    'packages/agent/package.json': '{"type": "module"}',
    'packages/agent/tsconfig.json': JSON.stringify({
      compilerOptions: { baseUrl: '.', paths: { '@/*': ['src/*'] }, jsx: 'react-jsx', jsxImportSource: '@/own' },
    }),
    'packages/agent/src/own/jsx-runtime.ts': jsx,
    'packages/agent/src/view.tsx': view,
    'packages/agent/src/graph.tsx': `import { view } from '@/view'\n${graph('view', '<string>')}`,
  }
  const path = application({ graphs: { agent: './packages/agent/src/graph.tsx:graph' } }, files)
  const host = await startHost(path)
  t.teardown(() => host.stop())
  t.match((await host.hello).graphs, [{ error: null }])
  t.same((await host.run({ graph_id: 'agent', kwargs: { input: { value: '' } } })).values, { value: '<b>' })
})

t.test('env: a map or a file; the process environment takes precedence', async t => {
  const files = {
    'graph.mjs': graph('[process.env.WEFT_A, process.env.WEFT_B]'),
    '.env': 'WEFT_A="from file"\nWEFT_B=file',
  }
  const values = async (env: unknown) => {
    const host = await startHost(application({ graphs: { g: './graph.mjs:graph' }, env }, files), { WEFT_B: 'process' })
    const { notes } = await host.hello
    const ended = await host.run({ graph_id: 'g', kwargs: { input: { value: 0 } } })
    await host.stop()
    return { ...(ended.values as { value: unknown }), notes }
  }
  t.same(await values('.env'), { value: ['from file', 'process'], notes: [] })
  t.same(await values({ WEFT_A: 'map', WEFT_B: 'map' }), { value: ['map', 'process'], notes: [] })
  t.match(await values('./missing.env'), { value: [undefined, 'process'], notes: [/missing\.env cannot be read/] })
})

t.test('the library of the application takes precedence', async t => {
  const ours = import.meta.resolve('@langchain/langgraph')
  const manifest = {
    name: '@langchain/langgraph',
    exports: { '.': { import: { default: './own.js' }, require: './own.cjs' } },
    type: 'module',
  }
  const path = application(
    { graphs: { g: './graph.mjs:graph' } },
    {
      'graph.mjs': graph('1'),
      'node_modules/@langchain/langgraph/package.json': JSON.stringify(manifest),
      'node_modules/@langchain/langgraph/own.js': `export * from ${JSON.stringify(ours)}\nexport const own = true`,
      'node_modules/@langchain/langgraph/own.cjs': '',
    },
  )
  const { library, hello } = await loadApplication(path)
  t.match(hello.graphs, [{ graph_id: 'g', description: null, error: null, inputs: ['value'] }])
  t.match(library, { own: true })
})

t.test('an unhandled rejection in user code ends the host with exit code 1', async t => {
  const node = `async () => {
    Promise.reject(new Error('lost'))
    await new Promise(done => setTimeout(done, 10_000))
  }`
  const path = application(
    { graphs: { g: './graph.mjs:graph' } },
    { 'graph.mjs': graph('1').replace('() => ({ value: 1 })', node) },
  )
  const host = await startHost(path)
  await host.hello
  const code = new Promise(resolve => host.child.once('close', resolve))
  host.start({ graph_id: 'g', kwargs: { input: { value: 0 } } })
  t.equal(await code, 1)
  t.match(host.output.stderr, /Unhandled rejection: Error: lost/)
})

t.test('a late rejection of a run that has ended does not affect other runs', async t => {
  const path = application(
    { graphs: { g: './graph.mjs:graph' } },
    { 'graph.mjs': graph('setTimeout(() => Promise.reject(new Error("late")), 50) && 1') },
  )
  const host = await startHost(path)
  await host.hello
  const logged = new Promise(resolve => host.child.stderr!.on('data', data => /late/.test(String(data)) && resolve(0)))
  const spec = { graph_id: 'g', kwargs: { input: { value: 0 } } }
  t.match(await host.run(spec), { status: 'success' })
  await logged
  t.match(await host.run(spec), { status: 'success' })
  await host.stop()
})

t.test('getLogger() of the SDK works at the top level of a module and in a node', async t => {
  const sdk = import.meta.resolve('@langchain/langgraph-sdk/logging')
  const path = application(
    { graphs: { g: './graph.mjs:graph' } },
    {
      'graph.mjs': `
        import { getLogger } from ${JSON.stringify(sdk)}
        const logger = getLogger().info('loaded')
        ${graph("(logger.warn('in the node', { a: 1 }).debug('hidden'), 1)")}
      `,
    },
  )
  const host = await startHost(path)
  await host.run({ graph_id: 'g', kwargs: { input: { value: 0 }, config: { configurable: { graph_id: 'g' } } } })
  await host.stop()
  t.match(host.output.stdout, /^\[info\] loaded$/m)
  t.match(host.output.stderr, /\[warn\] in the node \{ a: 1 \} \(graph_id g, node node/m)
  t.notMatch(host.output.stdout, /hidden/)
})

t.test('node_loader: a module of the application registers the loader', async t => {
  const files = {
    'loader.mjs': `import { register } from 'node:module'\nregister('./hooks.mjs', import.meta.url)`,
    'hooks.mjs': `
      export async function load(url, context, next) {
        if (!url.endsWith('.own')) return next(url, context)
        return { format: 'module', shortCircuit: true, source: ${JSON.stringify(graph('"own"'))} }
      }
    `,
    'graph.own': 'anything',
  }
  const described = (node_loader: string) => application({ graphs: { g: './graph.own:graph' }, node_loader }, files)
  const host = await startHost(described('./loader.mjs'))
  t.same((await host.run({ graph_id: 'g', kwargs: { input: { value: 0 } } })).values, { value: 'own' })
  await host.stop()
  t.match(
    (await loadApplication(described('ts-node'))).hello.error,
    /^node_loader "ts-node" of langgraph\.json cannot be loaded: Cannot find module 'ts-node'/,
  )
})
