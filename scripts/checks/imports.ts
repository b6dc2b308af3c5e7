/**
 * The import check: which folder may import which, the floors of a folder, which library belongs to which folder, which
 * files read the environment or spell a subject, and no circle of imports. The rules are the tables below. The tests
 * call `checkImports`; `node dist/scripts/checks/imports.js [folder]` prints each violation and exits with 1.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize, relative } from 'node:path'
import { pathToFileURL } from 'node:url'
import { root } from '../../cli/root.js'

/** The first row whose path is a prefix of the file's path lists what the file may import, besides its own folder. */
const MAY_IMPORT: readonly [place: string, ...others: string[]][] = [
  ['schemas/'],
  ['bus/', 'schemas/'],
  // Starts the child process with the code of the application.
  ['edge/app/', 'workers/child/', 'edge/', 'bus/', 'schemas/'],
  ['edge/', 'bus/', 'schemas/'],
  ['store/', 'schemas/'],
  // User code runs here.
  ['workers/host/', 'workers/npm-package.ts', 'workers/pipe.ts', 'schemas/'],
  ['workers/graph/', 'workers/child/', 'workers/pipe.ts', 'bus/', 'schemas/'],
  // Two separate programs, started as children of the deploy worker.
  ['workers/deploy/process/instance.ts', 'workers/deploy/', 'workers/graph/main.ts', 'bus/', 'schemas/'],
  // A graph worker in a container.
  ['workers/deploy/replica.ts', 'workers/deploy/', 'workers/graph/main.ts', 'workers/child/', 'bus/', 'schemas/'],
  ['workers/deploy/process/probe-child.ts', 'workers/deploy/', 'workers/host/application.ts', 'schemas/'],
  ['workers/deploy/', 'workers/child/', 'workers/outbound.ts', 'bus/', 'schemas/'],
  ['workers/resources/', 'workers/outbound.ts', 'store/', 'bus/', 'schemas/'],
  // Used by two programs each.
  ['workers/child/', 'workers/outbound.ts', 'workers/pipe.ts', 'bus/', 'schemas/'],
  ['workers/npm-package.ts'],
  ['workers/pipe.ts', 'schemas/'],
  ['workers/outbound.ts'],
  // Runs in browsers, and knows the public API only.
  ['console/'],
  // Runs in the process of another server, whose libraries are its own.
  ['handler/', 'schemas/errors.ts'],
  ['cli/', 'schemas/', 'bus/', 'edge/', 'store/', 'workers/'],
  ['scripts/', 'cli/', 'schemas/', 'bus/', 'edge/', 'store/', 'workers/'],
  ['test/', 'handler/', 'scripts/', 'cli/', 'schemas/', 'bus/', 'edge/', 'store/', 'workers/'],
]

