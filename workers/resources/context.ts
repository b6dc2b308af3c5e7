/** What every handler of a resource worker is given, and the small things that all of them need. */

import type { Caller } from '../../bus/call.js'
import type { Link } from '../../bus/connect.js'
import type { Mux } from '../../bus/mux.js'
import type { Config } from '../../schemas/config.js'
import type { ItemTtlDefaults } from '../../schemas/items.js'
import type { Store } from '../../store/port.js'
import type { Allowed } from '../outbound.js'
import type { Apps } from './apps.js'
import type { KeyRing } from './keys/ring.js'
import type { PoolSettings } from './rows/pool-settings.js'
import type { Ttls } from './rows/thread-ttl.js'
import type { Workspace } from './workspace.js'

export interface Deps {
  config: Config
  store: Store
  link: Link
  mux: Mux
  caller: Caller
  apps: Apps
  ttls: Ttls
  itemTtls: PoolSettings<ItemTtlDefaults>
  /** Addresses that users may name although they are not public. */
  allowed: Allowed
  webhookSecret: Buffer
  /** What secrets at rest are encrypted with. */
  ring: KeyRing
  workspace: Workspace
  serialize: ReturnType<typeof serializer>
  alarms: Alarms
}

/**
 * Work on one thread of this worker, one after the other: the compare-and-set alone would decide, but a hundred
 * callers at once would spend their time losing races (300 parallel cancels took 20 s). Never taken twice in one call.
 */
export function serializer(): <T>(thread_id: string, work: () => Promise<T>) => Promise<T> {
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

export interface Alarms {
  /** Call after a row that is due at `at` (ms) was stored. */
  set(at: number): void
  /** Fires what is due and sets the timer for the earliest row that is left. Never rejects. */
  look(): Promise<void>
  /** From now on what is due is fired. */
  start(deps: Deps): void
  /** How far the clock of this host is off (ms), when it is so far that nothing is fired; else null. */
  off(): number | null
  stop(): void
}
