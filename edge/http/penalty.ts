/**
 * Slows down a client that guesses keys: after some wrong keys within a minute, the answers to further wrong keys of its
 * address wait, one after the other. Keys are checked first, so that a right key never waits for the wrong ones of others
 * who share its address.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { fail } from '../../schemas/errors.js'

const FREE = 10
const WINDOW_MS = 60_000
const PAUSE_MS = 50
const MAX_WAITING = 100
const MAX_ADDRESSES = 10_000
const MANY_KEYS = 'Too many requests with a wrong key from this address'

interface Entry {
  refused: number
  since: number
  waiting: number
  line: Promise<void>
}

interface Client {
  /** Empty for the sockets of the server itself, whose clients were counted before. */
  readonly remoteAddress: string
  readonly requestId: string
}

export interface Penalty {
  /** The key that was found; null for a wrong one, after the pause. Rejects with `too_many` when too many of them wait. */
  check<T>(client: Client, found: T | null | Promise<T | null>): Promise<T | null>
}

interface Options {
  /** Called with the first wrong key of a window beyond the free ones: worth a log line. */
  onMany(client: { remote_address: string; request_id: string }): void
  now?(): number
}

export function openPenalty({ onMany, now = Date.now }: Options): Penalty {
  const entries = new Map<string, Entry>()

  function entryOf(address: string): Entry {
    const known = entries.get(address)
    if (known !== undefined && (now() - known.since < WINDOW_MS || known.waiting > 0)) return known
    entries.delete(address)
    if (entries.size >= MAX_ADDRESSES) entries.delete(entries.keys().next().value!)
    const entry = { refused: 0, since: now(), waiting: 0, line: Promise.resolve() }
    entries.set(address, entry)
    return entry
  }

  return {
    async check({ remoteAddress, requestId }, found) {
      const key = await found
      if (key !== null || remoteAddress === '') return key
      const entry = entryOf(remoteAddress)
      if (++entry.refused === FREE) onMany({ remote_address: remoteAddress, request_id: requestId })
      if (entry.refused <= FREE) return null
      if (entry.waiting >= MAX_WAITING) throw fail('too_many', MANY_KEYS)
      entry.waiting++
      const turn = entry.line.then(() => sleep(PAUSE_MS))
      entry.line = turn
      await turn
      entry.waiting--
      return null
    },
  }
}
