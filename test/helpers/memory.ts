/** Memory and descriptors of other processes. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

const LINE = /VmRSS:\s*(\d+)/

/** Resident memory of a process in MB. */
export const rssOf = (pid: number): number => Number(LINE.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) / 1024

/** Open descriptors; throws when the process has ended. */
export const descriptorsOf = (pid: number): number => readdirSync(`/proc/${pid}/fd`).length

/** Those of them that are connections to this port; throws when the process has ended. */
export function connectionsTo(pid: number, port: number): number {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  const sockets = new Set<string>()
  for (const name of ['tcp', 'tcp6'])
    for (const line of readFileSync(`/proc/${pid}/net/${name}`, 'utf8').split('\n')) {
      const columns = line.trim().split(/\s+/)
      if (columns[2]?.endsWith(suffix)) sockets.add(`socket:[${columns[9]}]`)
    }
  return readdirSync(`/proc/${pid}/fd`).filter(fd => {
    try {
      return sockets.has(readlinkSync(`/proc/${pid}/fd/${fd}`))
    } catch {
      // Closed meanwhile.
      return false
    }
  }).length
}
