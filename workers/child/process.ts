/**
 * Programs that are not ours: graph hosts, and builds and probes of deployments. Each leads a process group, so that one
 * signal ends it with its children. WEFT_HOST_USER names their user: under the user of Weft they can read its keys and
 * its database, and the environment of its processes.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { lstatSync, realpathSync, type Stats } from 'node:fs'
import { dirname, resolve } from 'node:path'

export interface HostUser {
  name: string
  uid: number
  gid: number
  /** Null for a user without a name. */
  home: string | null
}

/**
 * Null when no user is named, or our own. Throws an Error with one sentence: unknown user, or no right to change to it.
 */
export function findHostUser(name: string): HostUser | null {
  if (name === '') return null
  const user = read(name)
  const own = process.getuid?.()
  if (own === user.uid) return null
  if (own !== 0) throw new Error(`WEFT_HOST_USER: only a start as root can run programs as ${name}`)
  return user
}

function read(name: string): HostUser {
  const numbers = /^(\d+):(\d+)$/.exec(name)
  if (numbers !== null) return { name, uid: Number(numbers[1]), gid: Number(numbers[2]), home: null }
  if (!/^[A-Za-z_][A-Za-z0-9_.-]*$/.test(name))
    throw new Error(`WEFT_HOST_USER: expected a user or uid:gid, not ${name}`)
  const id = (flag: string) => Number(execFileSync('id', [flag, name], { encoding: 'utf8', stdio: 'pipe' }))
  try {
    const home = execFileSync('sh', ['-c', `echo ~${name}`], { encoding: 'utf8' }).trim()
    return { name, uid: id('-u'), gid: id('-g'), home }
  } catch {
    throw new Error(`WEFT_HOST_USER: this machine has no user ${name}`)
  }
}

/** Options of `spawn`, and the variables, for a program of the user. */
export const asUser = (user: HostUser | null): { uid?: number; gid?: number } =>
  user === null ? {} : { uid: user.uid, gid: user.gid }
export const homeOf = (user: HostUser | null): { HOME?: string } =>
  user === null || user.home === null ? {} : { HOME: user.home }

/** The application may need the variables that the operator set, but not our own credentials. */
const OWN_VARIABLES = /^(NATS_|MONGODB_URL$|DATABASE_URI$|POSTGRES_URI$|LANGGRAPH_AES_KEY$|WEFT_)/

/** The variables of this process, without credentials and settings of ours. */
export const inheritedEnv = () => withoutOwn(process.env)

/** The variables without credentials and settings of ours. */
export const withoutOwn = (env: { readonly [name: string]: string | undefined }) =>
  Object.fromEntries(Object.entries(env).filter(([name]) => !OWN_VARIABLES.test(name)))

/**
 * The folder and the words of a program that starts in `cwd`. The program of another user enters it by itself: we could
 * enter folders that are closed to this user, if the path has become a link.
 */
export function startIn(
  user: HostUser | null,
  cwd: string,
  command: string,
  args: readonly string[],
): { cwd: string; command: string; args: string[] } {
  if (user === null) return { cwd, command, args: [...args] }
  return { cwd: '/', command: '/bin/sh', args: ['-c', ENTER, 'sh', cwd, command, ...args] }
}

const ENTER = 'cd -- "$1" && shift && exec "$@"'

/** Options for a small program of the user, who can read the environment of each of their processes. */
export const aside = (user: HostUser) =>
  ({ ...asUser(user), cwd: '/', env: { ...inheritedEnv(), ...homeOf(user) } }) as const

/** The same without variables that the operator has set. */
export const asideBare = (user: HostUser) => ({ ...aside(user), env: { PATH: process.env.PATH } }) as const

/** Throws an Error with one sentence when the user cannot enter the folder. */
export function checkReach(user: HostUser, folder: string): void {
  const { status } = spawnSync('/bin/sh', ['-c', 'cd -- "$1"', 'sh', folder], { ...aside(user), stdio: 'ignore' })
  if (status !== 0)
    throw new Error(`WEFT_HOST_USER: ${user.name} cannot enter ${folder}; expected a folder whose parents it can enter`)
}

/**
 * Throws an Error with one sentence when the user can put another folder in the place of this one or of one above it: we
 * would write there. `setting` names it.
 */
export function checkOurs(user: HostUser, folder: string, setting: string): void {
  for (const start of new Set([resolve(folder), realpathSync(folder)]))
    for (let path = start; ; path = dirname(path)) {
      const found = lstatSync(path)
      const isOpen = !found.isSymbolicLink() && canChange(user, found)
      if (found.uid === user.uid || isOpen)
        throw new Error(
          `WEFT_HOST_USER: ${user.name} can exchange what is in ${path}, where Weft writes as root; expected ${setting} below folders that only root can change`,
        )
      if (path === dirname(path)) break
    }
}

/** In a folder with the sticky bit everybody changes what is theirs. */
const canChange = ({ gid }: HostUser, { mode, gid: group }: Stats): boolean =>
  (mode & 0o1000) === 0 && ((mode & 0o002) !== 0 || (group === gid && (mode & 0o020) !== 0))

export const canWrite = (user: HostUser, path: string): boolean =>
  spawnSync('/bin/sh', ['-c', 'test -w "$1"', 'sh', path], { ...aside(user), stdio: 'ignore' }).status === 0

/** Throws an Error with one sentence when the user cannot execute the interpreter. */
export function checkPython(user: HostUser, python: string): void {
  if (spawnSync(python, ['--version'], { ...aside(user), stdio: 'ignore' }).status === 0) return
  throw new Error(
    `WEFT_HOST_USER: ${user.name} cannot execute ${python}; expected a Python in folders that it can enter: ` +
      'set WEFT_PYTHON, or XDG_CACHE_HOME for environments that Weft makes',
  )
}

/** Kills a process that leads a group, with every process of the group, at once. An empty group is no error. */
export function killGroup(pid: number): void {
  if (pid === 0) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // No process of the group exists any more.
  }
}
