/**
 * The vectors of applications in the memory of this worker, for semantic search: one thread for each application that is
 * searched (rank-thread.ts). The store is the truth: before each search the thread is given what was written since, by
 * whichever worker, and its answers are compared with the rows.
 */
import { Worker } from 'node:worker_threads'
import { fail } from '../../../schemas/errors.js'
import type { Store } from '../../../store/port.js'
import type { ItemKey } from '../../../store/rows/items.js'
import { clock } from '../clock.js'
import { openNearest, type Scored } from './nearest.js'
import type { RankCall, RankData, Ranked, Ref } from './rank-thread.js'
import { shared } from './shared.js'

export interface RankLimits {
  /** Vectors of one application. */
  vectors: number
  /** Bytes of the vectors of one application, and of all that are in memory. */
  bytes: number
}

const LIMITS: RankLimits = { vectors: 100_000, bytes: 512 * 1024 * 1024 }
/** Rows become visible in another order than their times: the rows of this long before the last are compared again. */
const OVERLAP_MS = 5_000
/** An application with too many vectors is not loaded again before this time; the second one: that the database searches. */
const REFUSED_MS = 60_000
const SEARCHED_MS = 3_600_000
/** Rows that are listed, and rows whose vectors are read, in one go. */
const LISTED = 1_000
const READ = 64
/** The first page of ranked items; each further one is twice as large. */
const PAGE = 64
/** A search begins anew when its items were changed meanwhile, this many times at most. */
const RESTARTS = 5

export interface Rankings {
  /** An item was written by this worker. */
  note(app: string, item: ItemKey): void
  /**
   * Items at or below the namespace that have vectors of `query`'s size, most similar first. An application with more
   * vectors than can be ranked here is searched by the database (nearest.ts); throws `invalid` when that has no vector
   * search, `unavailable` while its index is being made.
   */
  search(app: string, query: Float32Array, namespace: readonly string[]): AsyncGenerator<Scored>
  close(): Promise<void>
}

export function openRankings(store: Store, limits: RankLimits = LIMITS): Rankings {
  const all = new Map<string, Ranking>()
  /** Applications with too many vectors, and when they were not loaded. */
  const refused = new Map<string, number>()
  const nearest = openNearest(store)

  /** Null for an application with too many vectors. */
  async function current(app: string, dims: number): Promise<Ranking | null> {
    if ((refused.get(app) ?? -Infinity) > performance.now() - (nearest?.has(app) ? SEARCHED_MS : REFUSED_MS))
      return null
    let ranking = all.get(app)
    if (ranking !== undefined && (ranking.dims !== dims || ranking.ended)) {
      close(app)
      ranking = undefined
    }
    ranking ??= new Ranking(store, app, dims, limits)
    // The last one in the map is the one used last.
    all.delete(app)
    all.set(app, ranking)
    try {
      await ranking.update()
    } catch (error) {
      close(app, ranking)
      if (error !== ranking.over) throw error
      refused.set(app, performance.now())
      return null
    }
    let bytes = 0
    for (const [other, { bytes: own }] of [...all].reverse())
      if ((bytes += own) > limits.bytes && other !== app) close(other)
    return ranking
  }

  function close(app: string, one = all.get(app)): void {
    if (all.get(app) === one) all.delete(app)
    void one?.close()
  }

  return {
    note(app, item) {
      all.get(app)?.noted.push(item)
      nearest?.note(app)
    },
    async *search(app, query, namespace) {
      const ranking = await current(app, query.length)
      if (ranking !== null) yield* ranking.search(query, pathOf(namespace))
      else if (await nearest?.open(app, query.length)) yield* nearest!.search(app, query, namespace)
      else throw tooMany(limits)
    },
    async close() {
      nearest?.close()
      await Promise.all([...all.values()].map(ranking => ranking.close()))
      all.clear()
    },
  }
}

const pathOf = (namespace: readonly string[]): string => namespace.map(label => `${label}.`).join('')
const refOf = ({ namespace, key, updated_at }: ItemKey & { updated_at: number }): Ref => [
  pathOf(namespace),
  key,
  updated_at,
]
const keyOf = ([path, key]: Ref): ItemKey => ({ namespace: path.slice(0, -1).split('.'), key })
const idOf = ([path, key]: Ref): string => `${path}\0${key}`

const tooMany = ({ vectors, bytes }: RankLimits) =>
  fail(
    'invalid',
    `query: semantic search ranks up to ${vectors} vectors or ${Math.floor(bytes / 1024 / 1024)} MB of them in an application, and this one has more; remove items, or store them with index: false`,
  )

