/**
 * Fetches the files of a commit (docs/spec/control-plane.md#process-driver). git runs without prompts, user
 * configuration, hooks, submodules or large-file filters, and only over the protocol of the URL. The caller stores the
 * commit before the build and passes it to a repeat: a moved branch cannot change a revision between two attempts.
 */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { cp, mkdir, readdir, readlink, rm, stat, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { openRedactor, type Redactor } from '../../../schemas/redact.js'
import { erase } from '../../child/user-tree.js'
import { Fault } from '../fault.js'
import { type Ran, run, runOrFail, type Say } from './command.js'
import { type CredentialFiles, type Credentials, findCredentials, keyFile, NO_CREDENTIALS } from './credentials.js'
import { MARK } from './leftovers.js'
import { checkRef, readSource, resolveAddress, type Source, type Sources } from './source.js'

interface Fetch {
  url: string
  ref: string
  /** Commit that an earlier attempt has resolved. */
  commit: string | null
  /** Existing folder of this attempt, for `tree` and the files of git. */
  work: string
  /** PATH of the programs. */
  path: string
  sources: Sources
  /** The secrets of the deployment, and the files of the operator's credentials. */
  access?: { secrets: { [name: string]: string }; files: CredentialFiles }
  /** Path of the certificates of authorities that servers are checked with; git's own when absent. */
  certificates?: string | undefined
  redactor: Redactor
  /** Marks all processes of this attempt (leftovers.ts). */
  mark: string
}

export interface Fetched {
  tree: string
  /** 40 hex digits (64 in a repository of that format); null for a plain folder. */
  commit: string | null
  /** Names the artefact: the commit, or the hash of the files of a plain folder. */
  content: string
}

const FETCH_MS = 5 * 60_000
/** Bytes of files in a commit, and of a fetch. */
export const MAX_TREE = 2 * 1024 ** 3
/** Bytes hashed in one go: other work of this process waits for 1 ms. */
const HASHED_AT_ONCE = 1024 ** 2
const COMMIT = /^[0-9a-f]{40}([0-9a-f]{24})?$/i

/** Fetches and checks out. Throws a Fault; it is retryable when the server was unreachable or too slow. */
export async function fetchSource(given: Fetch, signal: AbortSignal, say: Say): Promise<Fetched> {
  const source = readSource(given.url, given.sources)
  const tree = join(given.work, 'tree')
  await mkdir(tree)
  if (source.kind === 'local' && !(await isRepository(source.folder))) return copyFolder(source.folder, tree, say)
  const { secrets = {}, files = NO_FILES } = given.access ?? {}
  const credentials =
    source.kind === 'local' ? NO_CREDENTIALS : await findCredentials(source, secrets, files, given.work)
  try {
    return await fetchWith({ ...given, credentials }, source, tree, signal, say)
  } finally {
    await rm(keyFile(given.work), { force: true })
  }
}

async function fetchWith(given: Access, source: Source, tree: string, signal: AbortSignal, say: Say): Promise<Fetched> {
  const git = await openGit(given, source, tree, signal, say)
  await git(['init', '-q'])
  const commit = await fetchCommit(given, source, git)
  const size = await treeSize(git, commit)
  if (size > MAX_TREE) throw new Fault(`fetch: the commit holds ${size} bytes; expected at most ${MAX_TREE}`)
  await git(['checkout', '-q', '--detach', commit])
  await erase(join(tree, '.git'))
  say('INFO', `commit ${commit}`)
  return { tree, commit, content: commit }
}

interface Access extends Fetch {
  credentials: Credentials
}

const NO_FILES: CredentialFiles = { git_credentials_file: '', git_ssh_key_file: '' }

/** Only for the server of the source: git sends it nowhere else, as redirects are not followed. */
const authorizationEnv = (source: Source, { authorization }: Credentials): { [name: string]: string } =>
  source.kind !== 'https' || authorization === null
    ? {}
    : {
        GIT_CONFIG_COUNT: '1',
        GIT_CONFIG_KEY_0: `http.${new URL(source.url).origin}/.extraHeader`,
        GIT_CONFIG_VALUE_0: `Authorization: ${authorization}`,
      }

function alsoRedact(one: Redactor, hidden: readonly string[]): Redactor {
  const other = openRedactor(hidden)
  return { longest: Math.max(one.longest, other.longest), redact: text => other.redact(one.redact(text)) }
}

interface Git {
  /** Throws a Fault unless it succeeds. */
  (args: readonly string[], read?: (line: string) => void): Promise<Ran>
  try(args: readonly string[], read?: (line: string) => void): Promise<Ran>
}

/** The configuration is a file, because all git programs that take part read it. */
async function openGit(given: Access, source: Source, cwd: string, signal: AbortSignal, say: Say): Promise<Git> {
  const address = source.kind === 'local' ? null : await resolveAddress(source, given.sources)
  const pinned =
    source.kind === 'https' && address !== null
      ? `\tcurloptResolve = ${source.host}:${source.port}:${address.includes(':') ? `[${address}]` : address}\n`
      : ''
  const config = join(given.work, 'gitconfig')
  await writeFile(
    config,
    `[core]\n\thooksPath = /dev/null\n\tfsmonitor = false\n\taskPass =\n[credential]\n\thelper =\n` +
      `[submodule]\n\trecurse = false\n[fetch]\n\trecurseSubmodules = false\n[protocol "ext"]\n\tallow = never\n` +
      `[http]\n\tfollowRedirects = false\n\tlowSpeedLimit = 1000\n\tlowSpeedTime = 60\n${pinned}` +
      // The repository may belong to another user: the operator has allowed its folder.
      (source.kind === 'local' ? `[safe]\n\tdirectory = *\n` : '') +
      `[init]\n\tdefaultBranch = main\n[advice]\n\tdetachedHead = false\n`,
  )
  const env = {
    PATH: given.path,
    HOME: given.work,
    LANG: 'C.UTF-8',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: config,
    GIT_TERMINAL_PROMPT: '0',
    GIT_ASKPASS: '',
    SSH_ASKPASS: '',
    ...(given.certificates ? { GIT_SSL_CAINFO: given.certificates } : {}),
    ...authorizationEnv(source, given.credentials),
    GIT_SSH_COMMAND: source.kind === 'ssh' ? sshCommand(source, address, given.credentials.ssh_key) : 'false',
    GIT_SSH_VARIANT: 'ssh',
    GIT_ALLOW_PROTOCOL:
      source.kind === 'local' ? 'file' : source.kind === 'ssh' ? 'ssh' : new URL(source.url).protocol.slice(0, -1),
    GIT_PROTOCOL_FROM_USER: '0',
    GIT_LFS_SKIP_SMUDGE: '1',
    GIT_NO_REPLACE_OBJECTS: '1',
    [MARK]: given.mark,
  }
  const redactor = alsoRedact(given.redactor, given.credentials.hidden)
  const command = (args: readonly string[], read: (line: string) => void = () => {}) => ({
    name: `git ${args[0]}`,
    file: 'git',
    args,
    cwd,
    env,
    timeout_ms: FETCH_MS,
    redactor,
    read,
    limit: { folders: [join(cwd, '.git')], bytes: MAX_TREE },
  })
  // The output of git about a missing ref is not logged: the fault names the ref.
  const quiet: Say = () => {}
  const git = (args: readonly string[], read?: (line: string) => void) => runOrFail(command(args, read), signal, say)
  if (pinned !== '') await checkVersion(git)
  return Object.assign(git, {
    try: (args: readonly string[], read?: (line: string) => void) => run(command(args, read), signal, quiet),
  })
}

/** Older ones ignore `http.curloptResolve` without a word, and would look the checked name up again. */
const OLDEST_GIT = [2, 37] as const

async function checkVersion(
  git: (args: readonly string[], read: (line: string) => void) => Promise<Ran>,
): Promise<void> {
  let said = ''
  await git(['--version'], line => {
    said ||= line
  })
  const [major = 0, minor = 0] = (/(\d+)\.(\d+)/.exec(said) ?? []).slice(1).map(Number)
  if (major > OLDEST_GIT[0] || (major === OLDEST_GIT[0] && minor >= OLDEST_GIT[1])) return
  throw new Fault(`fetch: https needs git ${OLDEST_GIT.join('.')} or later, this machine has "${said}"`)
}

/**
 * ssh to the address that was checked, with the host's name for its key, and without the configuration of the user,
 * which may run programs (ProxyCommand) or lead elsewhere. Keys and known hosts of the user apply.
 */
function sshCommand({ host, port }: Source & { kind: 'ssh' }, address: string | null, key: string | null): string {
  const alias = port === '22' ? host : `[${host}]:${port}`
  const pinned = address === null ? [] : [`-oHostName=${address}`, `-oHostKeyAlias='${alias}'`]
  const options = ['-F', '/dev/null', '-oBatchMode=yes', '-oStrictHostKeyChecking=yes', '-oProxyCommand=none']
  const identity = key === null ? [] : ['-oIdentitiesOnly=yes', `-i '${key.replaceAll("'", `'\\''`)}'`]
  return ['ssh', ...options, '-oProxyJump=none', ...identity, ...pinned].join(' ')
}

const FETCH = ['fetch', '--quiet', '--no-tags', '--no-recurse-submodules', '--no-write-fetch-head', '--depth=1']
const WANTED_REF = 'refs/weft/wanted'

/** Fetches the commit of an earlier attempt, a named commit, or the target of the ref; resolves to its id. */
async function fetchCommit({ ref, commit }: Fetch, source: Source, git: Git): Promise<string> {
  const from = source.kind === 'local' ? source.folder : source.url
  const wanted = commit ?? (COMMIT.test(ref) ? ref.toLowerCase() : null)
  if (wanted !== null) {
    await fetchById(from, wanted, git)
    return resolve(git, wanted)
  }
  const name = checkRef(ref)
  const refs = name.startsWith('refs/') ? [name] : [`refs/heads/${name}`, `refs/tags/${name}`]
  for (const each of refs) {
    const { code, tail, signal } = await git.try([...FETCH, '--', from, `+${each}:${WANTED_REF}`])
    if (code === 0) return resolve(git, WANTED_REF)
    if (!/couldn't find remote ref|not our ref/i.test(tail)) throw unreachable(tail, signal !== null)
  }
  throw new Fault(`fetch: the repository has no branch, tag or commit "${ref}"`)
}

/** Fetches by id. Some servers refuse that for some commits: then it fetches all refs. */
async function fetchById(from: string, wanted: string, git: Git): Promise<void> {
  const { code } = await git.try([...FETCH, '--', from, `+${wanted}:${WANTED_REF}`])
  if (code === 0) return
  const whole = ['fetch', '--quiet', '--tags', '--no-recurse-submodules', '--no-write-fetch-head', '--']
  const { code: failed, tail, signal } = await git.try([...whole, from, '+refs/*:refs/weft/all/*'])
  if (failed !== 0) throw unreachable(tail, signal !== null)
}

async function resolve(git: Git, name: string): Promise<string> {
  let commit = ''
  const { code } = await git.try(['rev-parse', '--verify', '--quiet', `${name}^{commit}`], line => {
    commit = line.trim()
  })
  if (code !== 0 || !COMMIT.test(commit)) throw new Fault(`fetch: the repository has no commit "${name}"`)
  return commit
}

/** The fault of a failed fetch; not retryable when the server refused it. */
function unreachable(tail: string, killed: boolean): Fault {
  const last = tail.split('\n').findLast(line => /fatal|error|remote/i.test(line)) ?? tail.split('\n').at(-1) ?? ''
  const final =
    /not found|does not exist|denied|authentication|could not read username|not appear to be a git|repository '.*' not/i
  const hint = /denied|authentication|could not read username/i.test(tail)
    ? '; the secret WEFT_GIT_TOKEN (https) or WEFT_GIT_SSH_KEY (ssh) of the deployment gives access'
    : ''
  return new Fault(`fetch: ${last.trim().slice(0, 300) || 'git failed'}${hint}`, killed || !final.test(tail))
}

async function treeSize(git: Git, commit: string): Promise<number> {
  let sum = 0
  // <mode> <type> <object> <size> TAB <name>
  await git(['ls-tree', '-r', '-l', commit], line => {
    sum += Number(/^\d+ blob [0-9a-f]+ +(\d+)\t/.exec(line)?.[1] ?? 0)
  })
  return sum
}

async function isRepository(folder: string): Promise<boolean> {
  const has = (name: string) =>
    stat(join(folder, name)).then(
      () => true,
      () => false,
    )
  return (await has('.git')) || ((await has('HEAD')) && (await has('objects')))
}

/** Copies a folder without git. The hash of its content replaces the commit. */
async function copyFolder(from: string, tree: string, say: Say): Promise<Fetched> {
  await cp(from, tree, { recursive: true, verbatimSymlinks: true, filter: path => basename(path) !== '.git' })
  const content = await hashOf(tree)
  say('INFO', `copied ${from}, which is not a git repository`)
  return { tree, commit: null, content }
}

/**
 * SHA-256 over names, kinds and contents of everything below `folder`, a piece of a file at a time. Throws a Fault when
 * the files hold more than `limit` bytes.
 */
export async function hashOf(folder: string, limit = MAX_TREE): Promise<string> {
  const hash = createHash('sha256')
  let size = 0
  const names = (await readdir(folder, { recursive: true, withFileTypes: true }))
    .map(entry => ({ entry, path: join(entry.parentPath, entry.name) }))
    .sort((a, b) => (a.path < b.path ? -1 : 1))
  for (const { entry, path } of names) {
    const name = path.slice(folder.length + 1)
    if (entry.isSymbolicLink()) hash.update(`link ${name}\0${await readlink(path)}\0`)
    else if (entry.isDirectory()) hash.update(`folder ${name}\0`)
    else if (entry.isFile()) {
      const length = (await stat(path)).size
      size += length
      if (size > limit) throw new Fault(`the files hold more than ${limit} bytes`)
      hash.update(`file ${name}\0${length}\0`)
      for await (const bytes of createReadStream(path, { highWaterMark: HASHED_AT_ONCE })) hash.update(bytes)
    } else throw new Fault(`${name} is neither a file nor a folder nor a link`)
  }
  return hash.digest('hex')
}
