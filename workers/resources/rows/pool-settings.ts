/**
 * The data settings of an application's langgraph.json, as the graph workers of each pool announce it. It is
 * stored, because resource workers need it also while no graph worker runs.
 */
import { isDeepStrictEqual } from 'node:util'
import { jsonText } from '../../../schemas/exact.js'
import type { Store } from '../../../store/port.js'
import { newRecord } from './record.js'

export interface PoolSettings<Value> {
  /** The settings of the application's pools, in the order of their names; cached for 5 s. */
  of(app: string): Promise<Value[]>
  /** The settings of one pool; null when it has none. */
  get(app: string, pool: string): Promise<Value | null>
  /** Like `get`, from the store and not from the cache. */
  stored(app: string, pool: string): Promise<Value | null>
  /** Replaces the settings of a pool; null removes them. */
  announce(app: string, pool: string, value: Value | null): Promise<void>
}

/** A value that another resource worker stored shows here after this time. */
const CACHE_MS = 5_000
const MAX_POOLS = 100

/** `kind`: the kind of the records that hold the settings. */
export function openPoolSettings<Value>(store: Store, kind: string): PoolSettings<Value> {
  const cache = new Map<string, { values: Map<string, Value>; until: number }>()
  const settingsOf = ({ body }: { body: string }) => JSON.parse(body) as Value
  const idOf = (app: string, pool: string) => `${app} ${pool}`

  async function read(app: string): Promise<Map<string, Value>> {
    const cached = cache.get(app)
    if (cached !== undefined && cached.until > performance.now()) return cached.values
    const rows = await store.records.list({ kind, parent: app, sort: 'id', order: 'asc', limit: MAX_POOLS })
    const values = new Map(rows.map(row => [row.id, settingsOf(row)]))
    cache.set(app, { values, until: performance.now() + CACHE_MS })
    return values
  }

  async function stored(app: string, pool: string): Promise<Value | null> {
    const row = await store.records.get(kind, idOf(app, pool))
    return row === null ? null : settingsOf(row)
  }

  return {
    of: async app => [...(await read(app)).values()],
    async get(app, pool) {
      const values = await read(app)
      // A deployment has a pool per revision, and the newest comes last.
      return values.get(idOf(app, pool)) ?? (values.size < MAX_POOLS ? null : stored(app, pool))
    },
    stored,
    async announce(app, pool, value) {
      const id = idOf(app, pool)
      if (isDeepStrictEqual(await stored(app, pool), value)) return
      if (value === null) await store.apply([{ step: 'records.remove', kind, id, where: {} }])
      else {
        // Never removed in between: without its settings a pool would be served as one that has none.
        const body = jsonText(value)
        const row = newRecord(kind, id, { app, parent: app, body })
        if ((await store.apply([{ step: 'records.insert', row }])) !== -1)
          await store.apply([{ step: 'records.patch', kind, id, where: {}, set: { body, updated_at: row.updated_at } }])
      }
      cache.delete(app)
    },
  }
}