/** The floors of a folder, ground first: a file or subfolder imports from lower floors only. Each must have a floor. */
const FLOORS: { readonly [folder: string]: readonly (readonly string[])[] } = {
  'workers/resources/': [
    ['clock.ts', 'serialize.ts', 'skew.ts'],
    ['apps.ts', 'descriptions.ts', 'disk.ts', 'query.ts'],
    ['access.ts'],
    ['rows/'],
    ['encryption/'],
    ['keys/', 'vectors/', 'scheduling/', 'announcements.ts', 'workspace.ts', 'store-identity.ts'],
    ['context.ts'],
    ['oauth/'],
    ['state/', 'truncate.ts', 'metrics.ts'],
    ['runs/', 'system.ts'],
    ['crons/', 'checkpoints.ts', 'items/'],
    ['threads/', 'alarms.ts'],
    ['assistants/'],
    ['protocols/', 'deployments/', 'pool-calls.ts'],
    ['sweeper.ts'],
    ['main.ts'],
  ],
  'edge/': [
    ['routes.ts', 'watch.ts', 'wheel.ts', 'control-key.ts', 'keys.ts', 'library.ts'],
    ['http/'],
    ['app/'],
    ['guard.ts', 'files.ts'],
    ['context.ts'],
    ['readiness.ts', 'console-address.ts'],
    ['pages/'],
    ['calls.ts', 'system.ts', 'metrics.ts', 'logs.ts', 'openapi/', 'deployed.ts', 'upgrade.ts'],
    ['streams/', 'control/'],
    ['requests/'],
    ['protocols/', 'server.ts'],
    ['edge.ts'],
    ['main.ts'],
  ],
  'bus/': [
    [
      'answer.ts',
      'decode.ts',
      'envelope.ts',
      'figures.ts',
      'lane.ts',
      'log-pretty.ts',
      'log-stack.ts',
      'send-window.ts',
    ],
    ['sweep.ts', 'versions.ts', 'parts.ts', 'ring.ts'],
    ['log.ts', 'recent.ts'],
    ['connect.ts', 'lifecycle.ts'],
    ['mux.ts', 'otlp/', 'replicas.ts', 'rights.ts', 'seal.ts', 'tunnel.ts'],
    ['call.ts', 'clock.ts', 'logs.ts', 'metrics.ts', 'pool-users.ts', 'queue.ts', 'seek.ts', 'serve.ts', 'streams.ts'],
    ['follow.ts', 'stream-watch.ts'],
    ['events.ts', 'publish.ts'],
  ],
  'cli/': [
    ['root.ts', 'say.ts', 'user-error.ts', 'ports.ts', 'processes.ts', 'tied-process.ts', 'check-node.ts', 'terminal/'],
    ['data-folder.ts', 'fetch-pinned.ts', 'http-runtime.ts', 'keep-running.ts', 'read-settings.ts', 'weft.ts'],
    ['nats/'],
    ['commands/'],
    ['program.ts'],
    ['main.ts'],
  ],
  'handler/': [['types.ts'], ['server.ts'], ['forward.ts'], ['node.ts', 'web.ts'], ['handler.ts']],
  'workers/host/': [
    ['library/', 'limits.ts', 'output-marks.ts', 'spans.ts'],
    ['guards/'],
    ['render.ts', 'schemas/'],
    ['loading.ts', 'state.ts'],
    ['application.ts', 'streaming/'],
    ['app/', 'input.ts', 'port.ts'],
    ['storage/'],
    ['run-state.ts', 'update.ts'],
    ['failure.ts', 'pump.ts'],
    ['finish.ts'],
    ['run.ts'],
    ['call.ts'],
    ['server.ts'],
    ['main.ts'],
  ],
  'workers/graph/': [
    ['announce.ts', 'app-modules.ts', 'embedder.ts', 'held-time.ts', 'host-end.ts', 'required-parts.ts'],
    ['lease-client.ts', 'log-ring.ts', 'way-back.ts'],
    ['app-host.ts', 'run-signals.ts', 'user-interfaces.ts', 'app-files-child.ts', 'host-process.ts'],
    ['app-files.ts', 'ask-gate.ts', 'describer.ts', 'host-choice.ts', 'run-table.ts'],
    ['claims.ts', 'flow.ts', 'host-calls.ts', 'host-reports.ts', 'pool.ts', 'run-spans.ts'],
    ['hand-back.ts', 'host-events.ts', 'offers.ts', 'pools.ts'],
    ['misplaced.ts', 'stopping.ts'],
    ['host-asks.ts'],
    ['supervisor.ts'],
    ['app-calls.ts'],
    ['main.ts'],
  ],
  'workers/deploy/': [
    ['drained.ts', 'fault.ts', 'log.ts', 'nats-url.ts', 'server-address.ts', 'task-client.ts', 'wait.ts'],
    ['crashes.ts', 'driver.ts', 'fleet.ts', 'limit.ts', 'output-lines.ts', 'scaling.ts'],
    ['drivers.ts', 'images/', 'process/', 'replica.ts', 'scaler.ts'],
    ['docker/', 'kubernetes/', 'deployer.ts'],
    ['main.ts'],
  ],
  'console/src/': [
    ['env.d.ts'],
    ['api/'],
    ['ui/'],
    ['pages/'],
    // The list of pages.
    ['pages.tsx'],
    ['shell/'],
    ['app.tsx'],
    ['main.tsx'],
  ],
}

