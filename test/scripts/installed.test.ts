/** The npm package beside its dependencies alone, as in a folder where it was installed. */
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { Client } from '@langchain/langgraph-sdk'
import t from 'tap'
import { findNatsServer } from '../../cli/nats/server.js'
import { root } from '../../cli/root.js'
import { pinned } from '../../workers/npm-package.js'
import { until } from '../helpers/until.js'

t.setTimeout(120_000)
const folder = mkdtempSync(join(tmpdir(), 'weft-installed-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))
const modules = join(folder, 'node_modules')
const installed = join(modules, 'weft-server')

function install(): void {
  mkdirSync(installed, { recursive: true })
  const [{ filename }] = JSON.parse(
    execFileSync('npm', ['pack', '--json', '--pack-destination', folder], {
      cwd: root,
      encoding: 'utf8',
      stdio: 'pipe',
    }),
  ) as [{ filename: string }]
  execFileSync('tar', ['-xzf', join(folder, filename), '--strip-components=1', '-C', installed])
  const { dependencies } = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8')) as { dependencies: object }
  const linked = new Set(Object.keys(dependencies).map(name => name.split('/')[0]!))
  for (const name of linked) symlinkSync(join(root, 'node_modules', name), join(modules, name))
}

/** In place of npm, which would ask a registry: it brings the package of the lock file from this clone. */
const NPM = `#!/bin/sh
name=$(sed 's/.*"node_modules\\/\\([^"]*\\)".*/\\1/' "$3/package-lock.json")
to="$3/node_modules/$name"
mkdir -p "$to"
case "$name" in
  uws-pack)
    mkdir -p "$to/dist/bin"
    cp ${root}/node_modules/uWebSockets.js/dist/bin/uws_${process.platform}_${process.arch}_* "$to/dist/bin"
    touch "$to/dist/bin/uws_other_x64_127.node" ;;
  typescript) mkdir "$to/lib"; cp ${root}/node_modules/typescript-json-schema/node_modules/typescript/lib/*.js "$to/lib"
    cp ${root}/node_modules/typescript-json-schema/node_modules/typescript/lib/*.d.ts "$to/lib" ;;
  node-*) mkdir "$to/bin"; ln -s ${process.execPath} "$to/bin/node" ;;
esac
`

const APP = `import { Annotation, StateGraph } from '@langchain/langgraph'
export const graph = new StateGraph(Annotation.Root({ says: Annotation<string>(), n: Annotation<number>() }))
  .addNode('a', () => ({ says: process.versions.node })).addEdge('__start__', 'a').compile()`

const cache = join(folder, 'cache/weft')
const env = { PATH: `${join(folder, 'bin')}:${process.env.PATH}`, HOME: folder, XDG_CACHE_HOME: join(cache, '..') }

async function withServer(node: string, use: (client: Client) => Promise<void>): Promise<string> {
  const nats = await findNatsServer()
  const args = [join(modules, 'weft-server/dist/cli/weft.js'), 'start', '--port', '0', '--json']
  const child = spawn(node, args, { cwd: folder, env: { ...env, WEFT_NATS_SERVER: nats } })
  const output = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) child[name].on('data', part => (output[name] += part))
  try {
    await until(async () => child.exitCode !== null || output.stdout.includes('\n'), 60_000)
    if (child.exitCode !== null) throw new Error(output.stderr)
    await use(new Client({ apiUrl: JSON.parse(output.stdout.split('\n')[0]!).url }))
  } finally {
    child.kill('SIGTERM')
    if (child.exitCode === null) await once(child, 'exit')
  }
  return output.stderr
}

t.before(() => {
  install()
  mkdirSync(join(folder, 'bin'))
  writeFileSync(join(folder, 'bin/npm'), NPM, { mode: 0o755 })
  writeFileSync(join(folder, 'langgraph.json'), '{"graphs":{"small":"./small.ts:graph"}}')
  writeFileSync(join(folder, 'small.ts'), APP)
})

const getting = (stderr: string): string[] => stderr.match(/getting .*? \(/g) ?? []

t.test('serves, and downloads the HTTP library once and the compiler when types are asked for', async t => {
  const first = await withServer(process.execPath, async client => {
    t.match(await client.runs.wait(null, 'small', { input: {} }), { says: process.versions.node })
    t.same(
      readdirSync(cache).filter(name => name.startsWith('typescript')),
      [],
      'not needed yet',
    )
    const { state_schema } = await client.assistants.getSchemas('small')
    t.match(state_schema, { properties: { n: { type: 'number' } } })
  })
  t.same(getting(first), [
    'getting the HTTP library (',
    'getting the TypeScript compiler, which reads the types of graphs (',
  ])
  t.same(
    readdirSync(join(cache, `uws-pack-${pinned.http.version}/node_modules/uws-pack/dist/bin`)).filter(
      name => !name.startsWith(`uws_${process.platform}_${process.arch}_`),
    ),
    [],
  )
  t.same(getting(await withServer(process.execPath, async () => {})), [])
})

t.test('its handler serves inside another program, as an ES module and in CommonJS', async t => {
  const nats = await findNatsServer()
  const use = `const weft = createHandler({ data: 'inside' })
    weft(new Request('http://x/info')).then(async answer => { console.log(answer.status); await weft.close() })`
  for (const code of [
    `const { createHandler } = require('weft-server/handler'); ${use}`,
    `import { createHandler } from 'weft-server/handler'; ${use}`,
  ]) {
    const args = [`--input-type=${code.startsWith('import') ? 'module' : 'commonjs'}`, '-e', code]
    t.equal(
      execFileSync(process.execPath, args, {
        cwd: folder,
        env: { ...env, WEFT_NATS_SERVER: nats },
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'pipe'],
      }),
      '200\n',
    )
  }
})

t.test(
  'on a Node.js without an HTTP library it serves with one that has it, and graphs keep the newer one',
  async t => {
    const newest = process.env.WEFT_NEWEST_NODE
    if (!newest || dirname(newest) === dirname(process.execPath)) return void t.pass('no newer Node.js is here')
    const version = execFileSync(newest, ['-p', 'process.versions.node'], { encoding: 'utf8' }).trim()
    const stderr = await withServer(newest, async client => {
      t.match(await client.runs.wait(null, 'small', { input: {} }), { says: version })
    })
    t.match(stderr, /^weft: getting Node\.js 22\.\S+ \(.*: the HTTP server does not run on v\d/m)
    t.equal(getting(stderr).filter(line => line.includes('Node.js')).length, 1)
    for (const command of [['help'], ['settings'], ['new', join(folder, 'made')]]) {
      const args = [join(modules, 'weft-server/dist/cli/weft.js'), ...command]
      execFileSync(newest, args, { env: { ...env, XDG_CACHE_HOME: join(folder, 'empty') }, stdio: 'pipe' })
    }
    t.notOk(readdirSync(folder).includes('empty'), 'commands that serve nothing need no download')
  },
)
