/**
 * Installing and building (API: control-plane 4.2, 11.2). `install_command` runs in the root of the repository,
 * `build_command` in the folder of the description. Without an install command the project's own package manager is
 * asked, found by its lock file. The commands see no secret and no variable of ours.
 */
import { readFile, stat } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { Fault } from '../fault.js'
import { type Command, must, type Say } from './command.js'

export const INSTALL_MS = 15 * 60_000
export const BUILD_MS = 15 * 60_000

export interface Building {
  tree: string
  /** Folder of the description. */
  folder: string
  install_command: string | null
  build_command: string | null
  env: { [name: string]: string | undefined }
}

type Planned = { cwd: string; words: string[] } | null

/** In this order; the first lock file that lies there decides. */
const LOCKS: readonly [file: string, ...words: string[]][] = [
  ['yarn.lock', 'yarn', 'install', '--frozen-lockfile'],
  ['pnpm-lock.yaml', 'pnpm', 'install', '--frozen-lockfile'],
  ['package-lock.json', 'npm', 'ci', '--no-audit', '--no-fund'],
  ['bun.lockb', 'bun', 'install', '--frozen-lockfile'],
  ['bun.lock', 'bun', 'install', '--frozen-lockfile'],
]
const MANAGERS: { [name: string]: string[] } = {
  npm: ['npm', 'install', '--no-audit', '--no-fund'],
  yarn: ['yarn', 'install'],
  pnpm: ['pnpm', 'install'],
  bun: ['bun', 'install'],
}

/** Where what is installed how, when no command says so; null when there is no package.json. */
export async function detect({ tree, folder }: Pick<Building, 'tree' | 'folder'>): Promise<Planned> {
  const folders = folder === tree ? [tree] : [folder, tree]
  for (const cwd of folders)
    for (const [file, ...words] of LOCKS)
      if (await isFile(join(cwd, file))) return { cwd, words: words[0] === 'yarn' ? await yarn(cwd, words) : words }
  for (const cwd of folders) {
    const manager = managerOf(await manifest(cwd))
    if (manager !== null) return { cwd, words: manager }
  }
  for (const cwd of folders) if (await isFile(join(cwd, 'package.json'))) return { cwd, words: MANAGERS.npm! }
  return null
}

/** The later yarn knows the switch by another name. */
async function yarn(cwd: string, words: string[]): Promise<string[]> {
  const text = await readFile(join(cwd, 'yarn.lock'), 'utf8')
  return text.includes('__metadata:') ? ['yarn', 'install', '--immutable'] : words
}

interface Manifest {
  packageManager?: unknown
  devEngines?: { packageManager?: { name?: unknown } | { name?: unknown }[] }
}

function managerOf(found: Manifest | null): string[] | null {
  const declared = found?.devEngines?.packageManager
  const engine = Array.isArray(declared) ? declared[0]?.name : declared?.name
  const name = typeof found?.packageManager === 'string' ? found.packageManager.split('@')[0] : engine
  return typeof name === 'string' && Object.hasOwn(MANAGERS, name) ? MANAGERS[name]! : null
}

async function manifest(cwd: string): Promise<Manifest | null> {
  try {
    return JSON.parse(await readFile(join(cwd, 'package.json'), 'utf8')) as Manifest
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw new Fault(`install: package.json is not valid JSON: ${(error as Error).message}`)
  }
}

export async function install(building: Building, signal: AbortSignal, say: Say): Promise<void> {
  const { tree, install_command, env } = building
  const planned = install_command === null ? await detect(building) : shell(tree, install_command)
  if (planned === null) return say('INFO', 'install: no package.json, nothing to install')
  say(
    'INFO',
    `install: ${install_command ?? planned.words.join(' ')} (in ${relative(tree, planned.cwd) || 'the root'})`,
  )
  await must(commandOf('install', planned, env, INSTALL_MS), signal, say)
}

export async function build(building: Building, signal: AbortSignal, say: Say): Promise<void> {
  const { tree, folder, build_command, env } = building
  if (build_command === null) return
  say('INFO', `build: ${build_command} (in ${relative(tree, folder) || 'the root'})`)
  await must(commandOf('build', shell(folder, build_command), env, BUILD_MS), signal, say)
}

/** A command of the user's is theirs to chain: it runs in a shell, as what it starts would anyway. */
const shell = (cwd: string, text: string): { cwd: string; words: string[] } => ({ cwd, words: ['sh', '-c', text] })

const commandOf = (
  name: string,
  { cwd, words: [file, ...args] }: { cwd: string; words: string[] },
  env: Building['env'],
  timeout_ms: number,
): Command => ({ name, file: file!, args, cwd, env, timeout_ms })

const isFile = (path: string): Promise<boolean> =>
  stat(path).then(
    found => found.isFile(),
    () => false,
  )

/** Passed on to builds when the deploy worker has them: how the outside is reached. */
const PASSED = ['PATH', 'LANG', 'LC_ALL', 'TZ', 'NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE']
const PROXIES = ['http_proxy', 'https_proxy', 'no_proxy', 'all_proxy']

export interface BuildEnv {
  home: string
  /** Names of further variables that builds may see (WEFT_BUILD_ENV). */
  more: readonly string[]
  facts: { repo: string; ref: string; commit: string | null }
}

/** The whole environment of install and build. */
export function buildEnv(ours: NodeJS.ProcessEnv, { home, more, facts }: BuildEnv): { [name: string]: string } {
  const env: { [name: string]: string } = {}
  const names = [...PASSED, ...PROXIES, ...PROXIES.map(name => name.toUpperCase()), ...more]
  for (const name of names) if (ours[name] !== undefined) env[name] = ours[name]
  return {
    ...env,
    HOME: home,
    CI: '1',
    NPM_CONFIG_UPDATE_NOTIFIER: 'false',
    COREPACK_ENABLE_DOWNLOAD_PROMPT: '0',
    LANGSMITH_LANGGRAPH_GIT_REPO: facts.repo,
    LANGSMITH_LANGGRAPH_GIT_REF: facts.ref,
    ...(facts.commit === null ? {} : { LANGSMITH_LANGGRAPH_GIT_REF_SHA: facts.commit }),
  }
}
