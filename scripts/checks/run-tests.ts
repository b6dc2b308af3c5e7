/**
 * Runs every check of the project: types, the linter, the test files (those in the table of test-files.ts also on MongoDB and PostgreSQL), and the
 * published suite for checkpointers under vitest, and the checks of the Python host. The last line is "N passed, N failed".
 */
import { spawn } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { findNatsServer } from '../../cli/nats/server.js'
import { root } from '../../cli/root.js'
import { startMongoProcess } from '../mongo/process.js'
import { findMongo } from '../mongo/server.js'
import { startPostgresProcess } from '../postgres/process.js'
import { findPostgres } from '../postgres/server.js'
import { isForeign } from './foreign-settings.js'
import { checkPython } from './python.js'
import { type FileReport, fileJobs, type Job, type Limits, openFreeCores, runTogether } from './run-files.js'
import { type SharedServer, startSharedServer } from './shared-server.js'
import type { Counts } from './tap-report.js'
import { isSelected, type Server, type TestStore, testFiles } from './test-files.js'

/** Null = --only selects nothing of it. */
type Runner = { name: string; run(): Promise<Counts | null> }

/** They run beside the test files: each is a process, or one after the other, that keeps a core busy. */
const besideTap: readonly Runner[] = [
  { name: 'types', run: () => check(join(root, 'scripts/types.mjs')) },
  { name: 'lint', run: () => check(bin('@biomejs/biome/bin/biome'), 'check', '.') },
  { name: 'host-python', run: () => (isSelected('host-python', only) ? checkPython(say) : Promise.resolve(null)) },
  { name: 'suite', run: suite },
]

const {
  only,
  jobs,
  'without-browser': withoutBrowser = false,
  'embedded-only': embeddedOnly = false,
  'all-stores': allStores = false,
} = parseArgs({
  options: {
    only: { type: 'string' },
    jobs: { type: 'string' },
    'without-browser': { type: 'boolean' },
    'embedded-only': { type: 'boolean' },
    'all-stores': { type: 'boolean' },
  },
}).values
/**
 * Files run at the same time as long as they, and what else the machine does, leave something of the cores free: what a file
 * starts comes in bursts. More than these jobs would wait for each other, so that a call of a test takes seconds at times.
 * Two files for each core run in any case: most wait for timers most of their time. With --jobs only the number counts.
 */
const limits: Limits =
  jobs === undefined
    ? { jobs: 10, least: 2 * availableParallelism(), cores: openFreeCores(0.05) }
    : { jobs: Number(jobs) || 1 }

/** Replaced in a run of everything, so that it does not grow. */
const compiled = join(root, '.tap/compiled')
/** MONGODB_URL and DATABASE_URI have other names in tests. */
const env: { [name: string]: string | undefined } = {
  ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !isForeign(name))),
  ...(process.env.MONGODB_URL ? { WEFT_TEST_MONGODB_URL: process.env.MONGODB_URL } : {}),
  ...(process.env.DATABASE_URI ? { WEFT_TEST_DATABASE_URI: process.env.DATABASE_URI } : {}),
  // Hundreds of processes load the same files: Node.js (22 and newer) and Python keep what they have compiled.
  NODE_COMPILE_CACHE: compiled,
  PYTHONDONTWRITEBYTECODE: undefined,
  // Nobody looks at those of a run of everything.
  ...(only === undefined ? {} : { WEFT_TEST_SCREENSHOTS: '1' }),
}
/**
 * The embedded store is tested on Node.js 22, with graph hosts on the Node.js that ./scripts/start gives them; database
 * servers on the Node.js of this machine with hosts on the same, as after an installation with npm.
 */
const nodeOf = (store: TestStore) => (store === 'sqlite' ? process.env.WEFT_TEST_NODE : undefined) ?? process.execPath
const hostNode = (store: TestStore) =>
  store !== 'sqlite' || !process.env.WEFT_NEWEST_NODE ? {} : { WEFT_NEWEST_NODE: process.env.WEFT_NEWEST_NODE }
/** The output of test files: TAP and stderr. */
const out = join(root, only === undefined ? '.tap/files' : '.tap/some-files')
const failedFiles: string[] = []
const say = (line: string) => void process.stdout.write(`${line}\n`)
const bin = (path: string) => join(root, 'node_modules', path)
const indent = (text: string) => text.replace(/^/gm, '     ')

