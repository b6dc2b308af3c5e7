import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { ROUTES } from '../../edge/routes.js'
import { SETTINGS } from '../../schemas/config.js'
import { METRICS } from '../../schemas/metrics.js'
import { RIGHTS, ROLES as ROLES_AT_BROKER } from '../../scripts/nats/config.js'
import { root } from '../../scripts/root.js'
import { NEWEST_LIBRARY, OLDEST_LIBRARY } from '../../workers/host/library-versions.js'

const read = (path: string): string => readFileSync(join(root, path), 'utf8')
/** The text between the two markers `<!-- name -->` of a page. */
const marked = (page: string, name: string): string => read(page).split(`<!-- ${name} -->`)[1] ?? ''
const ROLES = ['all', 'start', 'edge', 'resources', 'graphs', 'deployer']

t.test('docs/operations.md lists the metrics of the code', async t => {
  const names = marked('docs/operations.md', 'metrics').matchAll(/`((?:weft|lg_api)_\w+)`/g)
  t.same([...names].map(([, name]) => name).sort(), Object.keys(METRICS).sort())
})

t.test('docs/configuration.md lists the settings of the code', async t => {
  const rows = marked('docs/configuration.md', 'settings').matchAll(/^\| `(\w+)` \|(.*?)\| (.*?) \| (.*) \|$/gm)
  const settings = [...rows].map(([, env, value = '', roles = '', doc]) => ({
    env,
    value: value.replaceAll('`', '').trim(),
    roles: roles.split(', '),
    doc,
  }))
  t.same(
    settings.map(({ env }) => env).sort(),
    Object.values(SETTINGS)
      .map(({ env }) => env)
      .sort(),
  )
  for (const { env, default: fallback, doc } of Object.values(SETTINGS)) {
    const row = settings.find(row => row.env === env)
    t.equal(row?.doc, doc, `${env}: meaning`)
    t.equal(row?.value, `${fallback}`, `${env}: default`)
    t.same(
      row?.roles.filter(role => !ROLES.includes(role)),
      [],
      `${env}: roles`,
    )
  }
})

t.test('docs/api.md lists the routes of the edge', async t => {
  const rows = marked('docs/api.md', 'routes').matchAll(/^\| ([A-Z]+) \| `(.*?)` \| .+ \|$/gm)
  t.same(
    [...rows].map(([, method, path]) => `${method} ${path}`).sort(),
    ROUTES.map(({ method, path }) => `${method} ${path.replaceAll(/:(\w+)/g, '{$1}')}`).sort(),
  )
})

t.test('docs/operations.md lists the rights of the roles at the broker', async t => {
  const listed: { [role: string]: { [right: string]: string[] } } = {}
  const rows = marked('docs/operations.md', 'rights').matchAll(
    /^\| (\w+) \| (publish|publish, never|subscribe) \| (.+) \|$/gm,
  )
  for (const [, role = '', right = '', subjects = ''] of rows)
    listed[role] = { ...listed[role], [right]: subjects.split(', ').map(subject => subject.replaceAll('`', '')) }
  for (const role of ROLES_AT_BROKER) {
    const { publish, never, subscribe } = RIGHTS[role]
    t.same(listed[role], { publish, ...(never && { 'publish, never': never }), subscribe }, role)
  }
})

t.test('docs/application.md says which versions of LangGraph are served', async t => {
  const rows = [...marked('docs/application.md', 'library').matchAll(/^\| (\w[^|]*) \| .+ \|$/gm)].map(
    ([, range]) => range,
  )
  t.same(rows, [`before ${OLDEST_LIBRARY}`, `${OLDEST_LIBRARY} to ${NEWEST_LIBRARY}`, `after ${NEWEST_LIBRARY}`])
})