/** The vectors of one application. */
class Ranking {
  /** Items that this worker has written since the last update. */
  noted: ItemKey[] = []
  bytes = 0
  ended = false
  /** Thrown when there are too many vectors. */
  readonly over = new Error('too many vectors')
  private readonly thread: Worker
  private readonly waiting: { resolve(value: never): void; reject(error: Error): void }[] = []
  /** The last row that was seen, in the order of `items.indexed`. */
  private last = { updated_at: 0, namespace: [] as string[], key: '' }

  constructor(
    private readonly store: Store,
    private readonly app: string,
    readonly dims: number,
    private readonly limits: RankLimits,
  ) {
    this.thread = new Worker(new URL('../../../programs/ranking.js', import.meta.url), {
      workerData: { dims } satisfies RankData,
      execArgv: [],
    })
    this.thread.on('message', value => this.waiting.shift()?.resolve(value as never))
    this.thread.on('error', error => this.end(error))
    this.thread.on('exit', () => this.end(new Error('it ended')))
    this.thread.unref()
  }

  /** Reads what was written before this call. */
  readonly update = shared(() => this.catchUp())

  private async catchUp(): Promise<void> {
    const { store, app } = this
    const noted = this.noted.splice(0)
    if (noted.length > 0) await this.read(noted)
    let after = { updated_at: this.last.updated_at - OVERLAP_MS, namespace: [] as string[], key: '' }
    for (;;) {
      const page = await store.items.indexed(app, after, LISTED)
      const missing = await this.call<Ref[]>({ do: 'missing', refs: page.map(refOf) })
      await this.read(missing.map(keyOf))
      if (page.length > 0) this.last = after = page.at(-1)!
      if (page.length < LISTED) return
    }
  }

  /** Puts the present vectors of these items in the place of what the thread has. */
  private async read(items: readonly ItemKey[]): Promise<void> {
    for (let at = 0; at < items.length; at += READ) {
      const keys = items.slice(at, at + READ)
      const found = await this.store.items.vectors(this.app, keys)
      await this.call({ do: 'drop', refs: keys.map(item => refOf({ ...item, updated_at: 0 })) })
      const count = await this.call<number>({
        do: 'put',
        items: found.map(one => ({ ref: refOf(one), vectors: one.vectors })),
      })
      this.bytes = count * this.dims * Float32Array.BYTES_PER_ELEMENT
      if (count > this.limits.vectors || this.bytes > this.limits.bytes) throw this.over
    }
  }

  async *search(query: Float32Array, prefix: string): AsyncGenerator<Scored> {
    const seen = new Set<string>()
    let restarts = 0
    for (let from = 0, count = PAGE; ; ) {
      const ranked = await this.call<Ranked[]>({ do: 'rank', query, prefix, from, count })
      const page = ranked.filter(({ ref }) => !seen.has(idOf(ref)))
      const rows = await this.store.items.many(
        this.app,
        page.map(({ ref }) => keyOf(ref)),
        clock.now(),
      )
      const byId = new Map(rows.map(row => [idOf(refOf(row)), row]))
      const changed = page.filter(({ ref }) => byId.get(idOf(ref))?.updated_at !== ref[2]).map(({ ref }) => ref)
      if (changed.length > 0) {
        await this.read(changed.map(keyOf))
        // A vector that was read may rank before one that was not yielded yet.
        if (changed.some(ref => byId.has(idOf(ref))) && restarts++ < RESTARTS) {
          from = 0
          continue
        }
      }
      for (const { ref, score } of page) {
        const row = byId.get(idOf(ref))
        if (row?.updated_at !== ref[2]) continue
        seen.add(idOf(ref))
        yield { row, score }
      }
      if (ranked.length < count) return
      // Removed vectors are missing in the next ranking.
      from += count - changed.length
      count *= 2
    }
  }

  private call<Answer>(call: RankCall): Promise<Answer> {
    if (this.ended) return Promise.reject(fail('unavailable', 'The vectors of the application are being loaded again'))
    return new Promise((resolve, reject) => {
      this.waiting.push({ resolve, reject })
      this.thread.postMessage(call)
    })
  }

  private end(error: Error): void {
    this.ended = true
    const failure = fail('unavailable', `The thread that ranks vectors has ended: ${error.message}`)
    for (const { reject } of this.waiting.splice(0)) reject(failure)
  }

  async close(): Promise<void> {
    await this.thread.terminate()
  }
}
