/** `weft dockerfile` and `weft build`: files as dockerfiles/ has them. WEFT_WRITE_GOLDEN=1 writes those anew. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { validate } from 'dockerfile-utils'
import t from 'tap'
import { planImage } from '../../cli/commands/dockerfile.js'
import { root } from '../../cli/root.js'
import { UV_VERSION, WHEELS } from '../../workers/child/uv.js'
import { runWeft } from '../helpers/command.js'

interface Case {
  files: { [path: string]: string }
  /** The folder of langgraph.json. */
  app?: string
  config: object
}

const GRAPH = { graphs: { agent: './agent.ts:graph' } }
const PYTHON = { graphs: { agent: './agent.py:graph' } }
const CASES: { readonly [name: string]: Case } = {
  javascript: { files: { 'package.json': '{}', 'package-lock.json': '{}' }, config: GRAPH },
  'no-packages': { files: {}, config: { ...GRAPH, node_version: '22' } },
  pnpm: {
    files: { 'package.json': '{"packageManager":"pnpm@9.1.0"}', 'pnpm-lock.yaml': '' },
    config: {
      ...GRAPH,
      node_version: 24,
      base_image: 'registry.example.com/weft:1',
      dockerfile_lines: ['RUN apt-get update && apt-get install --yes jq', 'ENV A="b c"'],
    },
  },
  workspace: {
    files: { 'yarn.lock': '', 'apps/one/package.json': '{}' },
    app: 'apps/one',
    config: { ...GRAPH, dependencies: ['../..'] },
  },
  python: {
    files: { 'requirements.txt': 'langchain', 'lib/pyproject.toml': '' },
    config: { ...PYTHON, dependencies: ['.', './lib', 'langchain_openai>=1'], python_version: '3.12' },
  },
  'pip-config': {
    files: { 'requirements.txt': '', 'pip.conf': '' },
    config: {
      ...PYTHON,
      dependencies: ['.'],
      pip_config_file: './pip.conf',
      base_image: 'langchain/langgraph-api:3.11',
    },
  },
  'uv-source': {
    files: { 'uv.lock': '', 'pyproject.toml': '', 'members/agent/pyproject.toml': '' },
    app: 'members/agent',
    config: { ...PYTHON, source: { kind: 'uv', root: '../..', package: 'agent' }, http: { app: './web.py:app' } },
  },
}

for (const [name, { files, app = '.', config }] of Object.entries(CASES))
  t.test(`the Dockerfile: ${name}`, async t => {
    const folder = t.testdir({})
    const all = { ...files, [join(app, 'langgraph.json')]: JSON.stringify(config) }
    for (const [path, text] of Object.entries(all)) {
      mkdirSync(dirname(join(folder, path)), { recursive: true })
      writeFileSync(join(folder, path), text)
    }
    const { context, dockerfile } = await planImage({ app: join(folder, app) })
    t.equal(context, folder)
    t.same(validate(dockerfile), [])
    const golden = join(root, `test/cli/dockerfiles/${name}`)
    const text = dockerfile.replaceAll(/\b(weft:|Weft )\d+\.\d+\.\d+/g, '$1VERSION')
    if (process.env.WEFT_WRITE_GOLDEN) writeFileSync(golden, text)
    t.equal(text, readFileSync(golden, 'utf8'))
  })

t.test('what an image cannot have is refused with one sentence', async t => {
  const refused = async (config: object, pattern: RegExp) => {
    const app = t.testdir({ 'langgraph.json': JSON.stringify({ ...PYTHON, ...config }) })
    t.match(await runWeft(['dockerfile', join(app, 'Dockerfile'), '--app', app], {}), { code: 2, stderr: pattern })
  }
  await refused({ node_version: '18' }, /wants Node\.js 18, and the image has 22 and 24/)
  await refused({ dockerfile_lines: 'RUN true' }, /dockerfile_lines must be a list/)
  await refused({ source: 'uv' }, /has no uv\.lock/)
  await refused({ source: { kind: 'poetry' } }, /source must be "uv"/)
})

t.test('weft build gives the file and the folder to the engine, without secrets', async t => {
  const app = t.testdir({ 'langgraph.json': JSON.stringify(GRAPH), bin: {} })
  const docker = join(app, 'bin/docker')
  writeFileSync(
    docker,
    `#!/bin/sh
[ "$1" = --version ] && exec echo Docker version 29
echo "$@" > ${app}/asked
cat "$3" > ${app}/Dockerfile
cat "$3.dockerignore" > ${app}/ignored\n`,
    { mode: 0o755 },
  )
  const env = { PATH: `${join(app, 'bin')}:${process.env.PATH}` }
  const built = await runWeft(['build', '-t', 'mine', '--app', app, '--pull', '--', '--no-cache'], env)
  t.match(built, { code: 0, stdout: /^built mine; start it: docker run / })
  const asked = readFileSync(join(app, 'asked'), 'utf8').trim()
  t.match(asked, /^build --file \S+ --tag mine --pull --no-cache /)
  t.ok(asked.endsWith(` ${app}`), asked)
  t.match(readFileSync(join(app, 'Dockerfile'), 'utf8'), /^FROM weft:\d/m)
  t.match(readFileSync(join(app, 'ignored'), 'utf8'), /^\*\*\/\.env$/m)
})

t.test('the image has the uv that Weft downloads elsewhere', t => {
  const text = readFileSync(join(root, 'Dockerfile'), 'utf8')
  t.match(text, `uv==${UV_VERSION} `)
  const linux = Object.entries(WHEELS).filter(([file]) => file.includes('musllinux'))
  t.equal(linux.length, 2)
  for (const [file, sum] of linux) t.match(text, `--hash=sha256:${sum}`, file)
  t.end()
})
