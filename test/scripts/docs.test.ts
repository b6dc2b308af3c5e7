import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { RIGHTS } from '../../bus/rights.js'
import { ROLES as ROLES_AT_BROKER } from '../../cli/nats/config.js'
import { makeProgram, SCOPE_NAMES } from '../../cli/program.js'
import { root } from '../../cli/root.js'
import { ROUTES } from '../../edge/routes.js'
import { SCOPES } from '../../schemas/auth/keys.js'
import { SETTINGS } from '../../schemas/config.js'
import { METRICS } from '../../schemas/metrics.js'
import { anchorsOf } from '../../scripts/checks/citations.js'
import { withTables } from '../../scripts/checks/settings-table.js'
import { OLDEST_PYTHON } from '../../workers/child/python-install.js'
import { NEWEST_LIBRARY, OLDEST_LIBRARY } from '../../workers/host/library/library-versions.js'
import { pageOf, readResults } from '../faults/harness/report.js'
import { loadRows } from '../faults/harness/rows.js'
import { commandLines } from '../helpers/command-lines.js'

const read = (path: string): string => readFileSync(join(root, path), 'utf8')
/** The text between the two markers `<!-- name -->` of a page. */
const marked = (page: string, name: string): string => read(page).split(`<!-- ${name} -->`)[1] ?? ''

t.test('docs/operations.md lists the metrics of the code', async t => {
  const names = marked('docs/operations.md', 'metrics').matchAll(/`((?:weft|lg_api)_\w+)`/g)
  t.same([...names].map(([, name]) => name).sort(), Object.keys(METRICS).sort())
})

t.test('docs/command-line.md lists the commands', async t => {
  const rows = marked('docs/command-line.md', 'commands').matchAll(/^\| `weft ([\w ]+)` \|/gm)
  t.same(
    [...rows].map(([, name]) => name),
    [...commandLines(makeProgram()).keys()],
  )
})

t.test('the scopes that complete are those of keys', async t => t.same(SCOPE_NAMES, SCOPES))

t.test('docs/configuration.md lists the settings of the code: `npm run settings` writes it', async t => {
  const page = read('docs/configuration.md')
  t.equal(page, withTables(page))
})

