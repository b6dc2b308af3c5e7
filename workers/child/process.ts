/**
 * Programs that are not ours: graph hosts, and builds and probes of deployments. Each leads a process group, so that one
 * signal ends it with its children. WEFT_HOST_USER names their user: under the user of Weft they can read its keys and
 * its database, and the environment of its processes.
 */
import { execFileSync, spawnSync } from 'node:child_process'

export interface HostUser {
  name: string
  uid: number
  gid: number
  /** Null for a user without a name. */
  home: string | null
}

/** Null when no user is named. Throws an Error with one sentence: unknown user, or no right to change to it. */
export function findHostUser(name: string): HostUser | null {
  if (name === '') return null
  const user = read(name)
  if (process.getuid?.() !== 0 && process.getuid?.() !== user.uid)
    throw new Error(`WEFT_HOST_USER: only a start as root can run programs as ${name}`)
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

/** Throws an Error with one sentence when the user cannot enter the folder. */
export function checkReach(user: HostUser, folder: string): void {
  const { status } = spawnSync('sh', ['-c', 'cd "$1"', 'sh', folder], { ...asUser(user), cwd: '/', stdio: 'ignore' })
  if (status !== 0)
    throw new Error(`WEFT_HOST_USER: ${user.name} cannot enter ${folder}; expected a folder whose parents it can enter`)
}

/** Throws an Error with one sentence when the user cannot execute the interpreter. */
export function checkPython(user: HostUser, python: string): void {
  const options = { ...asUser(user), cwd: '/', stdio: 'ignore' } as const
  if (spawnSync(python, ['--version'], options).status === 0) return
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
