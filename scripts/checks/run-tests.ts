/**
 * Runs what checks the project: linter, tests under tap, those of the API and of faults once more on MongoDB, the
 * published suite for checkpointers under vitest (on both stores). Counts the tests that were really executed; a runner
 * that reports none fails. The last line is "N passed, N failed".
 */
import { spawn } from 'node:child_process'
import { createWriteStream, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { parseArgs } from 'node:util'
import { startMongoProcess } from '../mongo/process.js'
import { findMongo } from '../mongo/server.js'
import { findNatsServer } from '../nats/server.js'
import { root } from '../root.js'
import { type Counts, type FileReport, tapReader } from './tap-report.js'

type Runner = { name: string; run(): Promise<Counts | null> }

const runners: readonly Runner[] = [
  { name: 'lint', run: lint },
  {
    name: 'tap',
    run: () =>
      tap(
        files(() => true),
        {},
      ),
  },
  { name: 'tap on MongoDB', run: onMongo },
  { name: 'suite', run: suite },
]

/** Settings of the person's shell are not for the servers that tests start. MONGODB_URL goes by another name to tests. */
const FOREIGN =
  /^(WEFT_(?!NATS_SERVER$)|NATS_URL$|MONGODB_URL$|PORT$|LOG_LEVEL$|HTTP_MAX_|LANGGRAPH_API_URL$|CORS_|N_JOBS_)/
const env: { [name: string]: string | undefined } = {
  ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !FOREIGN.test(name))),
  ...(process.env.MONGODB_URL ? { WEFT_TEST_MONGODB_URL: process.env.MONGODB_URL } : {}),
}
/** What needs a browser on this machine. */
const BROWSER = 'dist/test/browser/'
const out = join(root, '.tap')
/** What needs a MongoDB server: left out with --embedded-only. */
const MONGO = /\bmongo[\w-]*\.test\.js$/
/** What runs a second time, on MongoDB. */
const ON_MONGO = /^dist\/test\/(api|contract|faults)\//
/** But for these. */
const ONCE: { readonly [file: string]: string } = {
  'faults/store-locked': 'locks the file of the embedded store',
  'faults/host-crashes':
    'harms hosts only: what becomes of their runs in a store is in lease-loss, full-restart, paused-worker',
  'faults/mongo': 'has servers of its own',
  'faults/mongo-crons': 'has a server of its own',
}
/**
 * How many files run at a time. Most wait for most of their time. Those of the first row keep the cores busy, or measure
 * how something else bears it.
 */
const GROUPS: readonly [files: RegExp, jobs: number][] = [
  [/^dist\/test\/(browser|deploy|faults)\/|\b(bench|large-payloads)\.test\.js$/, 2],
  [/./, 4],
]
/** So many files of a pass, at most, are asked once more when they failed. */
const SECOND_HEARINGS = 3
/** What failed first, of those that were asked once more. */
const heardTwice: string[] = []
const {
  only,
  'without-browser': without = false,
  'embedded-only': embedded = false,
} = parseArgs({
  options: { only: { type: 'string' }, 'without-browser': { type: 'boolean' }, 'embedded-only': { type: 'boolean' } },
}).values
const say = (line: string) => void process.stdout.write(`${line}\n`)
const nameOf = (file: string) => file.slice('dist/test/'.length, -'.test.js'.length)
const bin = (path: string) => join(root, 'node_modules', path)

/** Null = not meant by --only. The linter has no tests: it adds a failure or nothing. */
async function lint(): Promise<Counts | null> {
  if (only !== undefined) return null
  const code = await inherit(process.execPath, [bin('@biomejs/biome/bin/biome'), 'check', '.'])
  return { passed: 0, failed: code === 0 ? 0 : 1, skipped: 0 }
}

/** The compiled test files that are meant, and pass this test. */
const files = (meant: (file: string) => boolean): string[] =>
  readdirSync(join(root, 'dist/test'), { recursive: true, encoding: 'utf8' })
    .map(file => `dist/test/${file.replaceAll('\\', '/')}`)
    .filter(
      file =>
        file.endsWith('.test.js') &&
        !(without && file.startsWith(BROWSER)) &&
        !(embedded && MONGO.test(file)) &&
        (only === undefined || file.includes(only)) &&
        meant(file),
    )
    .sort()

/** One server for all of them; each test has databases of its own. */
async function onMongo(): Promise<Counts | null> {
  const again = files(file => ON_MONGO.test(file) && !(nameOf(file) in ONCE))
  if (embedded || again.length === 0) return null
  const { url, stop } = await mongo()
  try {
    return await tap(again, { WEFT_TEST_STORE: 'mongo', WEFT_TEST_MONGODB_URL: url })
  } finally {
    await stop()
  }
}

/** The server of MONGODB_URL, or one that is started. Throws one sentence that says how to get one. */
async function mongo(): Promise<{ url: string; stop(): Promise<void> }> {
  say('getting a MongoDB server')
  const way = await findMongo({ log: line => say(`  ${line}`) })
  if (way.kind === 'url') return { url: way.url, stop: async () => {} }
  say(`  ${way.kind}`)
  const server = await startMongoProcess(way)
  return { url: server.url('weft-test'), stop: server.stop }
}

