/**
 * Runs test files, each in a separate process, several at a time. The TAP output and stderr of each are written below
 * .tap; what a file prints reaches the report only when it fails. No file runs a second time: a test that passes only
 * sometimes has a defect, or the code has.
 */
import { spawn } from 'node:child_process'
import { closeSync, createWriteStream, mkdirSync, openSync, readFileSync } from 'node:fs'
import { availableParallelism, cpus } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { root } from '../../cli/root.js'
import { type TapReport, tapReader } from './tap-report.js'
import type { TestFile } from './test-files.js'

export interface FileReport extends TapReport {
  name: string
  seconds: number
  /** The last lines of stderr of a file that failed. */
  tail: string[]
}

export interface RunOptions {
  /** Folder for what the files print. */
  out: string
  /** The Node.js that executes the file. */
  nodeOf(file: TestFile): string
  envOf(file: TestFile): { [name: string]: string | undefined }
  onReport(report: FileReport): void
}

/** A test file ends itself after this time, unless it sets another limit. */
const TIMEOUT_S = 240
/** A file that does not even end itself is killed. */
const KILL_MS = 1_000_000
/** How long processes that a file has started may keep its output open after its end. */
const LEFT_BEHIND_MS = 15_000
/** Cores that are free when another job begins: jobs wait for timers and disks most of their time, so too few would leave cores idle. */
const ENOUGH = 0.1
/** How often free cores are looked for, and over which time they are measured. */
const LOOK_MS = 250
const SEEN_MS = 3_000
const TAIL_LINES = 20
const TAIL_WIDTH = 300

/** Something that is run beside others, and the cores that it keeps busy. */
export interface Job {
  cores: number
  run(): Promise<void>
}

export interface Limits {
  /** How many jobs run at the same time at most. */
  jobs: number
  /** So many run whatever is free; one when absent. */
  least?: number
  /** Undefined: only the number counts. */
  cores?: FreeCores | undefined
}

/** The cores that jobs may keep busy. */
export interface FreeCores {
  now(): number
  /** A job that keeps so many busy begins; the answer is called when it has ended. */
  expect(cores: number): () => void
}

/** Starts the jobs in their order, each when enough cores are free: a job that needs more begins, too, and slows others down. */
export async function runTogether(jobs: readonly Job[], limits: Limits): Promise<void> {
  const running = new Set<Promise<void>>()
  const { jobs: most, least = 1, cores } = limits
  const mayBegin = () =>
    running.size < Math.min(least, most) || (running.size < most && (cores === undefined || cores.now() >= ENOUGH))
  for (const job of jobs) {
    while (!mayBegin()) await Promise.race([...running, sleep(LOOK_MS)])
    const release = cores?.expect(job.cores)
    const run: Promise<void> = job.run().then(() => {
      release?.()
      running.delete(run)
    })
    running.add(run)
  }
  await Promise.all(running)
}

/** A time in ms, the idle ms of all cores until then, and the number of cores. */
type Look = () => { at: number; idle: number; all: number }

const lookAtMachine: Look = () => ({
  at: performance.now(),
  idle: cpus().reduce((sum, { times }) => sum + times.idle, 0),
  all: availableParallelism(),
})

/** The cores of the machine that are idle, whatever runs on it, beside a share that stays free. */
export function openFreeCores(share: number, look = lookAtMachine): FreeCores {
  const looks: { at: number; idle: number }[] = []
  const jobs = new Set<{ cores: number; since: number; until: number }>()
  return {
    now() {
      const { at, idle, all } = look()
      looks.push({ at, idle })
      while (looks.length > 2 && looks[1]!.at <= at - SEEN_MS) looks.shift()
      const from = looks[0]!
      const time = at - from.at
      // The first look sees nothing.
      const sees = time >= LOOK_MS
      let free = sees ? (idle - from.idle) / time : all
      // A job that has just begun or ended was seen for a part of the time: it counts as long as it runs, and no longer.
      let [running, freed] = [0, 0]
      for (const job of jobs) {
        const seen = sees ? Math.max(0, Math.min(job.until, at) - Math.max(job.since, from.at)) / time : 0
        if (job.until === Infinity) {
          running += job.cores
          free -= job.cores * (1 - seen)
        } else freed += job.cores * seen
        if (job.until <= from.at) jobs.delete(job)
      }
      // The others take what a job leaves when they need more than there is.
      free += Math.min(freed, Math.max(0, all - running))
      return Math.min(free, all) - share * all
    },
    expect(cores) {
      const job = { cores, since: look().at, until: Infinity }
      jobs.add(job)
      return () => {
        job.until = look().at
      }
    },
  }
}

/** A job for each file, in the same order. */
export const fileJobs = (files: readonly TestFile[], options: RunOptions): Job[] =>
  files.map(file => ({ cores: file.cores, run: async () => options.onReport(await runFile(file, options)) }))

async function runFile(file: TestFile, { out, nodeOf, envOf }: RunOptions): Promise<FileReport> {
  const { path, name, store } = file
  const log = join(out, name.replaceAll(' ', '-'))
  mkdirSync(dirname(log), { recursive: true })
  const stderr = openSync(`${log}.stderr`, 'w')
  const since = Date.now()
  // tap names the folder of `t.testdir()` after the arguments: a file runs on several stores at the same time.
  const args = ['--enable-source-maps', path, ...(store === 'sqlite' ? [] : [`on-${store}`])]
  const child = spawn(nodeOf(file), args, {
    cwd: root,
    env: { ...envOf(file), TAP_TIMEOUT: `${TIMEOUT_S}` },
    stdio: ['ignore', 'pipe', stderr],
  })
  closeSync(stderr)
  const stdout = child.stdout!
  const tap = tapReader(name)
  const copy = createWriteStream(`${log}.tap`)
  stdout.on('data', (part: Uint8Array) => {
    tap.write(part)
    copy.write(part)
  })
  const closed = new Promise<void>(done => child.once('close', () => done()))
  const killer = setTimeout(() => child.kill('SIGKILL'), KILL_MS)
  const failed = await new Promise<string | null>(done => {
    child.once('error', error => done(error.message))
    child.once('exit', (code, signal) => done(signal ?? (code === 0 ? null : `exit code ${code}`)))
  })
  clearTimeout(killer)
  const late = Symbol('late')
  const leftBehind = (await Promise.race([closed, sleep(LEFT_BEHIND_MS, late, { ref: false })])) === late
  if (leftBehind) stdout.destroy()
  copy.end()

  const report = { ...tap.end(), name, seconds: (Date.now() - since) / 1000, tail: [] as string[] }
  const add = (why: string) => {
    report.failed++
    report.failures.push(`${name} ${why}`)
  }
  if (failed !== null && report.failed === 0) add(`ended with ${failed}`)
  if (leftBehind) add('left a process behind that keeps its output open')
  if (report.passed + report.failed + report.skipped === 0) add('contains no tests')
  if (report.failed > 0) report.tail = tailOf(`${log}.stderr`)
  return report
}

const tailOf = (path: string): string[] =>
  readFileSync(path, 'utf8')
    .split('\n')
    .filter(Boolean)
    .slice(-TAIL_LINES)
    .map(line => (line.length > TAIL_WIDTH ? `${line.slice(0, TAIL_WIDTH)}…` : line))
