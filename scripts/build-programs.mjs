/**
 * Bundles what processes and threads of Weft execute, with its libraries, into dist/programs/: a server loads 50 files
 * instead of 550, and starts with a third less CPU time (docs/decisions/cluster/044). All of Weft starts these files, the
 * tests too; run it after every compilation.
 */
import { existsSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { basename, join, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { bundleLibrary } from './bundle-library.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const dist = join(root, 'dist')
const programs = join(dist, 'programs')

/** Name and source of the programs of the server: they share files, and load what is imported late in its own file. */
const SERVER = {
  weft: 'cli/main',
  'roles-main': 'cli/commands/roles-main',
  replica: 'workers/deploy/process/instance',
}
/** Threads of the embedded store, in CommonJS: for an ES module a thread starts the loader of modules, too. */
const THREADS = {
  'sqlite-writer': 'store/sqlite/writer',
  'sqlite-reader': 'store/sqlite/reader',
  'sqlite-backup': 'store/sqlite/backup-thread',
}
/** Programs that load most of their code at once: a file each. */
const ALONE = {
  ranking: 'workers/resources/vectors/rank-thread',
  probe: 'workers/deploy/process/probe-child',
  host: 'workers/host/main',
  watchdog: 'workers/host/guards/watchdog-thread',
  'resolve-hook': 'workers/host/library/resolve-hook',
  'static-schemas': 'workers/host/schemas/extract-thread',
  'app-host': 'workers/host/app/main',
  'app-files': 'workers/graph/app-files-child',
  forward: 'workers/child/forward',
  handler: 'handler/handler',
}
/**
 * Native code, what a host shares with the application, compilers, clients that only some installations have, and CommonJS
 * that is imported late: esbuild keeps its default export only.
 */
const EXTERNAL = [
  'uWebSockets.js',
  'libsql',
  // Optional parts of pg.
  'pg-native',
  'pg-cloudflare',
  // typescript-json-schema loads it for a tsconfig.json of its own only.
  'ts-node',
  '@langchain/*',
  'esbuild',
  'tsx',
  '@kubernetes/client-node',
  'dockerode',
]

/** On the first line of a file, so that its lines keep their numbers. */
const OF_PATHS =
  "import { fileURLToPath as fileURLToPath$ } from 'node:url'; import { dirname as dirname$ } from 'node:path'; "

/** A module sees the URL of its own file, not that of the file into which it is bundled. */
const ownUrl = {
  name: 'own-url',
  setup({ onLoad }) {
    onLoad({ filter: /\.js$/ }, ({ path }) => {
      if (!path.startsWith(dist + sep)) return null
      const text = readFileSync(path, 'utf8')
      if (!text.includes('import.meta.')) return null
      const url = `new URL(${JSON.stringify(relative(programs, path).split(sep).join('/'))}, import.meta.url)`
      const contents = text
        .replaceAll('import.meta.url', `${url}.href`)
        .replaceAll('import.meta.dirname', `dirname$(fileURLToPath$(${url}))`)
      return { contents: OF_PATHS + contents }
    })
  },
}

/** The thread that reads types gets the file of the compiler with its work (workers/host/schemas/compiler.ts). */
const givenCompiler = {
  name: 'given-compiler',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^typescript$/ }, () => ({ path: 'typescript', namespace: 'given' }))
    onLoad({ filter: /.*/, namespace: 'given' }, () => ({
      contents: "module.exports = require(require('node:worker_threads').workerData.compiler)",
    }))
  },
}

/** For libraries in CommonJS. */
const REQUIRE =
  "import { createRequire as createRequire$ } from 'node:module'; const require = createRequire$(import.meta.url);"

/** `more`: options of esbuild beside those that all programs have. */
const bundle = (entries, more = {}) =>
  build({
    absWorkingDir: root,
    entryPoints: Object.entries(entries).map(([out, path]) => ({ in: join(dist, `${path}.js`), out })),
    outdir: programs,
    chunkNames: '[name]-[hash]',
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node20.19',
    external: EXTERNAL,
    plugins: [ownUrl, givenCompiler],
    // Beside the bundles, and not named in them: Node.js would read them at every start of a host.
    sourcemap: 'external',
    sourcesContent: false,
    legalComments: 'none',
    banner: { js: REQUIRE },
    metafile: true,
    logLevel: 'error',
    ...more,
  })

