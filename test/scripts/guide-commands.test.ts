/**
 * Every code block of the readme and of the guide is executed, in the order of its page, and the commands of the pages for
 * operators. The tutorial: test/browser. What is not executed: test/scripts/docs.test.ts parses it.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { root } from '../../cli/root.js'
import { venvOf, withoutPython } from '../../scripts/checks/venv.js'
import { type Block, blocksOf, openReader } from '../helpers/documents.js'

t.setTimeout(600_000)

/** Commands that begin so are not executed here, and why. */
const NOT_EXECUTED: { readonly [begin: string]: string } = {
  './scripts/start --app path/to': 'a path of the reader; what the script does: the block before it',
  'npm install && npm run build && npm pack': 'test/scripts/package.test.ts packs the build',
  'npm install weft-server': 'the registry; test/scripts/installed.test.ts starts the packed package',
  'NATS_URL=nats://resources:':
    'a NATS server of the reader; test/deploy/cluster-files.test.ts starts the same commands',
  'cp deploy/systemd/': 'folders of the system; test/scripts/deploy-files.test.ts reads the units',
  'docker buildx imagetools': 'a registry; test/scripts/deploy-files.test.ts reads the digests',
  'export MONGODB_URL=': 'a MongoDB of the reader; the tests of MongoDB start the same command',
  'export WEFT_LOCAL_SOURCES=': 'a repository of the reader; test/api/control-plane makes the same call',
  'source <(weft complete bash)': 'shells that may be missing; test/cli/completion.test.ts reads the same scripts',
  'weft backup /backups': 'a server between the two; test/cli/one-machine.test.ts executes both',
  'pg_dump --format=custom': 'a PostgreSQL of the reader; test/faults/postgres-restore.test.ts executes both',
  "import express from 'express'": 'a server of the reader; test/handler/frameworks.test.ts has the same',
  "import { Auth, HTTPException } from '@langchain/langgraph-sdk/auth'\n\nexport const auth = new Auth()\n  .authenticate(({ headers":
    'test/handler/identity.test.ts executes it',
  'pip install ./node_modules': 'test/handler/asgi.test.ts has the package',
  'import weft_asgi': 'test/handler/asgi.test.ts has the same server',
  'const weft = createNodeHandler({': 'a server of the reader; test/handler/frameworks.test.ts has the same',
  "import { createHandler } from 'weft-server/handler'":
    'a server of the reader; test/handler/frameworks.test.ts has the same',
  ...(spawnSync('jq', ['--version']).status === 0 ? {} : { 'ask() {': 'jq is not installed' }),
  'weft import ./my-agent': 'a stopped development server of the reader, which is not installed here',
  'weft import http': 'a server of the reader; test/cli/client-commands.test.ts imports from one',
}
interface Instead {
  text?: string
  kind?: string
  why: string
  /** Commands that are executed first: what the page takes for granted. */
  before?: readonly Pick<Block, 'text' | 'kind'>[]
  /** Put in front of the block. */
  prefix?: string
  /** The output that is expected. */
  prints?: string
}

/** Executed in another form. */
const INSTEAD: { readonly [begin: string]: Instead } = {
  './scripts/start     #': {
    text: `weft start --app ${join(root, 'examples/chat')}`,
    kind: 'server',
    why: 'the script builds the clone, as ./scripts/test has done, and starts this; the tests are what runs here',
  },
  'weft start --app path/to': {
    text: `weft start --app ${join(root, 'examples/chat')}`,
    kind: 'server',
    why: 'a path of the reader',
  },
  "import { LangGraphAgent } from '@ag-ui/langgraph'": {
    before: [
      { text: 'weft new app', kind: '' },
      { text: 'weft start --app app', kind: 'server' },
    ],
    why: 'a server of the reader',
  },
  'ask() {': {
    before: [
      { text: 'weft new app', kind: '' },
      { text: 'weft start --app app', kind: 'server' },
    ],
    prefix: 'cd app; KEY=$(cat ../.weft/control.key)',
    prints: '…"latest_revision_id":"…',
    why: 'a server and an application of the reader',
  },
}
const python = withoutPython() === null ? await venvOf(join(root, 'test/host-python/requirements.txt')) : null
const needsPython = ({ language, text }: Block) => language === 'python' || /^python3|--python/.test(text)
const beginsWith = (text: string, table: object): string | undefined =>
  Object.keys(table).find(begin => text.startsWith(begin))

const TUTORIAL = 'docs/guide/tutorial.md'
/** Their blocks `sh`: the others show parts of files. */
const REFERENCE = ['command-line', 'operations', 'deployments', 'application', 'scaling'].map(name => `docs/${name}.md`)
const guide = ['README.md', ...readdirSync(join(root, 'docs/guide')).map(file => `docs/guide/${file}`)].filter(
  page => page.endsWith('.md') && page !== TUTORIAL,
)

const unused = new Set([...Object.keys(NOT_EXECUTED), ...Object.keys(INSTEAD)])
for (const page of [...guide, ...REFERENCE]) {
  const blocks = blocksOf(page).filter(({ language }) => !REFERENCE.includes(page) || language === 'sh')
  for (const { text } of blocks)
    for (const table of [NOT_EXECUTED, INSTEAD]) unused.delete(beginsWith(text, table) ?? '')
  // Drawings and what commands print.
  if (blocks.every(({ language }) => language === '' || language === 'text')) continue
  const skip = python === null && page === 'docs/guide/python.md' ? 'python3 is not installed' : false
  t.test(`the code of ${page}`, { skip }, async t => {
    const reader = await openReader(python)
    t.teardown(() => reader.close())
    for (const [i, block] of blocks.entries()) {
      const { line, language, text } = block
      const name = `line ${line}: ${text.split('\n')[0]}`
      const begin = beginsWith(text, NOT_EXECUTED)
      if (language === '' || language === 'text') continue
      if (begin !== undefined) t.comment(`${name} is not executed: ${NOT_EXECUTED[begin]}`)
      else if (python === null && needsPython(block)) t.comment(`${name} is not executed: python3 is not installed`)
      else if (/^(npm|pip) install [\w@]/.test(text))
        for (const name of packagesOf(text)) t.ok(isInstalled(name), `${name} is what this test uses`)
      else {
        const next = blocks[i + 1]
        const { before = [], prefix, prints, ...other } = INSTEAD[beginsWith(text, INSTEAD) ?? ''] ?? {}
        const expected = next?.language === 'text' ? next.text : prints
        const form = { ...block, text: prefix === undefined ? text : `${prefix}\n${text}`, ...other }
        try {
          for (const each of before) await reader.follow({ ...block, language: 'sh', ...each })
          await reader.follow(form, expected)
          t.pass(name)
        } catch (error) {
          t.fail(`${name}: ${(error as Error).message}`)
        }
      }
    }
  })
}

t.test('the list of what is not executed names blocks that exist', async t => t.same([...unused], []))

/** A test asks no registry: packages of these names are installed here. */
const packagesOf = (text: string): string[] =>
  text
    .split(' ')
    .slice(2)
    .filter(word => !word.startsWith('-'))
const isInstalled = (name: string): boolean => existsSync(join(root, 'node_modules', name))
