/**
 * Installs and builds (docs/spec/control-plane.md#process-driver). `install_command` runs in the root of the repository,
 * `build_command` in the folder of langgraph.json. Without an install command the lock file selects the package
 * manager. The environment of the commands has no secret and no setting of Weft.
 */
import { stat } from 'node:fs/promises'
import { delimiter, join, relative, sep } from 'node:path'
import type { Redactor } from '../../../schemas/redact.js'
import type { HostUser } from '../../child/process.js'
import type { Base, PythonNeeds } from '../../child/python-install.js'
import { readAs } from '../../child/user-file.js'
import type { Uv } from '../../child/uv.js'
import { Fault } from '../fault.js'
import { type Command, runOrFail, type Say } from './command.js'
import { MARK } from './leftovers.js'
import { findMissing } from './managers.js'
import { pythonSteps } from './python.js'

const INSTALL_MS = 15 * 60_000
const BUILD_MS = 15 * 60_000

interface PythonTools {
  base: Base
  /** The uv that makes the environment; null: pip does. */
  findUv(log: (line: string) => void): Promise<Uv | null>
}

interface Building {
  tree: string
  /** Folder of the description. */
  folder: string
  install_command: string | null
  build_command: string | null
  /** The version of Python that it needs, and the interpreter that its environment is made of; null without Python. */
  python: (PythonNeeds & PythonTools) | null
  /** An install puts a package manager that this machine lacks in front of PATH. */
  env: { [name: string]: string | undefined }
  redactor: Redactor
  limit: NonNullable<Command['limit']>
  boxed?: Command['boxed']
  /** Files of the application are read in this folder only; absent: wherever their links lead. */
  within?: string | undefined
  user: HostUser | null
}

interface Plan {
  cwd: string
  words: string[]
}

/** The first lock file that exists selects the command. */
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

/**
 * The install command of a project without `install_command`; null when there is no package.json. The lock file of a
 * workspace stands in a folder above: the nearest one counts.
 */
export async function detect({
  tree,
  folder,
  user,
  within,
}: Pick<Building, 'tree' | 'folder' | 'user' | 'within'>): Promise<Plan | null> {
  const folders = foldersUp(folder, tree)
  for (const cwd of folders)
    for (const [file, ...words] of LOCKS)
      if (await isFile(join(cwd, file)))
        return {
          cwd,
          words: words[0] === 'yarn' ? yarnWords(await readAs(user, join(cwd, 'yarn.lock'), within), words) : words,
        }
  for (const cwd of folders) {
    const manager = managerOf(await readManifest(user, cwd, within))
    if (manager !== null) return { cwd, words: manager }
  }
  for (const cwd of folders) if (await isFile(join(cwd, 'package.json'))) return { cwd, words: MANAGERS.npm! }
  return null
}

/** The folder and those above it, up to the root of the repository. */
function foldersUp(folder: string, tree: string): string[] {
  const inner = relative(tree, folder)
  const names = inner === '' ? [] : inner.split(sep)
  return Array.from({ length: names.length + 1 }, (_, n) => join(tree, ...names.slice(0, names.length - n)))
}

/** Yarn 2 and later has another name for the switch. */
const yarnWords = (lock: string | null, words: string[]): string[] =>
  lock?.includes('__metadata:') ? ['yarn', 'install', '--immutable'] : words

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

async function readManifest(user: HostUser | null, cwd: string, within?: string): Promise<Manifest | null> {
  const text = await readAs(user, join(cwd, 'package.json'), within)
  try {
    return text === null ? null : (JSON.parse(text) as Manifest)
  } catch (error) {
    throw new Fault(`install: package.json is not valid JSON: ${(error as Error).message}`)
  }
}

/** The packages of JavaScript, then those of Python. */
export async function runInstall(building: Building, signal: AbortSignal, say: Say): Promise<void> {
  const { tree, folder, install_command, python } = building
  const found = await detect(building)
  if (found !== null) await provideManager(found, building, signal, say)
  const plan = install_command === null ? found : shell(tree, install_command)
  if (plan === null && python === null) return say('INFO', 'install: no package.json, nothing to install')
  const where = (cwd: string) => relative(tree, cwd) || 'the root'
  if (plan !== null) {
    say('INFO', `install: ${install_command ?? plan.words.join(' ')} (in ${where(plan.cwd)})`)
    await runOrFail(commandOf('install', plan, building, INSTALL_MS), signal, say)
  }
  if (python === null || install_command !== null) return
  say('INFO', `install: an environment with Python ${python.base.python} (in ${where(folder)})`)
  for (const { words, env } of pythonSteps(
    python,
    python.base,
    await python.findUv(line => say('INFO', `install: ${line}`)),
  )) {
    say('INFO', `install: ${words.map(word => word.replace(`${tree}/`, '')).join(' ')}`)
    const command = commandOf('install', { cwd: folder, words: [...words] }, building, INSTALL_MS)
    await runOrFail({ ...command, env: { ...command.env, ...env } }, signal, say)
  }
}

