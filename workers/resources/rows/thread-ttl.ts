/**
 * Expiry of threads (docs/spec/threads.md#create). The time counts from the last change
 * of the thread. The row holds when to check, and only then is `updated_at` read, so that a run costs nothing.
 */
import type { ThreadTtl } from '../../../schemas/threads.js'
import type { ThreadRow, Ttl } from '../../../store/rows/threads.js'
import { clock } from '../clock.js'
import type { AppSettings } from './app-settings.js'

const MINUTE_MS = 60_000
/** Defaults of langgraph.json. */
const SWEEP_MINUTES = 5
const SWEEP_LIMIT = 1_000
/** A thread that is incomplete or being removed is hidden, and swept after this time. */
export const HALF_MADE_MS = 10 * MINUTE_MS

/** For a new thread without a `ttl` of the client; null = it never expires. */
export async function defaultTtl(settings: AppSettings, app: string): Promise<Ttl | null> {
  const defaults = await settings.of('thread_ttl', app)
  const { default_ttl, strategy } = defaults.find(one => one.default_ttl !== undefined) ?? {}
  return default_ttl === undefined ? null : { minutes: default_ttl, strategy: strategy ?? 'delete' }
}

/** How many threads may be swept now, over all applications; null: the next sweep is not due yet. */
export type DueSweep = () => Promise<number | null>

export function openSweeps(settings: AppSettings): DueSweep {
  let swept = 0
  return async () => {
    const all = await settings.all('thread_ttl')
    const minutes = all.map(one => one.sweep_interval_minutes ?? SWEEP_MINUTES)
    const every_ms = (minutes.length > 0 ? Math.min(...minutes) : SWEEP_MINUTES) * MINUTE_MS
    if (clock.now() < swept + every_ms) return null
    swept = clock.now()
    return Math.max(0, ...all.map(one => one.sweep_limit ?? SWEEP_LIMIT)) || SWEEP_LIMIT
  }
}

/** The `ttl` that a client requested; null without one. */
export function readTtl(given: ThreadTtl | number | null | undefined): Ttl | null {
  if (given === null || given === undefined) return null
  if (typeof given === 'number') return { minutes: given, strategy: 'delete' }
  return { minutes: given.ttl, strategy: given.strategy ?? 'delete' }
}

/** The expiry fields of a thread row, counted from `now`. */
export const ttlFields = (ttl: Ttl | null, now: number): Pick<ThreadRow, 'ttl' | 'expires_at'> => ({
  ttl,
  expires_at: ttl === null ? null : now + Math.ceil(ttl.minutes * MINUTE_MS),
})

/** When the thread expires: counted from its last change, or later when the expiry was postponed. */
export function expiryOf({ ttl, updated_at, expires_at }: ThreadRow): number | null {
  if (ttl === null || expires_at === null) return expires_at
  return Math.max(expires_at, ttlFields(ttl, updated_at).expires_at!)
}