/** Null = nothing is meant. `more`: variables beside those that are passed on. */
async function tap(files: readonly string[], more: { [name: string]: string }): Promise<Counts | null> {
  if (only !== undefined && files.length === 0) return null
  say(`getting a NATS server`)
  say(`  ${await findNatsServer({ log: line => say(`  ${line}`) })}`)
  const reports = new Map<string, FileReport>()
  const read = tapReader(report => {
    reports.set(report.file, report)
    const { file, passed, failed, skipped, seconds, failures } = report
    say(
      `${failed > 0 ? 'FAIL' : 'ok  '} ${file.replace('dist/', '')}: ${passed} passed${failed > 0 ? `, ${failed} failed` : ''}${skipped > 0 ? `, ${skipped} skipped` : ''} (${seconds.toFixed(1)} s)`,
    )
    for (const text of failures) say(text.replace(/^/gm, '     '))
  })
  mkdirSync(out, { recursive: true })
  const log = createWriteStream(join(out, more.WEFT_TEST_STORE ? 'report-mongo.tap' : 'report.tap'))
  const round = (some: readonly string[], jobs: number) =>
    runTap(some, jobs, more, line => {
      log.write(`${line}\n`)
      read(line)
    })
  let code: number | null = 0
  for (const [i, [, jobs]] of GROUPS.entries()) {
    const group = files.filter(file => GROUPS.findIndex(([those]) => those.test(file)) === i)
    // A file that runs into its timeout may end tap before the others had their turn: they get it in a further run.
    for (let left = group; left.length > 0; ) {
      code = (await round(left, jobs)) || code
      const next = left.filter(file => !reports.has(file))
      if (next.length === left.length) break
      left = next
    }
  }
  // Whole clusters share the cores, so a test may fail for want of time. Very few failures get a second hearing, with the
  // machine for themselves; they are named once more at the end, because a race may hide there, too.
  const failed = files.filter(file => (reports.get(file)?.failed ?? 0) > 0)
  if (failed.length > 0 && failed.length <= SECOND_HEARINGS && files.length > failed.length) {
    say(`once more, alone: ${failed.map(nameOf).join(', ')}`)
    for (const file of failed) {
      const { failures } = reports.get(file)!
      heardTwice.push(`${nameOf(file)}${more.WEFT_TEST_STORE ? ' on MongoDB' : ''}: ${failures[0]?.split('\n')[0]}`)
      reports.delete(file)
    }
    code = await round(failed, 1)
  }
  log.end()
  const sum: Counts = { passed: 0, failed: 0, skipped: 0 }
  for (const report of reports.values())
    for (const key of ['passed', 'failed', 'skipped'] as const) sum[key] += report[key]
  for (const file of files) {
    if (reports.has(file)) continue
    sum.failed++
    say(`FAIL ${file.replace('dist/', '')}: it did not report an end`)
  }
  if (code !== 0 && sum.failed === 0) {
    sum.failed++
    say(`FAIL tap ended with code ${code}; see its report in .tap`)
  }
  return sum
}

async function runTap(
  files: readonly string[],
  jobs: number,
  more: { [name: string]: string },
  onLine: (line: string) => void,
): Promise<number | null> {
  const child = spawn(process.execPath, [bin('tap/dist/esm/run.mjs'), '--reporter=tap', `--jobs=${jobs}`, ...files], {
    cwd: root,
    env: { ...env, ...more },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = new Promise<number | null>((done, failed) => child.once('error', failed).once('close', done))
  for await (const line of createInterface({ input: child.stdout })) onLine(line)
  return ended
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
  if (only !== undefined && !'suite'.includes(only)) return null
  const file = join(out, 'suite.json')
  rmSync(file, { force: true })
  const args = ['run', '--config', 'test/saver/vitest.config.mjs', '--reporter=json', `--outputFile=${file}`]
  if (embedded) env.WEFT_TEST_EMBEDDED_ONLY = '1'
  const code = await inherit(process.execPath, [bin('vitest/vitest.mjs'), ...args])
  const report = JSON.parse(readFileSync(file, 'utf8')) as VitestReport
  for (const { message, assertionResults } of report.testResults) {
    if (message) say(`FAIL ${message}`)
    for (const { status, fullName, failureMessages } of assertionResults)
      if (status === 'failed') say(`FAIL ${fullName}\n${failureMessages.join('\n').replace(/^/gm, '     ')}`)
  }
  const { numPassedTests: passed, numFailedTests: failed, numPendingTests: skipped } = report
  return { passed, failed: code !== 0 && failed === 0 ? 1 : failed, skipped }
}

function inherit(command: string, args: string[]): Promise<number | null> {
  const child = spawn(command, args, { cwd: root, env, stdio: ['ignore', 'inherit', 'inherit'] })
  return new Promise((done, failed) => child.once('error', failed).once('close', done))
}

async function main(): Promise<void> {
  const sum: Counts = { passed: 0, failed: 0, skipped: 0 }
  for (const { name, run } of runners) {
    const since = Date.now()
    const counts = await run().catch(error => {
      say(`FAIL ${name}: ${(error as Error).message}`)
      return { passed: 0, failed: 1, skipped: 0 }
    })
    if (counts === null) continue
    if (name !== 'lint' && counts.passed + counts.failed === 0) {
      say(`FAIL ${name} reported no tests`)
      counts.failed++
    }
    for (const key of ['passed', 'failed', 'skipped'] as const) sum[key] += counts[key]
    say(
      `== ${name}: ${counts.failed > 0 ? `${counts.failed} failed` : 'fine'}${counts.passed > 0 ? `, ${counts.passed} passed` : ''} (${((Date.now() - since) / 1000).toFixed(1)} s)\n`,
    )
  }
  if (sum.passed + sum.failed === 0) {
    say(`no test matches "${only}"`)
    sum.failed++
  }
  if (sum.skipped > 0) say(`${sum.skipped} skipped`)
  if (heardTwice.length > 0) say(`asked twice, because they failed beside others:\n  ${heardTwice.join('\n  ')}`)
  say(`${sum.passed} passed, ${sum.failed} failed`)
  process.exit(sum.failed > 0 ? 1 : 0)
}

await main()
