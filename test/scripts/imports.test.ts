import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { root } from '../../cli/root.js'
import { checkImports, importsOf } from '../../scripts/checks/imports.js'

t.test('the repository has no violation', async t => {
  t.same(checkImports(), [])
})

t.test('no folder holds more than 35 files', async t => {
  const crowded: string[] = []
  const look = (folder: string) => {
    const entries = readdirSync(join(root, folder), { withFileTypes: true })
    const files = entries.filter(entry => entry.isFile() && /\.(ts|tsx|mjs|py|md)$/.test(entry.name))
    if (files.length > 35) crowded.push(`${folder}: ${files.length}`)
    for (const entry of entries)
      if (entry.isDirectory() && !/^(\.|node_modules$|dist$)/.test(entry.name)) look(join(folder, entry.name))
  }
  for (const folder of [
    'bus',
    'cli',
    'console',
    'docs',
    'edge',
    'examples',
    'handler',
    'schemas',
    'scripts',
    'store',
    'test',
    'workers',
  ])
    look(folder)
  t.same(crowded, [])
})

t.test('a planted violation of each rule is caught, with file and line', async t => {
  const folder = t.testdir({
    edge: {
      'calls.ts': "import { ok } from '../schemas/x.js'\nimport { rows } from '../store/rows.js'\n",
      'b.ts': "import { connect } from 'nats'\nimport type { IValidation } from 'typia'\n",
      'c.ts': 'const where = process.env.HOME\n// process.env in a comment\n',
      'f.ts': "import '../console/src/api/client.js'\nimport 'react'\n",
      'e.ts': 'link.nc.subscribe(subject, { callback })\n// nc.subscribe in a comment\n',
      'd.ts': 'link.publish(`queue.$' + "{pool}`)\nserve('rpc.threads')\nask('rpc.threads.create')\n",
    },
    store: { 'rows.ts': "import {\n  call,\n} from '../bus/call.js'\n" },
    schemas: { 'x.ts': "export { call } from '../bus/call.js'\n" },
    bus: { 'call.ts': "import '../test/helper.js'\n" },
    workers: {
      'pipe.ts': "import { log } from './graph/log.js'\n",
      'helper.ts': "import './pipe.js'\n",
      graph: {
        'pool.ts': "import type { Rows } from '../../store/port.js'\nimport { rows } from '../../store/rows.js'\n",
        'log.ts': "import { openLog } from '../../bus/log.js'\n",
        'main.ts': "import './pool.js'\nconst { HOME } = process.env\n",
      },
      child: {
        'tree.ts':
          "import { spawn } from 'node:child_process'\nawait rm(path, { recursive: true })\nawait rm(path, { force: true })\nlchownSync(path, 1, 1)\nreadFileSync(path)\n",
        'user-tree.ts': 'await rm(path, { recursive: true })\n',
      },
      host: {
        'main.ts': "import { run } from './run.js'\n",
        'run.ts': "import { log } from '../graph/log.js'\nimport '../resources/rows/text.js'\n",
      },
      resources: {
        'context.ts': "import type { Run } from './runs/create.js'\n",
        'clock.ts': 'const now = Date.now()\n',
        'drawer.ts': "import './rows/text.js'\n",
        'main.ts': 'const late = clock.now() > Date.now()\nconst at = new Date()\nnew Date(at)\n',
        rows: { 'text.ts': "import './time.js'\n", 'time.ts': "import type { Text } from './text.js'\n" },
        runs: { 'create.ts': "import { text } from '../rows/text.js'\n" },
      },
    },
    cli: {
      'main.ts':
        "import type { Role } from '../bus/connect.js'\nimport './commands/launcher.js'\nawait import('../edge/main.js')\n",
      commands: { 'launcher.ts': "import { call } from '../../bus/call.js'\nimport '../../scripts/bench.js'\n" },
    },
    console: {
      src: {
        'env.d.ts': "import 'react'\n",
        'pages.tsx': "import './shell/nav'\nconst Chat = lazy(() => import('./pages/chat'))\n",
        api: {
          'client.ts': "import type { Run } from '../../../schemas/runs.js'\nimport { Button } from '../ui/button'\n",
        },
        ui: {
          'button.tsx': "import '../styles/parts.css'\nimport { Card } from './card'\n",
          'card.tsx': "import './button'\n",
        },
        pages: { 'chat.tsx': "import { client } from '../api/client'\n" },
        shell: { 'nav.tsx': "import { PAGES } from '../pages'\n" },
      },
    },
    test: { 'x.test.ts': "import t from 'tap'\nimport 'libsql'\n" },
  })
  t.same(
    checkImports(folder)
      .map(line => line.replace(/(child_process belongs to) .* only$/, '$1 CHILD only'))
      .sort(),
    [
      'bus/call.ts:1: bus/ does not import test/helper.ts',
      'edge/calls.ts:2: edge/ does not import store/rows.ts',
      'edge/b.ts:1: nats belongs to bus/ only',
      'edge/c.ts:1: only a main reads process.env',
      'edge/d.ts:1: a subject is spelled by schemas/subjects.ts only',
      'edge/d.ts:3: a subject is spelled by schemas/subjects.ts only',
      'edge/e.ts:1: messages are received through link.subscribe only',
      'schemas/x.ts:1: schemas/ does not import bus/call.ts',
      'cli/commands/launcher.ts:2: cli/ does not import scripts/bench.ts',
      'cli/main.ts reaches bus/call.ts: cli/main.ts → cli/commands/launcher.ts → bus/call.ts',
      'store/rows.ts:1: store/ does not import bus/call.ts',
      'workers/graph/log.ts:1: workers/graph/log.ts has no floor in workers/graph/',
      'workers/graph/main.ts reaches store/rows.ts: workers/graph/main.ts → workers/graph/pool.ts → store/rows.ts',
      'workers/graph/pool.ts:1: workers/graph/ does not import store/port.ts',
      'workers/graph/pool.ts:2: workers/graph/ does not import store/rows.ts',
      'workers/host/main.ts reaches bus/log.ts: workers/host/main.ts → workers/host/run.ts → workers/graph/log.ts → bus/log.ts',
      'workers/host/run.ts:1: workers/host/ does not import workers/graph/log.ts',
      'workers/host/run.ts:2: workers/host/ does not import workers/resources/rows/text.ts',
      'workers/child/tree.ts:1: node:child_process belongs to CHILD only',
      'workers/child/tree.ts:2: trees change their owner and are removed in workers/child/user-tree.ts only',
      'workers/child/tree.ts:4: trees change their owner and are removed in workers/child/user-tree.ts only',
      'workers/child/tree.ts:5: files of applications are read with the rights of their user, by workers/child/user-file.ts',
      'workers/helper.ts:1: no row of MAY_IMPORT covers workers/helper.ts',
      'workers/pipe.ts:1: workers/pipe.ts does not import workers/graph/log.ts',
      'workers/resources/context.ts:1: workers/resources/runs/create.ts is not on a lower floor of workers/resources/',
      'workers/resources/drawer.ts:1: workers/resources/drawer.ts has no floor in workers/resources/',
      'workers/resources/main.ts:1: resource workers read clock.now() only',
      'workers/resources/main.ts:2: resource workers read clock.now() only',
      'console/src/api/client.ts:1: console/ does not import schemas/runs.ts',
      'console/src/api/client.ts:2: console/src/ui/button.tsx is not on a lower floor of console/src/',
      'console/src/pages.tsx:1: console/src/shell/nav.tsx is not on a lower floor of console/src/',
      'a circle of imports: console/src/pages.tsx, console/src/shell/nav.tsx',
      'a circle of imports: console/src/ui/button.tsx, console/src/ui/card.tsx',
      'edge/f.ts:1: edge/ does not import console/src/api/client.ts',
      'edge/f.ts:2: react belongs to console/ only',
      'a circle of imports: workers/resources/rows/text.ts, workers/resources/rows/time.ts',
    ].sort(),
  )
})

t.test('all forms of an import are found', async t => {
  const source = `import a from './a.js'
import * as b from './b.js'
import c, { type d } from './c.js'
import { type e, f } from './e.js'
import { type g } from './g.js'
import type { h } from './h.js'
export * from './i.js'
export type { j } from './j.js'
import './k.js'
const l = await import('./l.js')
import m from '@scope/name/deep/file.js'
`
  t.same(
    importsOf('bus/x.ts', source).map(
      ({ target, typeOnly, late }) => `${target}${typeOnly ? ' type' : ''}${late ? ' late' : ''}`,
    ),
    [
      'bus/a.ts',
      'bus/b.ts',
      'bus/c.ts',
      'bus/e.ts',
      'bus/g.ts type',
      'bus/h.ts type',
      'bus/i.ts',
      'bus/j.ts type',
      'bus/k.ts',
      '@scope/name',
      'bus/l.ts late',
    ],
  )
})