/** A check has no tests: it adds a failure or nothing. */
async function check(...args: string[]): Promise<Counts | null> {
  if (only !== undefined) return null
  const code = await run(process.execPath, args)
  return { passed: 0, failed: code === 0 ? 0 : 1, skipped: 0 }
}

async function tap(): Promise<Counts | null> {
  const files = testFiles({ only, withoutBrowser, embeddedOnly, allStores })
  if (only !== undefined && files.length === 0) return null
  say('getting a NATS server')
  say(`  ${await findNatsServer({ log: line => say(`  ${line}`) })}`)
  const isNeeded = (server: Server) => files.some(({ needs }) => needs.includes(server))
  const mongo = isNeeded('mongo') ? await startMongo() : null
  const postgres = isNeeded('postgres') ? await startPostgres() : null
  const databases = { mongo, postgres }
  const sum: Counts = { passed: 0, failed: 0, skipped: 0 }
  rmSync(out, { recursive: true, force: true })
  if (only === undefined) rmSync(compiled, { recursive: true, force: true })
  const servers = new Map<TestStore, SharedServer>()
  try {
    for (const store of ['sqlite', 'mongo', 'postgres'] as const) {
      if (files.filter(file => file.shared && file.store === store).length < 2) continue
      const database = store === 'sqlite' ? '' : databases[store]!.shared
      if (database === null) continue
      const log = join(out, `shared-server-${store}`)
      const urls = {
        MONGODB_URL: store === 'mongo' ? database : '',
        DATABASE_URI: store === 'postgres' ? database : '',
      }
      servers.set(store, await startSharedServer(log, nodeOf(store), { ...env, ...hostNode(store), ...urls }))
    }
    const jobs = fileJobs(files, {
      out,
      nodeOf: ({ store }) => nodeOf(store),
      envOf: ({ store, needs, shared }) => ({
        ...env,
        ...hostNode(store),
        ...(store === 'sqlite' ? {} : { WEFT_TEST_STORE: store }),
        ...(needs.includes('mongo') ? { WEFT_TEST_MONGODB_URL: mongo!.url } : {}),
        ...(needs.includes('postgres') ? { WEFT_TEST_DATABASE_URI: postgres!.url } : {}),
        ...(shared && servers.has(store) ? { WEFT_TEST_SERVER: servers.get(store)!.url } : {}),
      }),
      onReport(report) {
        show(report)
        for (const key of ['passed', 'failed', 'skipped'] as const) sum[key] += report[key]
      },
    })
    const checks = besideTap.map((runner): Job => ({ cores: 1, run: () => report(runner) }))
    await runTogether([...(only === undefined ? checks : []), ...jobs], limits)
    for (const { ended } of servers.values())
      if (ended() !== null) {
        say(`FAIL ${ended()}`)
        sum.failed++
      }
  } finally {
    for (const server of servers.values()) await server.stop()
    await mongo?.stop()
    await postgres?.stop()
  }
  return sum
}

function show({ name, passed, failed, skipped, seconds, failures, tail }: FileReport): void {
  const counts = [`${passed} passed`, failed > 0 && `${failed} failed`, skipped > 0 && `${skipped} skipped`]
  say(`${failed > 0 ? 'FAIL' : 'ok  '} ${name}: ${counts.filter(Boolean).join(', ')} (${seconds.toFixed(1)} s)`)
  for (const text of failures) say(indent(text))
  if (tail.length > 0) say(indent(`the last lines of its stderr (all of it is in .tap/files):\n${tail.join('\n')}`))
  if (failed > 0) failedFiles.push(name)
}

/**
 * The server of MONGODB_URL, or one that is started; each test file has its own databases. `shared` is the database of the
 * shared server: none on a server that is not ours, where it would stay.
 */
async function startMongo(): Promise<{ url: string; shared: string | null; stop(): Promise<void> }> {
  say('getting a MongoDB server')
  const way = await findMongo({ log: line => say(`  ${line}`) })
  if (way.kind === 'url') return { url: way.url, shared: null, stop: async () => {} }
  say(`  ${way.kind}`)
  const server = await startMongoProcess(way)
  return { url: server.url('weft-test'), shared: server.url('weft-test-shared'), stop: server.stop }
}

