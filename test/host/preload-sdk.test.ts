/** The client of the API is loaded before hooks are registered: the copy that the application imports, and only then. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { preloadSdk } from '../../workers/host/loading.js'

const IMPORT = "import './environment.js'\nimport {\n  Client,\n} from '@langchain/langgraph-sdk'\n"
const SDK = 'node_modules/@langchain/langgraph-sdk'

for (const { title, file = 'app.ts', text = IMPORT, type = 'module', loaded } of [
  { title: 'an ES module that imports it', loaded: 1 },
  { title: 'an ES module by its name', file: 'app.mts', type: 'commonjs', loaded: 1 },
  { title: 'a CommonJS package, which requires another copy', type: 'commonjs', loaded: 0 },
  { title: 'types only', text: "import type { Client } from '@langchain/langgraph-sdk'\n", loaded: 0 },
  { title: 'its authentication only', text: "import { Auth } from '@langchain/langgraph-sdk/auth'\n", loaded: 0 },
  { title: 'a file that does not exist', file: 'none/app.ts', loaded: 0 },
] as { title: string; file?: string; text?: string; type?: string; loaded: number }[])
  t.test(title, async t => {
    const key = t.name.replaceAll(' ', '_')
    const folder = t.testdir({ 'app.ts': '', 'app.mts': '', 'package.json': JSON.stringify({ type }) })
    mkdirSync(join(folder, SDK), { recursive: true })
    const exports = { '.': { import: { default: './index.js' }, require: { default: './index.cjs' } } }
    writeFileSync(
      join(folder, SDK, 'package.json'),
      JSON.stringify({ name: '@langchain/langgraph-sdk', type: 'module', exports }),
    )
    const count = (module: string) => `globalThis['${key}'] = (globalThis['${key}'] ?? 0) + 1\n${module}`
    writeFileSync(join(folder, SDK, 'index.js'), count('export const Client = 1\n'))
    writeFileSync(join(folder, SDK, 'index.cjs'), count('exports.Client = 1\n'))
    const path = join(folder, file)
    if (!file.includes('/')) writeFileSync(path, text)
    await preloadSdk([path])
    const times = () => (globalThis as { [name: string]: unknown })[key] ?? 0
    t.equal(times(), loaded)
    await import(join(folder, SDK, 'index.js'))
    t.equal(times(), 1, 'the module that the application imports is the same')
  })

t.test('a library that throws is reported by the import of the application only', async t => {
  const folder = t.testdir({
    'app.mts': IMPORT,
    node_modules: {
      '@langchain': {
        'langgraph-sdk': {
          'package.json': JSON.stringify({ name: '@langchain/langgraph-sdk', type: 'module', exports: './index.js' }),
          'index.js': 'throw new Error("broken")',
        },
      },
    },
  })
  await t.resolves(preloadSdk([join(folder, 'app.mts')]))
})
