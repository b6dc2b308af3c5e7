/**
 * The room check: who may import whom, which library lives where, who reads the environment, who spells a subject
 * (style.md). Rows of data below; `node imports.js [folder]` prints what breaks them and ends with code 1.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize, relative } from 'node:path'
import { pathToFileURL } from 'node:url'
import { root } from './root.js'

/** The first row whose folder holds the file decides which of our folders it may import, besides its own. */
const MAY_IMPORT: readonly [folder: string, ...others: string[]][] = [
  ['schemas/'],
  ['bus/', 'schemas/'],
  ['edge/', 'bus/', 'schemas/'],
  ['store/', 'schemas/'],
  ['workers/graph/', 'workers/', 'bus/', 'schemas/'],
  ['workers/deploy/', 'workers/', 'bus/', 'schemas/'],
  ['workers/', 'store/', 'bus/', 'schemas/'],
  ['scripts/', 'schemas/', 'bus/', 'edge/', 'store/', 'workers/'],
  ['test/', 'scripts/', 'schemas/', 'bus/', 'edge/', 'store/', 'workers/'],
]

/** Libraries that live in some rooms only. Tests may use all of them. */
const LIBRARIES: { [library: string]: readonly string[] } = {
  nats: ['bus/'],
  pino: ['bus/'],
  'uWebSockets.js': ['edge/'],
  libsql: ['store/'],
  mongodb: ['store/'],
  typia: ['schemas/'],
  croner: ['workers/'],
  // The bench measures it alone, as the limit that a server can reach.
  '@langchain/langgraph': ['workers/graph/', 'scripts/bench/limit-main.ts'],
  '@langchain/core': ['workers/graph/'],
  tap: [],
}

/** What must never be loaded together, also not over several files. `late`: what import() loads later is fine. */
const NEVER_REACHES: readonly { start: string; rooms: readonly string[]; late: boolean }[] = [
  // User code runs here.
  { start: 'workers/graph/host.ts', rooms: ['store/', 'bus/'], late: false },
  { start: 'workers/graph/main.ts', rooms: ['store/'], late: false },
  { start: 'workers/deploy/main.ts', rooms: ['store/'], late: false },
  { start: 'edge/main.ts', rooms: ['store/', 'workers/'], late: false },
  // The launcher starts in an instant and stays small.
  { start: 'scripts/weft.ts', rooms: ['bus/', 'edge/', 'workers/', 'store/'], late: true },
]

