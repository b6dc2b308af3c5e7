/** Finds the files of an application: the ones that langgraph.json names, and the modules that they import. */
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { type AppSource, readDescription } from '../../schemas/description.js'
import { isObject, type JsonObject } from '../../schemas/json.js'

/** Beyond this number the modules found first are looked at. */
export const MAX_FILES = 2_000
const LOCK_FILES = ['package-lock.json', 'pnpm-lock.yaml', 'yarn.lock', 'bun.lock', 'bun.lockb']

/** Whose files. */
export interface Find {
  /** Absolute path of langgraph.json. */
  app: string
  /** Variables of the process, which may name the graphs. */
  env: AppSource['env']
}

export async function findFiles({ app, env }: Find): Promise<string[]> {
  const { entries, others } = filesOf(app, env)
  const modules = await modulesOf(dirname(app), entries)
  return [...new Set([...others, ...entries, ...modules])].slice(0, MAX_FILES)
}

/** The files that langgraph.json names as code, and those beside the code. */
function filesOf(app: string, env: Find['env']): { entries: string[]; others: string[] } {
  const read = (path: string) => (existsSync(path) ? readFileSync(path, 'utf8') : null)
  const { folder, graphs, given } = readDescription({ path: app, env, read })
  const paths = [memberOf(given.auth, 'path'), memberOf(given.http, 'app'), memberOf(given.store, 'path')]
  const named = [...paths, memberOf(given.checkpointer, 'path')].map(path =>
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