/** The folders of the packages of which the bundles contain code. */
const packagesOf = outputs =>
  new Set(
    outputs.flatMap(({ inputs }) =>
      Object.entries(inputs)
        .filter(([, { bytesInOutput }]) => bytesInOutput > 0)
        .flatMap(([path]) => packageOf(path) ?? []),
    ),
  )

/** The innermost package around the file: some contain others without their package.json. */
function packageOf(path) {
  const ends = [...path.matchAll(/node_modules\/(?:@[^/]+\/)?[^/]+/g)].map(({ 0: name, index }) => index + name.length)
  return ends.map(end => path.slice(0, end)).findLast(folder => existsSync(join(root, folder, 'package.json')))
}

/** Their licences ask for their text wherever their code is. */
function licenseOf(folder) {
  const { name, version, license } = JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8'))
  const files = readdirSync(join(root, folder)).filter(file => /^(licen[cs]e|copying|notice)/i.test(file))
  const texts = files.map(file => readFileSync(join(root, folder, file), 'utf8').trim())
  return [`${name} ${version} (${license})`, ...texts].join('\n\n')
}

/** The latest change of a compiled file, of these two, or of the installed packages. */
function changedAt() {
  const compiled = ['schemas', 'bus', 'store', 'edge', 'workers', 'handler', 'cli'].flatMap(folder =>
    readdirSync(join(dist, folder), { recursive: true })
      .filter(path => path.endsWith('.js'))
      .map(path => join(dist, folder, path)),
  )
  const own = ['build-programs.mjs', 'bundle-library.mjs'].map(name => join(root, 'scripts', name))
  const files = [...compiled, ...own, join(root, 'package-lock.json')]
  return Math.max(...files.map(file => statSync(file).mtimeMs))
}

/** The outputs of the library's bundle, which is kept while the installed packages are the same. */
async function library() {
  const folder = join(programs, LIBRARY)
  const kept = join(dist, '.library-outputs.json')
  const sources = ['package-lock.json', 'scripts/bundle-library.mjs'].map(name => statSync(join(root, name)).mtimeMs)
  if (existsSync(kept) && statSync(kept).mtimeMs > Math.max(...sources)) return JSON.parse(readFileSync(kept, 'utf8'))
  const outputs = await bundleLibrary(root, folder, REQUIRE)
  writeFileSync(kept, JSON.stringify(outputs))
  return outputs
}

/** Written last. */
const mark = join(programs, 'LICENSES.txt')
if (existsSync(mark) && statSync(mark).mtimeMs > changedAt()) process.exit()

const since = new Date()
const LIBRARY = 'library'
const built = await Promise.all([
  // ES modules of libraries first: a library in CommonJS that is imported late would have its default export only.
  bundle(SERVER, { splitting: true, mainFields: ['module', 'main'] }),
  bundle(ALONE),
  bundle(THREADS, { format: 'cjs', outExtension: { '.js': '.cjs' }, banner: {} }),
])
const bundles = built.map(({ metafile }) => metafile.outputs)
bundles.push(await library())
const outputs = bundles.flatMap(Object.entries)
// Not the whole folder before: a server that runs from it still imports the files that have not changed.
const made = new Set([basename(mark), LIBRARY, ...outputs.map(([path]) => basename(path))])
for (const file of readdirSync(programs)) if (!made.has(file)) rmSync(join(programs, file))
const licenses = [...packagesOf(outputs.map(([, output]) => output))].sort().map(licenseOf)
writeFileSync(mark, `${licenses.join(`\n\n${'-'.repeat(80)}\n\n`)}\n`)
// Files that were compiled meanwhile may not be in them.
utimesSync(mark, since, since)