t.test('operators have at most 72 settings', async t => {
  t.ok(Object.values(SETTINGS).filter(({ isInternal }) => !isInternal).length <= 72)
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

t.test('docs/application.md says on which versions of Python and langgraph hosts are tested', async t => {
  const rows = [...marked('docs/application.md', 'python').matchAll(/^\| (\w+) \| (\S+) \| (\S+) \|$/gm)].map(
    ([, ...cells]) => cells,
  )
  const versionIn = (file: string) => /^langgraph==(\S+)$/m.exec(read(`test/host-python/${file}`))?.[1]
  t.same(rows, [
    ['Python', OLDEST_PYTHON.join('.'), '3.14'],
    ['langgraph', versionIn('requirements-oldest.txt'), versionIn('requirements-newest.txt')],
  ])
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

t.test('docs/faults.md shows the results of docs/faults.json', async t => {
  const page = read('docs/faults.md')
  t.equal(pageOf(page, await loadRows(), readResults(join(root, 'docs'))), page)
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
      t.ok(anchorsOf(read(path)).has(anchor), `${page}: ${target} is a heading`)
    }
  }
})

/** Rows that the completion and commander add to the table. */
const OTHER_COMMANDS = /^(help|complete)\b/

/** The defect of the words after `weft`; null: none. `whole`: all arguments must be there. */
function mistakeIn(words: readonly string[], whole: boolean): string | null {
  const all = commandLines(makeProgram())
  const text = words.join(' ')
  if (OTHER_COMMANDS.test(text) || words.every(word => /^(--version|-v|…|<command>|)$/.test(word))) return null
  const name = [words.slice(0, 2).join(' '), words[0]!].find(name => all.has(name))
  if (name === undefined) {
    const isGroup = words.length === 1 && [...all.keys()].some(known => known.startsWith(`${text} `))
    return isGroup ? null : 'no such command'
  }
  const command = all.get(name)!
  const given: string[] = []
  for (let rest = words.slice(name.split(' ').length); rest.length > 0; rest = rest.slice(1)) {
    const [word = ''] = rest
    if (!word.startsWith('--')) {
      given.push(word)
      continue
    }
    const [flag, value = rest[1]] = word.split('=')
    const option = command.options.find(({ long }) => long === flag)
    if (option === undefined) return `no flag ${flag}`
    if (!option.required) continue
    if (value === undefined && !whole) continue
    if (value === undefined) return `${flag} without its value`
    if (option.argChoices !== undefined && /^[a-z]+$/.test(value) && !option.argChoices.includes(value))
      return `${flag} cannot be ${value}`
    if (!word.includes('=')) rest = rest.slice(1)
  }
  const needed = command.arguments.filter(({ required }) => required).length
  if (whole && given.length < needed) return `${needed} arguments expected`
  const isOpen = command.arguments.some(({ variadic }) => variadic)
  return given.length > command.arguments.length && !isOpen ? `too many arguments: ${given.join(' ')}` : null
}

/** The words of a shell up to the end of a command; quoted ones are one. */
const wordsOf = (line: string): string[] =>
  (/^(?:"[^"]*"|'[^']*'|[^"'|&;)#<>]|<[\w ]+>)*/.exec(line)?.[0] ?? '').match(/(?:"[^"]*"|'[^']*'|\S)+/g) ?? []

t.test('every command line `weft …` of a page is one that weft accepts', async t => {
  let seen = 0
  const check = (page: string, line: string, whole: boolean) => {
    seen++
    const mistake = mistakeIn(wordsOf(line), whole)
    if (mistake !== null) t.fail(`${page}: weft ${line}: ${mistake}`)
  }
  const examples = (readdirSync(join(root, 'examples'), { recursive: true }) as string[])
    .filter(name => name.endsWith('.md') && !name.includes('node_modules'))
    .map(name => join('examples', name))
  for (const page of [...pages, ...examples]) {
    const text = read(page)
    for (const [, block = ''] of text.matchAll(/^```(?:sh|bash)\b.*\n([\s\S]*?)^```$/gm))
      for (const [, line = ''] of block.replaceAll('\\\n', ' ').matchAll(/(?:^|[;&|(]\s*|npx )weft +([^\n]*)/gm))
        check(page, line, true)
    const prose = text.replaceAll(/^```[\s\S]*?^```$/gm, '')
    for (const [, line = ''] of prose.matchAll(/`(?:[A-Z_]+=\S+ )*weft\s+([^`]*)`/g))
      check(page, line.replaceAll(/\s+/g, ' '), false)
  }
  t.ok(seen > 150, `${seen} command lines`)
})

t.test('every source file that a page names exists', async t => {
  for (const page of pages)
    for (const [, file = ''] of read(page).matchAll(
      /`((?:schemas|bus|store|edge|workers|handler|cli|scripts|test|examples)\/[\w./-]+)`/g,
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

t.test('docs/internals.md explains every folder in at most 30 rows', async t => {
  const rows = [...marked('docs/internals.md', 'folders').matchAll(/^\| (`.*?`) \| .+ \|$/gm)]
  const listed = rows.flatMap(([, names = '']) => [...names.matchAll(/`(.*?)`/g)].map(([, name = '']) => name))
  t.ok(rows.length <= 30, `${rows.length} rows`)
  t.same(listed.sort(), sourceFolders())
})

t.test('no folder has more than 35 files', async t => {
  const files = (folder: string) => readdirSync(join(root, folder), { withFileTypes: true }).filter(one => one.isFile())
  for (const folder of sourceFolders()) t.ok(files(folder).length <= 35, folder)
})

/** Folders with source files, below the five layers, scripts and examples. */
function sourceFolders(): string[] {
  const found = new Set<string>()
  for (const top of ['schemas', 'bus', 'store', 'edge', 'workers', 'handler', 'cli', 'scripts'])
    for (const file of readdirSync(join(root, top), { recursive: true }) as string[])
      if (file.endsWith('.ts')) found.add(dirname(join(top, file)))
  return [...found].sort()
}

t.test('docs/words.md has 40 terms', async t => {
  t.equal([...read('docs/words.md').matchAll(/^\| \*\*.+\*\* \| .+ \|$/gm)].length, 40)
})