/** Libraries that only some folders may import. Tests may import all of them. */
const LIBRARIES: { [library: string]: readonly string[] } = {
  nats: ['bus/'],
  'nkeys.js': ['bus/'],
  pino: ['bus/'],
  'prom-client': ['bus/metrics.ts'],
  '@opentelemetry/api': ['bus/otlp/'],
  '@opentelemetry/sdk-trace': ['bus/otlp/traces.ts'],
  '@opentelemetry/resources': ['bus/otlp/collector.ts'],
  '@opentelemetry/exporter-trace-otlp-http': ['bus/otlp/traces.ts'],
  'uWebSockets.js': ['edge/'],
  libsql: ['store/'],
  mongodb: ['store/'],
  pg: ['store/', 'scripts/postgres/', 'scripts/bench/database.ts'],
  esbuild: ['workers/graph/', 'workers/host/app/', 'scripts/guide/', 'cli/commands/syntax.ts'],
  typia: ['schemas/'],
  oauth4webapi: ['workers/resources/oauth/'],
  tar: ['workers/deploy/process/unpack.ts', 'cli/commands/upload.ts'],
  'p-queue': ['workers/deploy/', 'workers/graph/', 'workers/resources/oauth/'],
  dockerode: ['workers/deploy/docker/'],
  '@kubernetes/client-node': ['workers/deploy/kubernetes/'],
  croner: ['workers/resources/crons/'],
  // The bench measures it without a server, as the limit of a machine.
  '@langchain/langgraph': ['workers/host/', 'scripts/bench/limit-main.ts'],
  '@langchain/core': ['workers/host/'],
  '@msgpack/msgpack': ['workers/host/'],
  // Loads the compiler: in the thread alone.
  'typescript-json-schema': ['workers/host/schemas/extract.ts'],
  react: ['console/'],
  'react-dom': ['console/'],
  wouter: ['console/'],
  marked: ['console/', 'scripts/guide/'],
  'highlight.js': ['scripts/guide/'],
  minisearch: ['scripts/guide/'],
  microdiff: ['console/'],
  '@dagrejs/dagre': ['console/'],
  // Who starts a program decides whose rights and which variables it gets.
  'node:child_process': [
    'cli/',
    'handler/server.ts',
    'scripts/',
    'workers/host/',
    ...['node', 'output', 'process', 'python', 'python-install', 'sandbox', 'start', 'user-file', 'uv'].map(
      name => `workers/child/${name}.ts`,
    ),
    ...['command', 'probe', 'replicas'].map(name => `workers/deploy/process/${name}.ts`),
    'workers/graph/app-files.ts',
    'workers/npm-package.ts',
  ],
  tap: [],
}

/** Folders and files that a program must not load, also not indirectly. `late`: what import() loads later is allowed. */
const NEVER_REACHES: readonly { start: string; rooms: readonly string[]; late: boolean }[] = [
  // User code runs here. The TypeScript compiler is loaded by a thread only: 0.25 s of CPU and 60 MB per host.
  { start: 'workers/host/main.ts', rooms: ['store/', 'bus/', 'workers/host/schemas/extract.ts'], late: false },
  { start: 'workers/graph/main.ts', rooms: ['store/'], late: false },
  { start: 'workers/deploy/main.ts', rooms: ['store/'], late: false },
  {
    start: 'edge/main.ts',
    rooms: ['store/', 'workers/graph/', 'workers/host/', 'workers/resources/', 'workers/deploy/'],
    late: false,
  },
  // The launcher starts in an instant and stays small.
  { start: 'cli/main.ts', rooms: ['bus/', 'edge/', 'workers/', 'store/'], late: true },
]

