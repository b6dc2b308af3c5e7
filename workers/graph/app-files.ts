/**
 * Reports once when files of the application change after its hosts have loaded them: hosts that start later load the
 * new ones, so that runs may use either version. The files are langgraph.json, its environment file, the lock file of
 * the package manager and the modules that the graphs import, without packages. They are found once, 5 s after the start,
 * by esbuild, which resolves imports as tsx does (path aliases of tsconfig.json), and looked at every 5 s from then on.
 */
import { existsSync, readFileSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type AppSource, readDescription } from '../../schemas/description.js'
import { isObject, type JsonObject } from '../../schemas/json.js'

const CHECK_MS = 5_000
/** Beyond this number the modules found first are looked at. */
const MAX_FILES = 2_000
const LOCK_FILES = ['package-lock.json', 'pnpm-lock.yaml', 'yarn.lock', 'bun.lock', 'bun.lockb']

export interface AppFiles {
  stop(): void
}

export interface AppFilesOptions {
  /** Absolute path of langgraph.json. */
  app: string
  /** Variables of the process, which may name the graphs. */
  env: AppSource['env']
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
  const { loaded_at, onChange, onError, check_ms = CHECK_MS } = options
  const stopping = new AbortController()
  const { signal } = stopping

  async function watch(): Promise<void> {
    await pause()
    const files = await findFiles(options)
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

async function findFiles({ app, env }: AppFilesOptions): Promise<string[]> {
  const { entries, others } = filesOf(app, env)
  const modules = await modulesOf(dirname(app), entries)
  return [...new Set([...others, ...entries, ...modules])].slice(0, MAX_FILES)
}

/** The files that langgraph.json names as code, and those beside the code. */
function filesOf(app: string, env: AppSource['env']): { entries: string[]; others: string[] } {
  const read = (path: string) => (existsSync(path) ? readFileSync(path, 'utf8') : null)
  const { folder, graphs, given } = readDescription({ path: app, env, read })
  const named = [memberOf(given.auth, 'path'), memberOf(given.http, 'app')].map(path =>
    path === null ? null : resolve(folder, path.replace(/:[^:/\\]*$/, '')),
  )
  const entries = [...graphs.map(({ file }) => file), ...named].flatMap(file => (file && existsSync(file) ? file : []))
  const others = [app, ...(typeof given.env === 'string' ? [resolve(folder, given.env)] : []), ...lockFileOf(folder)]
  return { entries, others }
}

function memberOf(section: unknown, name: string): string | null {
  const value = isObject(section) ? (section as JsonObject)[name] : null
  return typeof value === 'string' ? value : null
}

/** The nearest one; of a workspace it is above the application. */
function lockFileOf(folder: string): string[] {
  for (let at = folder; ; at = dirname(at)) {
    const found = LOCK_FILES.map(name => join(at, name)).filter(file => existsSync(file))
    if (found.length > 0 || at === dirname(at)) return found
  }
}

/** The entries and what they import, without packages. No file is executed. */
async function modulesOf(folder: string, entries: string[]): Promise<string[]> {
  const found = new Set<string>()
  const { build, stop } = await import('esbuild')
  const built = build({
    entryPoints: entries,
    absWorkingDir: folder,
    bundle: true,
    write: false,
    outdir: folder,
    platform: 'node',
    format: 'esm',
    packages: 'external',
    logLevel: 'silent',
    plugins: [
      {
        name: 'files',
        setup: ({ onLoad }) =>
          onLoad({ filter: /.*/ }, ({ path }) => {
            if (!path.includes('/node_modules/')) found.add(path)
            return undefined
          }),
      },
    ],
  })
  // An import that esbuild cannot resolve does not hide the others.
  await built.catch(() => {})
  // Else its process stays and pings this one every second.
  await stop()
  return [...found]
}

async function versionOf(file: string): Promise<{ version: string; written_at: number }> {
  try {
    const { mtimeMs, size, ino } = await stat(file)
    return { version: `${mtimeMs} ${size} ${ino}`, written_at: mtimeMs }
  } catch {
    return { version: 'missing', written_at: 0 }
  }
}
