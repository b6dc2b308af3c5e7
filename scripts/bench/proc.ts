/**
 * Resource usage of processes by role, from /proc: CPU time, memory, bytes written to disk. Zero on systems without
 * /proc.
 */
import { readFileSync } from 'node:fs'

const TICKS_PER_SECOND = 100

export type Role = string

/** The first row that matches a command line gives the role. */
const ROLES: readonly [RegExp, Role][] = [
  [/workers\/host\/main\.js|programs\/host\.js|host-python\/start\.py/, 'host'],
  [/roles-main\.js/, 'server'],
  [/nats-server -c /, 'nats'],
  [/^\S*java .*WeftTestMongo|^\S*mongod /, 'mongo'],
  [/^\S*postgres /, 'postgres'],
  [/weft\.js start/, 'launcher'],
  [/weft\.js (edge|resources|graphs|deployer)\b/, '$1'],
  [/langgraph-api\/dist\/cli\/entrypoint\.mjs/, 'dev-server'],
  [/langgraph-cli|langgraphjs/, 'launcher'],
]

export interface Used {
  /** Seconds of CPU since the start of the processes. */
  cpu: { [role: Role]: number }
  /** Bytes written to disk. */
  written: { [role: Role]: number }
  /** Resident megabytes; shared pages count for each process. */
  rss: { [role: Role]: number }
  /** Megabytes with shared pages divided by their users. */
  pss: { [role: Role]: number }
}

/** `pids` and everything below them. */
export function usedBy(pids: readonly number[]): Used {
  const used: Used = { cpu: {}, written: {}, rss: {}, pss: {} }
  for (const pid of pids.flatMap(withBelow)) {
    const command = read(pid, 'cmdline').replaceAll('\0', ' ')
    const role = roleOf(command)
    add(used.cpu, role, cpuOf(pid))
    add(used.written, role, Number(/^write_bytes: (\d+)/m.exec(read(pid, 'io'))?.[1] ?? 0))
    const memory = read(pid, 'smaps_rollup')
    add(used.rss, role, Number(/^Rss: +(\d+)/m.exec(memory)?.[1] ?? 0) / 1024)
    add(used.pss, role, Number(/^Pss: +(\d+)/m.exec(memory)?.[1] ?? 0) / 1024)
  }
  return used
}

/** The usage between two readings. Memory is that of the second. */
export const between = (before: Used, after: Used): Used => ({
  cpu: minus(after.cpu, before.cpu),
  written: minus(after.written, before.written),
  rss: after.rss,
  pss: after.pss,
})

export const sum = (parts: { [role: Role]: number }): number => Object.values(parts).reduce((a, b) => a + b, 0)

export function withBelow(pid: number): number[] {
  return [pid, ...read(pid, `task/${pid}/children`).split(' ').filter(Boolean).map(Number).flatMap(withBelow)]
}

function roleOf(command: string): Role {
  // The shell that watches the NATS server has the server's path as an argument.
  if (/^sh /.test(command)) return 'launcher'
  for (const [pattern, role] of ROLES) {
    const found = pattern.exec(command)
    if (found !== null) return role === '$1' ? found[1]! : role
  }
  return 'other'
}

/**
 * Returns a reader of the share of all cores that the hypervisor gave to other machines since this call: "steal" of /proc/stat
 * (https://www.kernel.org/doc/html/latest/filesystems/proc.html, 1.7). The kernel also counts it as CPU time of the running process.
 */
export function stealMeter(): () => number {
  const look = () => {
    const fields = readFile('/proc/stat').split('\n')[0]!.trim().split(/ +/).slice(1, 9).map(Number)
    return { stolen: fields[7] ?? 0, all: fields.reduce((a, b) => a + b, 0) }
  }
  const from = look()
  return () => {
    const { stolen, all } = look()
    return all > from.all ? (stolen - from.stolen) / (all - from.all) : 0
  }
}

/** User and system time; the name in the second field may contain spaces. */
function cpuOf(pid: number): number {
  const fields = read(pid, 'stat')
    .replace(/^.*\) /s, '')
    .split(' ')
  return (Number(fields[11] ?? 0) + Number(fields[12] ?? 0)) / TICKS_PER_SECOND
}

const minus = (a: { [role: Role]: number }, b: { [role: Role]: number }): { [role: Role]: number } =>
  Object.fromEntries(Object.entries(a).map(([role, value]) => [role, value - (b[role] ?? 0)]))

function add(sums: { [role: Role]: number }, role: Role, value: number): void {
  sums[role] = (sums[role] ?? 0) + value
}

const read = (pid: number, file: string): string => readFile(`/proc/${pid}/${file}`)

function readFile(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
