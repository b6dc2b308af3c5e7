/**
 * Reports once when files of the application change after its hosts have loaded them: hosts that start later load the
 * new ones, so that runs may use either version. The files are langgraph.json, its environment file, the lock file of
 * the package manager and the modules that the graphs import, without packages. They are found once, 5 s after the start,
 * by esbuild, which resolves imports as tsx does (path aliases of tsconfig.json), and looked at every 5 s from then on.
 */
import { spawn } from 'node:child_process'
import { stat } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { isObject } from '../../schemas/json.js'
import { aside, type HostUser, killGroup, withoutOwn } from '../child/process.js'
import { readReport } from '../child/report.js'
import type { FoundFiles } from './app-files-child.js'
import { type Find, findFiles, MAX_FILES } from './app-modules.js'

const CHECK_MS = 5_000

export interface AppFiles {
  stop(): void
}

export interface AppFilesOptions extends Find {
  /** The user of hosts; our own when null. */
  user: HostUser | null
  /** Path of a Node.js that the user can execute. */
  node: string
  /** Milliseconds since the epoch: when the first host was started. */
  loaded_at: number
  /** Called once, with the first changed file that is found. */
  onChange(file: string): void
  /** The files cannot be found: changes are not reported. */
  onError(error: Error): void
  /** Milliseconds between two looks; for tests. */
  check_ms?: number
}

export function watchAppFiles(options: AppFilesOptions): AppFiles {
  const { user, loaded_at, onChange, onError, check_ms = CHECK_MS } = options
  const stopping = new AbortController()
  const { signal } = stopping

  async function watch(): Promise<void> {
    await pause()
    const files = user === null ? await findFiles(options) : await findAs(user, options, signal)
    const before = new Map<string, string>()
    for (;;) {
      for (const file of files) {
        const { version, written_at } = await versionOf(file)
        const known = before.get(file) ?? version
        before.set(file, known)
        if (signal.aborted) return
        if (version !== known || written_at > loaded_at) return onChange(file)
      }
      await pause()
    }
  }

  const pause = () => sleep(check_ms, undefined, { signal, ref: false })
  watch().catch(error => {
    if (!signal.aborted) onError(error)
  })
  return { stop: () => stopping.abort() }
}

const PROGRAM = fileURLToPath(new URL('../../programs/app-files.js', import.meta.url))
const FIND_MS = 60_000
/** MAX_FILES paths. */
const MAX_REPORT = 16 * 1024 * 1024

/** By a process of the user: what looks into the files could be led to others that only we can read. */
function findAs(user: HostUser, { app, env, node }: AppFilesOptions, signal: AbortSignal): Promise<string[]> {
  const child = spawn(node, [PROGRAM], { ...aside(user), stdio: ['pipe', 'pipe', 'ignore'], detached: true })
  const kill = () => killGroup(child.pid ?? 0)
  const timer = setTimeout(kill, FIND_MS)
  signal.addEventListener('abort', kill, { once: true })
  return new Promise<string[]>((resolve, reject) => {
    child.once('error', reject)
    // Other programs of the user can write there, too.
    readReport(child.stdout, MAX_REPORT).then(report => resolve(filesIn(report)), reject)
    child.stdin.on('error', () => {})
    child.stdin.end(JSON.stringify({ app, env: withoutOwn(env) } satisfies Find))
  }).finally(() => {
    clearTimeout(timer)
    signal.removeEventListener('abort', kill)
    kill()
  })
}

function filesIn(report: unknown): string[] {
  const { files, error } = (isObject(report) ? report : {}) as Partial<FoundFiles>
  if (error !== undefined || !Array.isArray(files))
    throw new Error(`the files of the application cannot be found: ${error}`)
  return files.filter(file => typeof file === 'string').slice(0, MAX_FILES)
}

async function versionOf(file: string): Promise<{ version: string; written_at: number }> {
  try {
    const { mtimeMs, size, ino } = await stat(file)
    return { version: `${mtimeMs} ${size} ${ino}`, written_at: mtimeMs }
  } catch {
    return { version: 'missing', written_at: 0 }
  }
}