const READS_ENV = [
  /^scripts\//,
  /^test\//,
  /(^|\/)main\.ts$/,
  /^workers\/graph\/(host[\w-]*|application)\.ts$/,
  /^workers\/deploy\/process\/probe-child\.ts$/,
]
/** The server's permissions are patterns over all subjects. */
const SPELLS_SUBJECTS = [/^schemas\/subjects\.ts$/, /^scripts\/nats-config\.ts$/, /^test\//]
/** A whole subject. Patterns with `*` (what a stream holds) and what a noun is served under are none. */
const SUBJECT =
  /(['"`])((queue|chunk|live|end|ctl|event)\.(\$\{|[a-z]+\.[a-z_$])|(rpc|host)\.[^.'"`\s]+\.[a-z_$])[^'"`\s]*\1/g

interface Import {
  from: string
  line: number
  /** A path below the root ("bus/call.ts"), or a library's name. */
  target: string
  ours: boolean
  typeOnly: boolean
  /** import(): loaded when it is reached, not with the file. */
  late: boolean
}

/** Everything below `folder` that breaks a rule, one line each. */
export function checkImports(folder: string = root): string[] {
  const files = Object.keys(Object.fromEntries(MAY_IMPORT)).flatMap(room => filesIn(folder, room.split('/')[0]!))
  const sources = new Map([...new Set(files)].map(file => [file, readFileSync(join(folder, file), 'utf8')]))
  const imports = new Map([...sources].map(([file, source]) => [file, importsOf(file, source)]))
  const broken: string[] = []
  for (const [file, source] of sources) {
    for (const one of imports.get(file)!) {
      const why = one.ours ? roomRefuses(one) : libraryRefuses(one)
      if (why !== null) broken.push(`${file}:${one.line}: ${why}`)
    }
    if (!READS_ENV.some(rule => rule.test(file)))
      for (const line of linesOf(source, /\bprocess\.env\b/g))
        broken.push(`${file}:${line}: only a main reads process.env`)
    if (!SPELLS_SUBJECTS.some(rule => rule.test(file)))
      for (const line of linesOf(source, SUBJECT))
        broken.push(`${file}:${line}: a subject is spelled by schemas/subjects.ts only`)
  }
  for (const row of NEVER_REACHES) broken.push(...reaches(imports, row))
  return broken
}

function roomRefuses({ from, target, typeOnly }: Import): string | null {
  const row = MAY_IMPORT.find(([folder]) => from.startsWith(folder))
  if (row === undefined) return null
  if (row.some(folder => target.startsWith(folder))) return null
  // What the port of the store says is a shape: workers that never open the store may speak of it.
  if (typeOnly && target === 'store/port.ts' && from.startsWith('workers/')) return null
  return `${row[0]} does not import ${target}`
}

function libraryRefuses({ from, target, typeOnly }: Import): string | null {
  const rooms = LIBRARIES[target]
  if (rooms === undefined || from.startsWith('test/') || rooms.some(room => from.startsWith(room))) return null
  if (typeOnly && target === 'typia') return null
  return `${target} lives in ${rooms.join(', ') || 'test/'} only`
}

/** Ways into rooms that must not be reached; types do not count, they are gone at run time. */
function reaches(
  imports: Map<string, Import[]>,
  { start, rooms, late: lateIsFine }: (typeof NEVER_REACHES)[number],
): string[] {
  const seen = new Map<string, string>([[start, start]])
  const broken: string[] = []
  for (const [file, way] of seen) {
    for (const { target, ours, typeOnly, late } of imports.get(file) ?? []) {
      if (!ours || typeOnly || (late && lateIsFine) || seen.has(target)) continue
      const longer = `${way} → ${target}`
      seen.set(target, longer)
      if (rooms.some(room => target.startsWith(room))) broken.push(`${start} reaches ${target}: ${longer}`)
    }
  }
  return broken
}

/** The imports of a file. The code is formatted, so a statement begins its line. */
export function importsOf(from: string, source: string): Import[] {
  const found: Import[] = []
  const add = (at: number, specifier: string, typeOnly: boolean, late: boolean) => {
    const ours = specifier.startsWith('.')
    const target = ours
      ? normalize(join(dirname(from), specifier))
          .replaceAll('\\', '/')
          .replace(/\.js$/, '.ts')
      : specifier.replace(/^((?:@[^/]+\/)?[^/]+).*$/, '$1')
    found.push({ from, line: lineAt(source, at), target, ours, typeOnly, late })
  }
  for (const match of source.matchAll(/^(?:import|export)(\s+type\b)?([^;'"]*?\sfrom)?\s*['"]([^'"]+)['"]/gm)) {
    const names = /\{([^}]*)\}/.exec(match[2] ?? '')?.[1]
    const allTypes =
      names !== undefined && !/^\s*\w/.test(match[2]!) && names.split(',').every(name => /^\s*(type\s|$)/.test(name))
    add(match.index, match[3]!, match[1] !== undefined || allTypes, false)
  }
  for (const match of source.matchAll(/\bimport\(\s*['"]([^'"]+)['"]\s*\)(\.\w+)?/g)) {
    // `import('./x.js').T` in a type position is rare; it counts as an import.
    add(match.index, match[1]!, false, true)
  }
  return found
}

function filesIn(folder: string, room: string): string[] {
  if (!existsSync(join(folder, room))) return []
  return readdirSync(join(folder, room), { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile() && entry.name.endsWith('.ts'))
    .map(entry => relative(folder, join(entry.parentPath, entry.name)).replaceAll('\\', '/'))
    .filter(file => !file.includes('node_modules/') && !file.startsWith('test/apps/'))
}

const lineAt = (source: string, at: number): number => source.slice(0, at).split('\n').length

/** Lines where the pattern stands in code; whole-line comments do not count. */
function linesOf(source: string, pattern: RegExp): number[] {
  const lines = source.split('\n')
  return [...source.matchAll(pattern)]
    .map(({ index }) => lineAt(source, index))
    .filter(line => !/^\s*(\*|\/\/|\/\*)/.test(lines[line - 1]!))
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const broken = checkImports(process.argv[2] ?? root)
  for (const line of broken) process.stdout.write(`${line}\n`)
  process.exit(broken.length === 0 ? 0 : 1)
}
