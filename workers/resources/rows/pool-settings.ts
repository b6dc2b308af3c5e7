/**
 * What the langgraph.json of an application says about its data, as the graph workers of each pool announce it. It is
 * stored, because resource workers need it also while no graph worker runs.
 */
import { isDeepStrictEqual } from 'node:util'
import type { Store } from '../../../store/port.js'
import { newRecord } from './record.js'

export interface PoolSettings<Value> {
  /** The settings of the application's pools, in the order of their names; cached for 5 s. */
  of(app: string): Promise<Value[]>
  /** Those of one pool; null when it has none. */
  get(app: string, pool: string): Promise<Value | null>
  /** Replaces the settings of a pool; null removes them. */
  announce(app: string, pool: string, value: Value | null): Promise<void>
}

/** What another resource worker stored shows here after this time. */
const CACHE_MS = 5_000
const MAX_POOLS = 100

/** `kind`: the kind of the records that hold the settings. */
export function openPoolSettings<Value>(store: Store, kind: string): PoolSettings<Value> {
  const cache = new Map<string, { values: Map<string, Value>; until: number }>()
  const settingsOf = ({ body }: { body: string }) => JSON.parse(body) as Value
  const idOf = (app: string, pool: string) => `${app} ${pool}`

  async function read(app: string): Promise<Map<string, Value>> {
    const cached = cache.get(app)
    if (cached !== undefined && cached.until > Date.now()) return cached.values
    const rows = await store.records.list({ kind, parent: app, sort: 'id', order: 'asc', limit: MAX_POOLS })
    const values = new Map(rows.map(row => [row.id, settingsOf(row)]))
    cache.set(app, { values, until: Date.now() + CACHE_MS })
    return values
  }

  return {
    of: async app => [...(await read(app)).values()],
    get: async (app, pool) => (await read(app)).get(idOf(app, pool)) ?? null,
    async announce(app, pool, value) {
      const id = idOf(app, pool)
      const stored = await store.records.get(kind, id)
      if (isDeepStrictEqual(stored === null ? null : settingsOf(stored), value)) return
      await store.apply([{ step: 'records.remove', kind, id, where: {} }])
      if (value !== null) {
        const row = newRecord(kind, id, { app, parent: app, body: JSON.stringify(value) })
        await store.apply([{ step: 'records.insert', row }])
      }
      cache.delete(app)
    },
  }
}