const READS_ENV = [
  /^(cli|scripts)\//,
  /^test\//,
  /(^|\/)main\.ts$/,
  // Its child has the environment of the server around.
  /^handler\/server\.ts$/,
  // Loaded with the program, before there are settings.
  /^edge\/http\/library\.ts$/,
  /^workers\/host\/(main|application|library\/(context|tuning))\.ts$/,
  /^workers\/child\/process\.ts$/,
  /^workers\/deploy\/process\/probe-child\.ts$/,
]
/** The server's permissions are patterns over all subjects. */
const SPELLS_SUBJECTS = [/^schemas\/subjects\.ts$/, /^bus\/rights\.ts$/, /^test\//]
/** A whole subject. Patterns with `*` and the prefix of a noun's calls do not match. */
const SUBJECT =
  /(['"`])((queue|chunk|live|end|ctl|event)\.(\$\{|[a-z]+\.[a-z_$])|(rpc|host)\.[^.'"`\s]+\.[a-z_$])[^'"`\s]*\1/g

/** A callback of the client itself runs unguarded inside its parser: only `link.subscribe` may pass one on. */
const SUBSCRIBES = [/^bus\/connect\.ts$/, /^test\//]
const SUBSCRIBE = /\b(nc|connection)\s*\.\s*(subscribe|request|requestMany)\b|\bas NatsConnection\b/g

/** Resource workers compare times that others have written: they have one clock, which is corrected. */
const READS_CLOCK = [/^(?!workers\/resources\/)/, /^workers\/resources\/clock\.ts$/]
const CLOCK = /\bDate\.now\(\)|\bnew Date\(\)/g

/**
 * Workers that start user code may run as root, and WEFT_HOST_USER can make a link of what they find in the folders of
 * applications. `files`: those that keep this in mind, or look into folders that this user cannot change.
 */
const STARTS_USER_CODE = /^workers\/(child|graph|deploy)\//
const GUARDED: readonly { why: string; pattern: RegExp; files: readonly string[] }[] = [
  {
    why: 'trees change their owner and are removed in workers/child/user-tree.ts only',
    pattern: /\b(?:[lf]?chown|lchmod)(?:Sync)?\(|\b(?:rm|rmdir|cp|readdir)(?:Sync)?\([^\n]*\brecursive\b/g,
    files: ['workers/child/user-tree.ts', 'workers/child/socket-folder.ts', 'workers/deploy/process/fetch.ts'],
  },
  {
    why: 'temporary folders are made where those of killed processes are removed',
    pattern: /\bmkdtemp(?:Sync)?\(/g,
    files: ['workers/child/socket-folder.ts', 'workers/child/uv.ts'],
  },
  {
    why: 'files of applications are read with the rights of their user, by workers/child/user-file.ts',
    pattern: /\breadFile(?:Sync)?\(|\bcreateReadStream\(/g,
    files: [
      'workers/child/user-file.ts',
      // Without another user, or by a process of that user.
      'workers/child/languages.ts',
      'workers/graph/app-modules.ts',
      // Not of an application.
      'workers/child/loading.ts',
      'workers/child/python-cache.ts',
      'workers/child/wheel.ts',
      'workers/deploy/docker/',
      'workers/deploy/main.ts',
      ...['builder', 'cgroups', 'credentials', 'leftovers', 'records'].map(name => `workers/deploy/process/${name}.ts`),
      // In trees that only we can change.
      ...['artefacts', 'describe', 'fetch'].map(name => `workers/deploy/process/${name}.ts`),
    ],
  },
]

interface Import {
  from: string
  line: number
  /** A path below the root ("bus/call.ts"), or a library's name. */
  target: string
  ours: boolean
  typeOnly: boolean
  /** import(): loaded when the call runs, not with the file. */
  late: boolean
}

/** The violations below `folder`, one line each. */
export function checkImports(folder: string = root): string[] {
  const files = Object.keys(Object.fromEntries(MAY_IMPORT)).flatMap(room => filesIn(folder, room.split('/')[0]!))
  const sources = new Map([...new Set(files)].map(file => [file, readFileSync(join(folder, file), 'utf8')]))
  const imports = new Map(
    [...sources].map(([file, source]) => [
      file,
      importsOf(file, source).map(one => ({ ...one, target: resolveIn(sources, one) })),
    ]),
  )
  const broken: string[] = []
  for (const [file, source] of sources) {
    for (const one of imports.get(file)!) {
      const why = one.ours ? (folderRefuses(one) ?? floorRefuses(one)) : libraryRefuses(one)
      if (why !== null) broken.push(`${file}:${one.line}: ${why}`)
    }
    if (!READS_ENV.some(rule => rule.test(file)))
      for (const line of linesOf(source, /\bprocess\.env\b/g))
        broken.push(`${file}:${line}: only a main reads process.env`)
    if (!SPELLS_SUBJECTS.some(rule => rule.test(file)))
      for (const line of linesOf(source, SUBJECT))
        broken.push(`${file}:${line}: a subject is spelled by schemas/subjects.ts only`)
    if (!SUBSCRIBES.some(rule => rule.test(file)))
      for (const line of linesOf(source, SUBSCRIBE))
        broken.push(`${file}:${line}: messages are received through link.subscribe only`)
    if (STARTS_USER_CODE.test(file))
      for (const { why, pattern, files } of GUARDED)
        if (!files.some(place => file.startsWith(place)))
          for (const line of linesOf(source, pattern)) broken.push(`${file}:${line}: ${why}`)
    if (!READS_CLOCK.some(rule => rule.test(file)))
      for (const line of linesOf(source, CLOCK)) broken.push(`${file}:${line}: resource workers read clock.now() only`)
  }
  for (const row of NEVER_REACHES) broken.push(...reaches(imports, row))
  broken.push(...circles(imports))
  return broken
}

/** The file of an import; those of the console have no extension. */
function resolveIn(sources: ReadonlyMap<string, string>, { target, ours }: Import): string {
  if (!ours || sources.has(target)) return target
  return ['.ts', '.tsx'].map(extension => target + extension).find(file => sources.has(file)) ?? target
}

function folderRefuses({ from, target }: Import): string | null {
  const row = MAY_IMPORT.find(([place]) => from.startsWith(place))
  if (row === undefined) return `no row of MAY_IMPORT covers ${from}`
  if (row.some(place => target.startsWith(place))) return null
  return `${row[0]} does not import ${target}`
}

function floorRefuses({ from, target }: Import): string | null {
  for (const [folder, floors] of Object.entries(FLOORS)) {
    if (!from.startsWith(folder)) continue
    const floorOf = (file: string) => floors.findIndex(floor => floor.some(place => file.startsWith(folder + place)))
    const own = floorOf(from)
    if (own === -1) return `${from} has no floor in ${folder}`
    if (!target.startsWith(folder)) return null
    const part = (file: string) => file.slice(folder.length).split('/')[0]
    if (part(from) !== part(target) && floorOf(target) >= own) return `${target} is not on a lower floor of ${folder}`
  }
  return null
}

function libraryRefuses({ from, target, typeOnly }: Import): string | null {
  const rooms = LIBRARIES[target]
  if (rooms === undefined || from.startsWith('test/') || rooms.some(room => from.startsWith(room))) return null
  if (typeOnly && target === 'typia') return null
  return `${target} belongs to ${rooms.join(', ') || 'test/'} only`
}

/** Import paths into forbidden folders; type imports do not count, because they do not exist at run time. */
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

/** Files that import each other in a circle; types count. One line for each group (Tarjan's algorithm). */
function circles(imports: Map<string, Import[]>): string[] {
  const found: string[] = []
  const index = new Map<string, number>()
  const low = new Map<string, number>()
  const stack: string[] = []
  function visit(file: string): void {
    index.set(file, index.size)
    low.set(file, index.get(file)!)
    stack.push(file)
    for (const { target, ours } of imports.get(file)!) {
      if (!ours || !imports.has(target)) continue
      if (!index.has(target)) {
        visit(target)
        low.set(file, Math.min(low.get(file)!, low.get(target)!))
      } else if (stack.includes(target)) low.set(file, Math.min(low.get(file)!, index.get(target)!))
    }
    if (low.get(file) !== index.get(file)) return
    const group = stack.splice(stack.indexOf(file))
    if (group.length > 1) found.push(`a circle of imports: ${group.sort().join(', ')}`)
  }
  for (const file of imports.keys()) if (!index.has(file)) visit(file)
  return found
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

/** The files below a folder, by their paths; `ending` is that of a language. */
export function filesIn(folder: string, room: string, ending = 'ts'): string[] {
  if (!existsSync(join(folder, room))) return []
  return readdirSync(join(folder, room), { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile() && (entry.name.endsWith(`.${ending}`) || entry.name.endsWith(`.${ending}x`)))
    .map(entry => relative(folder, join(entry.parentPath, entry.name)).replaceAll('\\', '/'))
    .filter(file => !file.includes('node_modules/') && !file.startsWith('test/apps/'))
}

const lineAt = (source: string, at: number): number => source.slice(0, at).split('\n').length

/** Lines of code that match the pattern; whole-line comments do not count. */
export function linesOf(source: string, pattern: RegExp): number[] {
  const lines = source.split('\n')
  return [...source.matchAll(pattern)]
    .map(({ index }) => lineAt(source, index))
    .filter(line => !/^\s*(\*|\/\/|\/\*|#)/.test(lines[line - 1]!))
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const broken = checkImports(process.argv[2] ?? root)
  for (const line of broken) process.stdout.write(`${line}\n`)
  process.exit(broken.length === 0 ? 0 : 1)
}
