/** Files of an application that change after the hosts have loaded them. */
import { chmodSync, mkdirSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { findHostUser, type HostUser } from '../../workers/child/process.js'
import { watchAppFiles } from '../../workers/graph/app-files.js'
import { PUBLIC_NODE } from '../helpers/public-node.js'

const FILES = {
  'app/langgraph.json': JSON.stringify({
    graphs: { one: './src/one.ts:graph', two: './two.mjs:graph' },
    env: '.env',
    auth: { path: './src/auth.ts:auth' },
  }),
  'app/.env': 'A=1',
  'app/tsconfig.json': JSON.stringify({ compilerOptions: { baseUrl: '.', paths: { '@/*': ['src/*'] } } }),
  'app/src/one.ts':
    "import { a } from '@/lib/a'\nimport { z } from 'zod'\nimport missing from './missing'\nexport const graph: unknown = [a, z, missing]",
  'app/src/lib/a.ts':
    "import data from './data.json' with { type: 'json' }\nexport const a = [data, await import('../lazy.js')]",
  'app/src/lib/data.json': '{}',
  'app/src/lazy.ts': 'export {}',
  'app/src/auth.ts': 'export const auth = 1',
  'app/src/unused.ts': 'export {}',
  'app/two.mjs': "import helper from './helper.cjs'\nexport const graph = helper",
  'app/helper.cjs': "module.exports = require('../shared/index.cjs')",
  'app/node_modules/zod/index.js': '',
  'shared/index.cjs': 'module.exports = 1',
  'package-lock.json': '{}',
}

/** Writes the application an hour ago. */
function application(t: Test): string {
  const folder = t.testdir()
  for (const [file, text] of Object.entries(FILES)) {
    mkdirSync(dirname(join(folder, file)), { recursive: true })
    writeFileSync(join(folder, file), text)
    backdate(join(folder, file))
  }
  return folder
}

function backdate(path: string, seconds = 3_600) {
  const time = Date.now() / 1_000 - seconds
  utimesSync(path, time, time)
}

/** The first file that is reported; `change` runs once the files were looked at. */
async function reported(
  t: Test,
  folder: string,
  change: () => void,
  loaded_at = Date.now() - 60_000,
  user: HostUser | null = null,
): Promise<string | null> {
  let found: (file: string) => void = () => {}
  const first = new Promise<string>(resolve => (found = resolve))
  const errors: Error[] = []
  const files = watchAppFiles({
    app: join(folder, 'app/langgraph.json'),
    env: {},
    user,
    node: user === null ? process.execPath : PUBLIC_NODE,
    loaded_at,
    onChange: file => found(file),
    onError: error => errors.push(error),
    check_ms: 50,
  })
  t.teardown(() => files.stop())
  change()
  const result = await Promise.race([first, sleep(3_000, null)])
  files.stop()
  t.same(errors, [])
  return result?.slice(folder.length + 1) ?? null
}

t.test('each file of the application is looked at', async t => {
  for (const file of Object.keys(FILES)) {
    if (/unused|tsconfig|node_modules/.test(file)) continue
    t.test(file, async t => {
      const folder = application(t)
      t.equal(await reported(t, folder, () => writeFileSync(join(folder, file), `${FILES[file as 'app/.env']} `)), file)
    })
  }
})

t.test('files of packages and files that nothing imports are not', async t => {
  const folder = application(t)
  const change = () => {
    writeFileSync(join(folder, 'app/src/unused.ts'), 'export const x = 1')
    writeFileSync(join(folder, 'app/node_modules/zod/index.js'), 'x')
  }
  t.equal(await reported(t, folder, change), null)
})

t.test('a file that is removed, or replaced by an older one, counts', async t => {
  const folder = application(t)
  const later = (change: () => void) => () => void setTimeout(change, 1_000)
  t.equal(
    await reported(
      t,
      folder,
      later(() => rmSync(join(folder, 'app/helper.cjs'))),
    ),
    'app/helper.cjs',
  )
  writeFileSync(join(folder, 'app/helper.cjs'), FILES['app/helper.cjs'])
  backdate(join(folder, 'app/helper.cjs'))
  const replace = () => {
    writeFileSync(join(folder, 'app/two.mjs'), 'export {}')
    backdate(join(folder, 'app/two.mjs'), 7_200)
  }
  t.equal(await reported(t, folder, later(replace)), 'app/two.mjs')
})

t.test('with another user, its rights decide what is looked into', { skip: process.getuid?.() !== 0 }, async t => {
  const closed = t.testdir()
  for (const [name, text] of [
    ['inner.mjs', "import './deeper.mjs'"],
    ['deeper.mjs', ''],
  ] as const) {
    writeFileSync(join(closed, name), text)
    backdate(join(closed, name))
  }
  chmodSync(closed, 0o700)
  const user = findHostUser('nobody')
  const changed = async (file: (folder: string) => string, user: HostUser | null) =>
    t.test(`${user?.name}`, async t => {
      const folder = application(t)
      symlinkSync(join(closed, 'inner.mjs'), join(folder, 'app/link.mjs'))
      writeFileSync(join(folder, 'app/two.mjs'), "import './link.mjs'\nexport const graph = 1")
      backdate(join(folder, 'app/two.mjs'))
      found = await reported(t, folder, () => writeFileSync(file(folder), '1'), undefined, user)
    })
  let found: string | null = null
  const deeper = () => join(closed, 'deeper.mjs')
  await changed(deeper, null)
  t.not(found, null, 'a file of root is found by root')
  backdate(deeper())
  await changed(deeper, user)
  t.equal(found, null)
  await changed(folder => join(folder, 'app/two.mjs'), user)
  t.equal(found, 'app/two.mjs')
})

t.test('a description that became unreadable is reported as an error, not as a crash', async t => {
  const folder = application(t)
  const errors: Error[] = []
  const files = watchAppFiles({
    app: join(folder, 'app/langgraph.json'),
    env: {},
    user: null,
    node: process.execPath,
    loaded_at: Date.now(),
    onChange: () => t.fail('no file is known'),
    onError: error => errors.push(error),
    check_ms: 10,
  })
  t.teardown(() => files.stop())
  writeFileSync(join(folder, 'app/langgraph.json'), '{')
  while (errors.length === 0) await sleep(10)
  t.match(errors, [{ message: /JSON/ }])
})
