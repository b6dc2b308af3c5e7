/**
 * How long threads live (API: threads-and-runs 5 `ttl`; assistants-crons-store 10.3). The time counts from the last
 * change of the thread: the row says when to look, and only then is `updated_at` looked at, so that a run costs nothing.
 */
import { isDeepStrictEqual } from 'node:util'
import type { ThreadTtl, TtlDefaults } from '../../../schemas/threads.js'
import type { Store, ThreadRow, Ttl } from '../../../store/port.js'
import { newRecord } from './record.js'

const MINUTE_MS = 60_000
/** What langgraph.json does not say. */
const SWEEP_MINUTES = 5
const SWEEP_LIMIT = 1_000
/** What another resource worker was told shows here after this time. */
const KEPT_MS = 5_000
const KIND = 'thread_ttl'
/** A thread that is half made or half removed is hidden, and swept after this time. */
export const HALF_MADE_MS = 10 * MINUTE_MS

export interface Ttls {
  /** Of a new thread for which the client named none; null = for ever. */
  of(app: string): Promise<Ttl | null>
  /** What the langgraph.json of a pool of the application says; null: nothing. */
  announce(app: string, pool: string, defaults: TtlDefaults | null): Promise<void>
  /** How many threads may be swept now; null: it is not time yet. For all applications together. */
  sweep(): Promise<number | null>
}

export function openTtls(store: Store): Ttls {
  const kept = new Map<string, { ttl: Ttl | null; until: number }>()
  let swept = 0
  const bodyOf = ({ body }: { body: string }) => JSON.parse(body) as TtlDefaults
  return {
    async of(app) {
      const known = kept.get(app)
      if (known !== undefined && known.until > Date.now()) return known.ttl
      const said = (await store.records.list({ kind: KIND, parent: app, sort: 'id', order: 'asc', limit: 100 })).map(
        bodyOf,
      )
      const { default_ttl, strategy } = said.find(one => one.default_ttl !== undefined) ?? {}
      const ttl = default_ttl === undefined ? null : { minutes: default_ttl, strategy: strategy ?? 'delete' }
      kept.set(app, { ttl, until: Date.now() + KEPT_MS })
      return ttl
    },
    async announce(app, pool, defaults) {
      const id = `${app} ${pool}`
      const stored = await store.records.get(KIND, id)
      if (isDeepStrictEqual(stored === null ? null : bodyOf(stored), defaults)) return
      await store.apply([{ step: 'records.remove', kind: KIND, id, where: {} }])
      kept.delete(app)
      if (defaults === null) return
      const row = newRecord(KIND, id, { app, parent: app, body: JSON.stringify(defaults) })
      await store.apply([{ step: 'records.insert', row }])
      kept.delete(app)
    },
    async sweep() {
      const all = (await store.records.list({ kind: KIND, limit: 1_000 })).map(bodyOf)
      const minutes = all.map(one => one.sweep_interval_minutes ?? SWEEP_MINUTES)
      const every_ms = (minutes.length > 0 ? Math.min(...minutes) : SWEEP_MINUTES) * MINUTE_MS
      if (Date.now() < swept + every_ms) return null
      swept = Date.now()
      return Math.max(0, ...all.map(one => one.sweep_limit ?? SWEEP_LIMIT)) || SWEEP_LIMIT
    },
  }
}

/** What a client asked for; null when it asked for nothing. */
export function readTtl(given: ThreadTtl | number | null | undefined): Ttl | null {
  if (given === null || given === undefined) return null
  if (typeof given === 'number') return { minutes: given, strategy: 'delete' }
  return { minutes: given.ttl, strategy: given.strategy ?? 'delete' }
}

/** The members of a thread row that say how long it lives from `now` on. */
export const ttlFields = (ttl: Ttl | null, now: number): Pick<ThreadRow, 'ttl' | 'expires_at'> => ({
  ttl,
  expires_at: ttl === null ? null : now + Math.ceil(ttl.minutes * MINUTE_MS),
})

/** When the thread expires: its time from its last change on, or later where that was put off. */
export function expiryOf({ ttl, updated_at, expires_at }: ThreadRow): number | null {
  if (ttl === null || expires_at === null) return expires_at
  return Math.max(expires_at, ttlFields(ttl, updated_at).expires_at!)
}