/** Installs the package manager when it is not here. */
async function provideManager({ cwd, words }: Plan, building: Building, signal: AbortSignal, say: Say): Promise<void> {
  const { env, tree, user, within } = building
  const manifests = await Promise.all(foldersUp(cwd, tree).map(folder => readManifest(user, folder, within)))
  const declared = manifests.map(found => found?.packageManager).find(text => typeof text === 'string')
  const missing = await findMissing({ manager: words[0]!, cwd, declared: `${declared ?? ''}`, env, user, within })
  if (missing === null) return
  say('INFO', `install: ${words[0]} is not on this machine, npm installs ${missing.package}`)
  const npm = ['npm', 'install', '--prefix', missing.folder, '--no-audit', '--no-fund', '--no-save', missing.package]
  const steps = [
    { cwd: tree, words: ['mkdir', '-p', '--', missing.folder] },
    { cwd: missing.folder, words: npm },
  ]
  for (const step of steps) await runOrFail(commandOf('install', step, building, INSTALL_MS), signal, say)
  building.env = { ...env, PATH: [missing.bin, env.PATH].join(delimiter) }
}

export async function runBuild(building: Building, signal: AbortSignal, say: Say): Promise<void> {
  const { tree, folder, build_command } = building
  if (build_command === null) return
  say('INFO', `build: ${build_command} (in ${relative(tree, folder) || 'the root'})`)
  await runOrFail(commandOf('build', shell(folder, build_command), building, BUILD_MS), signal, say)
}

/** Users may chain commands with &&, so they run in a shell. */
const shell = (cwd: string, text: string): { cwd: string; words: string[] } => ({ cwd, words: ['sh', '-c', text] })

const commandOf = (
  name: string,
  { cwd, words: [file, ...args] }: { cwd: string; words: string[] },
  { env, redactor, limit, boxed, user }: Building,
  timeout_ms: number,
): Command => ({ name, file: file!, args, cwd, env, timeout_ms, redactor, limit, boxed, user })

const isFile = (path: string): Promise<boolean> =>
  stat(path).then(
    found => found.isFile(),
    () => false,
  )

/** Variables of the deploy worker that builds inherit. */
const PASSED = ['PATH', 'LANG', 'LC_ALL', 'TZ', 'NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE']
const PROXIES = ['http_proxy', 'https_proxy', 'no_proxy', 'all_proxy']

interface BuildEnv {
  home: string
  temporary: string
  mark: string
  /** Names of further variables that builds inherit (WEFT_BUILD_ENV). */
  more: readonly string[]
  /** Null: the source is no repository. */
  facts: { repo: string; ref: string; commit: string | null } | null
}

/** The whole environment of install and build. */
export function buildEnv(
  ours: NodeJS.ProcessEnv,
  { home, temporary, mark, more, facts }: BuildEnv,
): { [name: string]: string } {
  const env: { [name: string]: string } = {}
  const names = [...PASSED, ...PROXIES, ...PROXIES.map(name => name.toUpperCase()), ...more]
  for (const name of names) if (ours[name] !== undefined) env[name] = ours[name]
  return {
    ...env,
    HOME: home,
    TMPDIR: temporary,
    [MARK]: mark,
    CI: '1',
    NPM_CONFIG_UPDATE_NOTIFIER: 'false',
    COREPACK_ENABLE_DOWNLOAD_PROMPT: '0',
    ...(facts === null ? {} : { LANGSMITH_LANGGRAPH_GIT_REPO: facts.repo, LANGSMITH_LANGGRAPH_GIT_REF: facts.ref }),
    ...(facts === null || facts.commit === null ? {} : { LANGSMITH_LANGGRAPH_GIT_REF_SHA: facts.commit }),
  }
}
