/**
 * Slows down a client that guesses keys: after some refused keys within a minute, the requests of its address with a key
 * are checked one after the other, with a pause before each. The pause comes before the check, so that it cannot be
 * skipped by leaving early.
 */
import { setTimeout as sleep } from 'node:timers/promises'

const FREE = 10
const WINDOW_MS = 60_000
const PAUSE_MS = 50
const MAX_WAITING = 100
const MAX_ADDRESSES = 10_000

interface Entry {
  refused: number
  since: number
  waiting: number
  line: Promise<void>
}

export interface Penalty {
  /** Resolves when the key may be checked; false: too many requests of this address wait. */
  admit(address: string): Promise<boolean>
  /** A key was refused. True for the first of a window beyond the free ones: worth a log line. */
  refused(address: string): boolean
}

export function openPenalty(now: () => number = Date.now): Penalty {
  const entries = new Map<string, Entry>()

  function find(address: string): Entry | undefined {
    const entry = entries.get(address)
    if (entry === undefined || now() - entry.since < WINDOW_MS || entry.waiting > 0) return entry
    entries.delete(address)
    return undefined
  }

  return {
    async admit(address) {
      const entry = find(address)
      if (entry === undefined || entry.refused < FREE) return true
      if (entry.waiting >= MAX_WAITING) return false
      entry.waiting++
      const turn = entry.line.then(() => sleep(PAUSE_MS))
      entry.line = turn
      await turn
      entry.waiting--
      return true
    },
    refused(address) {
      const entry = find(address) ?? { refused: 0, since: now(), waiting: 0, line: Promise.resolve() }
      entry.refused++
      if (entries.size >= MAX_ADDRESSES && !entries.has(address)) entries.delete(entries.keys().next().value!)
      entries.set(address, entry)
      return entry.refused === FREE
    },
  }
}
