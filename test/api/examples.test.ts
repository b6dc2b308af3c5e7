/** The examples run as they are: the numbered scripts, and the code of each README, which prints what it says. */
import { execFile, spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { root } from '../../cli/root.js'
import { venvOf, withoutPython } from '../../scripts/checks/venv.js'
import { packagesOf } from '../applications/install.js'
import { startCluster } from '../helpers/cluster.js'
import { lines } from '../helpers/sdk.js'
import { execute, readmeOf } from './examples/readmes.js'

const run = promisify(execFile)
const read = (path: string): string => readFileSync(join(root, 'examples', path), 'utf8')
const ENV = { OPENAI_API_KEY: '', ANTHROPIC_API_KEY: '', MODEL: '', WEFT_CRON_SECONDS: '1' }

t.setTimeout(240_000)

t.test('the numbered examples run as they are', async t => {
  const cluster = await startCluster({ app: 'examples/chat' })
  t.teardown(() => cluster.stop())
  for (const name of ['01-stream', '02-resume', '03-interrupt']) {
    const ended = run(process.execPath, [join(root, 'examples', `${name}.mjs`)], {
      env: { ...process.env, WEFT_URL: cluster.url },
      timeout: 60_000,
    })
    await t.resolves(ended, name)
  }
})

// The line that package.json of the page names.
const OWN = {
  'weft-server/handler': [join(root, 'dist/handler/handler.d.ts')],
  '@langchain/langgraph-sdk': [join(root, 'test/sdk/node_modules/sdk2/dist/index.d.ts')],
  '@langchain/langgraph-sdk/react': [join(root, 'test/sdk/node_modules/sdk2/dist/react/index.d.ts')],
}
/** Needs packages that the repository does not install. */
const WITH_PACKAGES = /^delegate-ts\//

t.test('the types of all examples in TypeScript, and of a new application, are correct', async t => {
  const files = (readdirSync(join(root, 'examples'), { recursive: true }) as string[]).filter(
    file => /\.tsx?$/.test(file) && !file.includes('node_modules'),
  )
  t.ok(files.some(file => file.endsWith('new/typescript/agent.ts')) && files.some(file => file.endsWith('.tsx')))
  const [own, others] = [true, false].map(isOwn => files.filter(file => WITH_PACKAGES.test(file) !== isOwn))
  const folder = t.testdir()
  t.equal(typeFaults(folder, own!, OWN), '')
  const packages = await packagesOf('javascript')
  const deepagents = [join(packages, 'node_modules/deepagents/dist/index.d.ts')]
  t.equal(typeFaults(folder, others!, { deepagents }), '')
  writeFileSync(join(folder, 'wrong.ts'), "export const wrong: number = 'text'\n")
  t.match(typeFaults(folder, [join(folder, 'wrong.ts')], {}), /wrong\.ts.*TS2322/)
})

/** By the native compiler: that in JavaScript takes five times its CPU time. */
function typeFaults(folder: string, files: readonly string[], paths: { [module: string]: string[] }): string {
  const config = join(folder, 'tsconfig.json')
  const compilerOptions = {
    target: 'ES2023',
    lib: ['ES2023', 'DOM', 'DOM.Iterable'],
    module: 'NodeNext',
    jsx: 'react-jsx',
    strict: true,
    noUncheckedIndexedAccess: true,
    allowImportingTsExtensions: true,
    // page.css
    noUncheckedSideEffectImports: false,
    skipLibCheck: true,
    noEmit: true,
    types: ['node'],
    typeRoots: [join(root, 'node_modules/@types')],
    paths,
  }
  writeFileSync(config, JSON.stringify({ files: files.map(file => resolve(root, 'examples', file)), compilerOptions }))
  const compiler = join(root, 'node_modules/typescript-7/bin/tsc')
  const { status, stdout, stderr } = spawnSync(process.execPath, [compiler, '-p', config], { encoding: 'utf8' })
  return status === 0 ? '' : stdout + stderr || `exit code ${status}`
}

const skip = withoutPython() ?? false
for (const name of ['approval', 'research', 'digest', 'tenants', 'react', 'mixed'])
  t.test(`${name}: the code of its README prints what it says, through both SDKs`, { skip }, async t => {
    const python = await venvOf(join(root, 'test/host-python/requirements.txt'))
    const blocks = readmeOf(name)
    t.ok(blocks.length > 0)
    const cluster = await startCluster({ app: `examples/${name}`, env: { ...ENV, WEFT_PYTHON: python } })
    t.teardown(() => cluster.stop())
    for (const block of blocks)
      for (const { alias, name: line } of block.language === 'js' ? lines : lines.slice(0, 1))
        t.equal(await execute(block, cluster.url, python, alias), block.prints, `${block.language}, ${line}`)
  })

t.test('an example can be copied alone: its model is a copy of that of the others', t => {
  for (const name of ['tenants', 'react', 'delegate-ts', 'next/agent'])
    t.equal(read(`${name}/model.ts`), read('approval/model.ts'), name)
  for (const name of ['digest', 'delegate', 'fastapi/agent'])
    t.equal(read(`${name}/model.py`), read('research/model.py'), name)
  t.end()
})

t.test('a key without the package of its provider is one sentence', async t => {
  const cluster = await startCluster({ app: 'examples/approval', env: { ...ENV, OPENAI_API_KEY: 'none' } })
  t.teardown(() => cluster.stop())
  const input = { messages: [{ role: 'user', content: 'hello' }] }
  const ended = (await lines[0]!.connect(cluster.url).runs.wait(null, 'assistant', { input, raiseError: false })) as {
    __error__?: { message: string }
  }
  t.match(ended.__error__?.message, /^OPENAI_API_KEY is set.*: npm install langchain @langchain\/openai$/)
})
