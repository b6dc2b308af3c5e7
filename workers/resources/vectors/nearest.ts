/**
 * Semantic search by the database, for applications with more vectors than this worker ranks (ranking.ts): approximate, and
 * later than writes by the time that its index needs. Vectors are copied for it when such an application is searched, and
 * each time before it is searched. A search answers only after the index has had all that was there when this worker
 * searched the application first.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { fail } from '../../../schemas/errors.js'
import type { Store } from '../../../store/port.js'
import type { ItemKey, ItemRow } from '../../../store/rows/items.js'
import { clock } from '../clock.js'
import { shared } from './shared.js'

export interface Scored {
  row: ItemRow
  score: number
}

export interface Nearest {
  /**
   * Copies what was written before this call. False when the database has no search for vectors of this size; throws
   * `unavailable` while the index has not had the vectors of the application.
   */
  open(app: string, dims: number): Promise<boolean>
  /** Whether the application was opened. */
  has(app: string): boolean
  /** An item was written by this worker. */
  note(app: string): void
  /** Like Rankings.search, for an application that is open; at most the 10,000 nearest vectors. */
  search(app: string, query: Float32Array, namespace: readonly string[]): AsyncGenerator<Scored>
  close(): void
}

/** Vectors of one query, one after the other until the caller has enough; the last one is the limit of MongoDB. */
const LIMITS = [64, 512, 4_096, 10_000]
/** Items read in one go. */
const READ = 64
/** A search waits this long for what was written last. */
const WAIT_MS = 2_000
const LOOK_MS = 200
/** An index that has not caught up by now is given another mark. */
const CAUGHT_UP_MS = 600_000

/** The copies of one application. */
interface Copying {
  dims: number
  /** The index has had all that was there at the first search. */
  isComplete: boolean
  turn(): Promise<void>
}

/** Null when the store has no vector search. */
export function openNearest({ nearest, items }: Store): Nearest | null {
  if (nearest === undefined) return null
  const all = new Map<string, Copying>()
  const closing = new AbortController()
  const { signal } = closing

  function copyingOf(app: string, dims: number): Copying {
    const found = all.get(app)
    if (found?.dims === dims) return found
    const copying: Copying = {
      dims,
      isComplete: false,
      turn: shared(async () => {
        while (await nearest!.copy(app, dims)) signal.throwIfAborted()
        if (copying.isComplete) return
        await untilCaughtUp(dims)
        copying.isComplete = true
      }),
    }
    all.set(app, copying)
    return copying
  }

  async function untilCaughtUp(dims: number): Promise<void> {
    const until = performance.now() + CAUGHT_UP_MS
    const look = async () => {
      await sleep(LOOK_MS, undefined, { signal, ref: false })
      if (performance.now() > until) throw fail('unavailable', COPIED)
    }
    while ((await nearest!.prepare(dims)) !== 'ready') await look()
    const mark = await nearest!.mark(dims)
    while (!(await nearest!.reached(dims, mark))) await look()
  }

  return {
    async open(app, dims) {
      if ((await nearest.prepare(dims)) === 'none') return false
      const copying = copyingOf(app, dims)
      const turn = copying.turn()
      const waited = new AbortController()
      turn.catch(() => {})
      try {
        await Promise.race([turn, sleep(WAIT_MS, undefined, { signal: waited.signal, ref: false })])
      } finally {
        waited.abort()
      }
      if (!copying.isComplete) throw fail('unavailable', COPIED)
      return true
    },
    has: app => all.has(app),
    note: app =>
      void all
        .get(app)
        ?.turn()
        .catch(() => {}),
    async *search(app, query, prefix) {
      // It has no direction.
      if (query.every(number => number === 0)) return
      const seen = new Set<string>()
      let before = 0
      for (const limit of LIMITS) {
        const found = await nearest.find({ app, prefix, query, limit })
        const others = found.filter(one => !seen.has(idOf(one)))
        for (let at = 0; at < others.length; at += READ) {
          const some = others.slice(at, at + READ)
          const rows = new Map((await items.many(app, unique(some), clock.now())).map(row => [idOf(row), row]))
          const isPresent = (one: ItemKey & { updated_at: number }) =>
            rows.get(idOf(one))?.updated_at === one.updated_at
          const stale = some.filter(one => !isPresent(one))
          if (stale.length > 0) await nearest.drop(app, stale)
          for (const one of some) {
            const id = idOf(one)
            if (seen.has(id) || !isPresent(one)) continue
            seen.add(id)
            yield { row: rows.get(id)!, score: one.score }
          }
        }
        // Fewer than were asked for may be all, or some were removed since the index has seen them.
        if (found.length <= before) return
        before = found.length
      }
    },
    close: () => closing.abort(),
  }
}

const COPIED =
  'query: this application has more vectors than are ranked in memory, and they are being copied to the vector index of the database; ask again'

const idOf = ({ namespace, key }: ItemKey): string => JSON.stringify([namespace, key])
const unique = (some: readonly ItemKey[]): ItemKey[] => [...new Map(some.map(one => [idOf(one), one])).values()]