/** Like startMongo. */
async function startPostgres(): Promise<{ url: string; shared: string | null; stop(): Promise<void> }> {
  say('getting a PostgreSQL server')
  const way = findPostgres()
  if (way.kind === 'url') return { url: way.url, shared: null, stop: async () => {} }
  say(`  ${way.name}`)
  // Many files use it at the same time, and their data is not needed after a crash of the machine.
  const server = await startPostgresProcess(way, { fsync: 'off', max_connections: '400' })
  await server.create('weft_test_shared')
  return { url: server.url('postgres'), shared: server.url('weft_test_shared'), stop: server.stop }
}

interface VitestReport {
  numPassedTests: number
  numFailedTests: number
  numPendingTests: number
  testResults: {
    message: string
    assertionResults: { status: string; fullName: string; failureMessages: string[] }[]
  }[]
}

async function suite(): Promise<Counts | null> {
  if (!isSelected('suite', only)) return null
  const file = join(root, '.tap/suite.json')
  rmSync(file, { force: true })
  const args = ['run', '--config', 'test/saver/vitest.config.mjs', '--reporter=json', `--outputFile=${file}`]
  const code = await run(process.execPath, [bin('vitest/vitest.mjs'), ...args], {
    ...env,
    ...(embeddedOnly ? { WEFT_TEST_EMBEDDED_ONLY: '1' } : {}),
  })
  const report = JSON.parse(readFileSync(file, 'utf8')) as VitestReport
  for (const { message, assertionResults } of report.testResults) {
    if (message) say(`FAIL ${message}`)
    for (const { status, fullName, failureMessages } of assertionResults)
      if (status === 'failed') say(`FAIL ${fullName}\n${indent(failureMessages.join('\n'))}`)
  }
  const { numPassedTests: passed, numFailedTests: failed, numPendingTests: skipped } = report
  return { passed, failed: code !== 0 && failed === 0 ? 1 : failed, skipped }
}

function run(command: string, args: string[], itsEnv = env): Promise<number | null> {
  const child = spawn(command, args, { cwd: root, env: itsEnv, stdio: ['ignore', 'inherit', 'inherit'] })
  return new Promise((done, failed) => child.once('error', failed).once('close', done))
}

const total: Counts = { passed: 0, failed: 0, skipped: 0 }
const reported = new Set<Runner>()

/** Runs it, adds what it counted and says its result, once. */
async function report(runner: Runner): Promise<void> {
  if (reported.has(runner)) return
  reported.add(runner)
  const { name } = runner
  const since = Date.now()
  const counts = await runner.run().catch(error => {
    say(`FAIL ${name}: ${(error as Error).message}`)
    return { passed: 0, failed: 1, skipped: 0 }
  })
  if (counts === null) return
  if (name !== 'types' && name !== 'lint' && counts.passed + counts.failed + counts.skipped === 0) {
    say(`FAIL ${name} reported no tests`)
    counts.failed++
  }
  if (counts.failed > 0 && name !== 'tap') failedFiles.push(name)
  for (const key of ['passed', 'failed', 'skipped'] as const) total[key] += counts[key]
  const result = counts.failed > 0 ? `${counts.failed} failed` : 'fine'
  const passed = counts.passed > 0 ? `, ${counts.passed} passed` : ''
  say(`== ${name}: ${result}${passed} (${((Date.now() - since) / 1000).toFixed(1)} s)`)
}

async function main(): Promise<void> {
  mkdirSync(join(root, '.tap'), { recursive: true })
  // A developer may have compiled without it, and the servers of tests would be older than the tests.
  if ((await run(process.execPath, [join(root, 'scripts/build-programs.mjs')])) !== 0)
    throw new Error('the programs cannot be bundled: see the messages above')
  await report({ name: 'tap', run: tap })
  // Those that did not run beside it: --only selects them alone, or no server could be started.
  for (const runner of besideTap) await report(runner)
  if (total.passed + total.failed === 0) {
    say(`no test matches "${only}"`)
    total.failed++
  }
  if (total.skipped > 0) say(`${total.skipped} skipped`)
  if (failedFiles.length > 0) say(`failed: ${failedFiles.join(', ')}`)
  say(`${total.passed} passed, ${total.failed} failed`)
  process.exit(total.failed > 0 ? 1 : 0)
}

await main()
