/** What every handler of a resource worker is given, and the small things that all of them need. */

import type { Caller } from '../bus/call.js'
import type { Link } from '../bus/connect.js'
import type { Mux } from '../bus/mux.js'
import type { Config } from '../schemas/config.js'
import type { Store } from '../store/port.js'
import type { Alarms } from './alarms.js'
import type { Apps } from './apps.js'
import type { Workspace } from './control.js'
import type { Allowed } from './outbound.js'
import type { KeyRing } from './secrets.js'
import type { Ttls } from './thread-ttl.js'

export interface Tools {
  config: Config
  store: Store
  link: Link
  mux: Mux
  caller: Caller
  apps: Apps
  ttls: Ttls
  /** Addresses that users may name although they are not public. */
  allowed: Allowed
  webhookSecret: Buffer
  /** What secrets at rest are encrypted with. */
  ring: KeyRing
  workspace: Workspace
  inTurn: ReturnType<typeof turns>
  alarms: Alarms
}

/** Own keys of all objects, later ones win. `__proto__` stays data. */
export function merge(...objects: (object | null | undefined)[]): { [key: string]: unknown } {
  const out: { [key: string]: unknown } = {}
  for (const object of objects) {
    if (object === null || object === undefined) continue
    for (const [key, value] of Object.entries(object)) {
      if (key === '__proto__')
        Object.defineProperty(out, key, { value, enumerable: true, writable: true, configurable: true })
      else out[key] = value
    }
  }
  return out
}

/**
 * Work on one thread of this worker, one after the other: the compare-and-set alone would decide, but a hundred
 * callers at once would spend their time losing races (300 parallel cancels took 20 s). Never taken twice in one call.
 */
export function turns(): <T>(thread_id: string, work: () => Promise<T>) => Promise<T> {
  const last = new Map<string, Promise<unknown>>()
  return (thread_id, work) => {
    const mine = (last.get(thread_id) ?? Promise.resolve()).then(work, work)
    const done = mine.then(
      () => {},
      () => {},
    )
    last.set(thread_id, done)
    void done.then(() => last.get(thread_id) === done && last.delete(thread_id))
    return mine
  }
}

export const isObject = (value: unknown): value is { [key: string]: unknown } =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export const time = (ms: number): string => new Date(ms).toISOString()