t.test('docs/promises.md names the test of each promise, and every fault test', async t => {
  const rows = [...marked('docs/promises.md', 'promises').matchAll(/^\| ([^|]+) \| ([^|]+) \|$/gm)].slice(1)
  t.ok(rows.length > 0)
  const named = new Set<string>()
  for (const [, promise = '', tests = ''] of rows) {
    const files = [...tests.matchAll(/`([^`]+)`/g)].map(([, file]) => file!)
    t.ok(files.length > 0, promise)
    for (const file of files) {
      t.ok(existsSync(join(root, file)), file)
      named.add(file)
    }
  }
  const faults = readdirSync(join(root, 'test/faults')).filter(file => file.endsWith('.test.ts'))
  t.same(
    faults.filter(file => !named.has(`test/faults/${file}`)),
    [],
  )
})

t.test('README.md has fewer than 200 lines', async t => {
  t.ok(read('README.md').split('\n').length < 200)
})

const pages = [
  'README.md',
  'CHANGELOG.md',
  ...(readdirSync(join(root, 'docs'), { recursive: true }) as string[])
    .filter(name => name.endsWith('.md'))
    .map(name => join('docs', name)),
]

t.test('every relative link of a page names a file, and a heading that the file has', async t => {
  for (const page of pages) {
    const prose = read(page).replaceAll(/^```[\s\S]*?^```$/gm, '')
    for (const [, target = ''] of prose.matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(target)) continue
      const [file = '', anchor] = target.split('#')
      const path = file === '' ? page : join(dirname(page), file)
      if (!t.ok(existsSync(join(root, path)), `${page}: ${target}`) || anchor === undefined) continue
      t.ok(anchors(path).has(anchor), `${page}: ${target} is a heading`)
    }
  }
})

t.test('every source file that a page names exists', async t => {
  for (const page of pages)
    for (const [, file = ''] of read(page).matchAll(
      /`((?:schemas|bus|store|edge|workers|scripts|test|examples)\/[\w./-]+)`/g,
    ))
      t.ok(existsSync(join(root, file)), `${page}: ${file}`)
})

t.test('the log messages of docs/operations.md exist', async t => {
  const messages = [...marked('docs/operations.md', 'log').matchAll(/^\| `(.*?)` \|/gm)].map(
    ([, message = '']) => message,
  )
  t.ok(messages.length > 5)
  const code = ['bus', 'edge', 'workers']
    .flatMap(top => (readdirSync(join(root, top), { recursive: true }) as string[]).map(file => join(top, file)))
    .filter(file => file.endsWith('.ts'))
    .map(read)
    .join()
  for (const message of messages) t.ok(code.includes(`'${message}'`), message)
})

/** The anchors of a page's headings, as git hosts make them. */
const anchors = (page: string): Set<string> =>
  new Set(
    [...read(page).matchAll(/^#+ (.*)$/gm)].map(([, title = '']) =>
      title
        .toLowerCase()
        .replaceAll(/[^\w\- ]/g, '')
        .replaceAll(' ', '-'),
    ),
  )

t.test('docs/internals.md explains every folder in at most 30 rows', async t => {
  const rows = [...marked('docs/internals.md', 'folders').matchAll(/^\| (`.*?`) \| .+ \|$/gm)]
  const listed = rows.flatMap(([, names = '']) => [...names.matchAll(/`(.*?)`/g)].map(([, name = '']) => name))
  t.ok(rows.length <= 30, `${rows.length} rows`)
  t.same(listed.sort(), sourceFolders())
})

/** Folders with source files, below the five layers, scripts and examples. */
function sourceFolders(): string[] {
  const found = new Set<string>()
  for (const top of ['schemas', 'bus', 'store', 'edge', 'workers', 'scripts'])
    for (const file of readdirSync(join(root, top), { recursive: true }) as string[])
      if (file.endsWith('.ts')) found.add(dirname(join(top, file)))
  return [...found].sort()
}

t.test('docs/words.md has 40 terms', async t => {
  t.equal([...read('docs/words.md').matchAll(/^\| \*\*.+\*\* \| .+ \|$/gm)].length, 40)
})
