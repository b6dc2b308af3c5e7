/** Puts applications and their packages into the cache folder; nothing is installed into the repository. */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { root } from '../../cli/root.js'
import { UserError } from '../../cli/user-error.js'
import { cached, once, venvOf } from '../../scripts/checks/venv.js'
import { type Application, type Language, NPM_PACKAGES } from './table.js'

const run = promisify(execFile)
const INSTALL_MS = 170_000
const graphs = join(root, 'test/applications/graphs')

export interface Installed {
  /** The folder with its langgraph.json. */
  folder: string
  env: { [name: string]: string }
  remove(): void
}

/** `typed`: a file of JavaScript is named as one of TypeScript. */
export async function install(application: Application, typed = false): Promise<Installed> {
  const { language, file, offline } = application
  // Below the repository's own packages, or below those of the cache.
  const place = offline ? join(root, 'dist', 'applications') : await packagesOf(language)
  mkdirSync(place, { recursive: true })
  const folder = mkdtempSync(join(place, `${application.name}-`))
  cpSync(join(graphs, language), folder, { recursive: true })
  const served = typed ? file.replace(/\.mjs$/, '.ts') : file
  renameSync(join(folder, file), join(folder, served))
  const description = { graphs: { agent: `./${served}:graph` }, dependencies: ['.'], env: {} }
  writeFileSync(join(folder, 'langgraph.json'), JSON.stringify(description))
  return { folder, env: await pythonOf(language), remove: () => rmSync(folder, { recursive: true, force: true }) }
}

const LOCKS = ['package-lock.json', 'pnpm-lock.yaml', 'yarn.lock', 'uv.lock']

/**
 * A copy of a folder, so that nothing is written beside its files. Its own packages are installed by the server or are there;
 * `fresh`: without the versions that its lock files pin.
 */
export async function copyOf(from: string, fresh: boolean): Promise<Installed> {
  const source = resolve(from)
  if (!existsSync(join(source, 'langgraph.json'))) throw new UserError(`--from ${from}: it has no langgraph.json`, 2)
  const place = cached('applications')
  mkdirSync(place, { recursive: true })
  const folder = mkdtempSync(join(place, `${basename(source)}-`))
  const remove = () => rmSync(folder, { recursive: true, force: true })
  const left = fresh ? [...LOCKS, 'node_modules', '.venv'].map(name => join(source, name)) : []
  try {
    cpSync(source, folder, { recursive: true, filter: path => !left.includes(path) })
    if (fresh && existsSync(join(folder, 'package.json')))
      await npmInstall(folder, ['--include=dev', '--legacy-peer-deps'])
  } catch (error) {
    remove()
    throw error
  }
  return { folder, env: {}, remove }
}

async function npmInstall(cwd: string, more: readonly string[] = []): Promise<void> {
  const flags = ['install', '--no-audit', '--no-fund', '--ignore-scripts', '--loglevel=error', ...more]
  await run('npm', flags, { cwd, timeout: INSTALL_MS })
}

const pythonOf = async (language: Language): Promise<{ [name: string]: string }> =>
  language === 'python' ? { WEFT_PYTHON: await venvOf(join(graphs, 'python/requirements.txt')) } : {}

/** A folder whose subfolders find the packages of the language. */
export async function packagesOf(language: Language): Promise<string> {
  if (language === 'python') return join(cached('applications'), 'python')
  const list = JSON.stringify({ private: true, type: 'module', dependencies: NPM_PACKAGES })
  const folder = join(cached('applications'), createHash('sha256').update(list).digest('hex').slice(0, 12))
  await once(folder, async () => {
    mkdirSync(folder, { recursive: true })
    writeFileSync(join(folder, 'package.json'), list)
    await npmInstall(folder)
  })
  return folder
}
