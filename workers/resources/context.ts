/** The dependencies of every handler of a resource worker. */

import type { Caller } from '../../bus/call.js'
import type { Link } from '../../bus/connect.js'
import type { Mux } from '../../bus/mux.js'
import type { Tracer } from '../../bus/otlp/traces.js'
import type { Issuer } from '../../bus/pool-users.js'
import type { StreamWatch } from '../../bus/stream-watch.js'
import type { Tunnels } from '../../bus/tunnel.js'
import type { SlotOffer } from '../../schemas/calls.js'
import type { Config } from '../../schemas/config.js'
import type { Pool } from '../../schemas/ids.js'
import type { Store } from '../../store/port.js'
import type { RunSummary } from '../../store/rows/runs.js'
import type { Allowed } from '../outbound.js'
import type { Apps } from './apps.js'
import type { Descriptions } from './descriptions.js'
import type { Disk } from './disk.js'
import type { Encryption } from './encryption/store.js'
import type { KeyRing } from './keys/ring.js'
import type { AppSettings } from './rows/app-settings.js'
import type { DueSweep } from './rows/thread-ttl.js'
import type { Scheduler } from './scheduling/scheduler.js'
import type { Serialize } from './serialize.js'
import type { Rankings } from './vectors/ranking.js'
import type { Workspace } from './workspace.js'

export interface Deps {
  config: Config
  store: Store
  link: Link
  mux: Mux
  streams: StreamWatch
  caller: Caller
  apps: Apps
  /** Parts of the langgraph.json of each pool. */
  settings: AppSettings
  dueSweep: DueSweep
  /** Streams to the routes of applications. */
  tunnels: Tunnels
  encryption: Encryption
  rankings: Rankings
  descriptions: Descriptions
  /** Addresses that are not public and that users may still name. */
  allowed: Allowed
  webhookSecret: Buffer
  /** Makes the users of pools at the broker; null: its configuration names no issuer. */
  issuer: Issuer | null
  /** Encrypts secrets at rest. */
  ring: KeyRing
  workspace: Workspace
  serialize: Serialize
  slots: Slots
  /** Which waiting run is next, when the operator has said so. */
  scheduler: Scheduler
  alarms: Alarms
  holders: Holders
  deliveries: Deliveries
  disk: Disk
  /** Null when nothing is traced. */
  tracer: Tracer | null
}

export interface Alarms {
  /** To be called after a row that is due at `at` (ms) was stored. */
  set(at: number): void
  /** Fires due rows and sets the timer for the earliest one left. Never rejects. */
  look(): Promise<void>
  /** Starts firing. */
  start(deps: Deps): void
  /** How many ms the clock of this worker differs, when that is too much to fire anything; else null. */
  off(): number | null
  /** How many ms the clock of this worker is ahead of the broker's; null before the first answer. */
  ahead(): number | null
  stop(): void
}

/** A slot that a graph worker keeps free for this resource worker: it must be used or given back. */
export interface Slot {
  /** The graph worker, as in `Claim`. */
  worker: string
  /** Receives the run. */
  member: string
  asker: string
  stamp: number
  /** The run was handed over: `next` is what the graph worker offers from now on. Null: it may have taken its offer back. */
  settle(next: SlotOffer | null): void
  /** No run uses it. */
  release(): void
}

export interface Slots {
  /** Null: no graph worker of the pool keeps a slot free. */
  take(pool: Pool): Slot | null
  /**
   * A graph worker of the pool has announced itself. Resolves when it has offered slots, if runs of the pool are created
   * here: the next ones are shared with it.
   */
  welcome(pool: Pool): Promise<void>
  /** A hand-over under way. What it throws is logged. */
  track(work: Promise<void>): void
  /** Resolves when no hand-over is under way. */
  close(): Promise<void>
}

/** One look at a running run. */
export type Look = Pick<RunSummary, 'attempt' | 'heartbeats'>

export interface Holders {
  /** True when the holder is dead: it sent no heartbeat between the calls of this function for the run. */
  isDead(run: Look & Pick<RunSummary, 'run_id'>): boolean
  /** Heartbeats of these runs arrived and could not be stored. */
  heard(run_ids: readonly string[]): void
  /** The process that holds this attempt has ended. */
  end(run: Look & Pick<RunSummary, 'run_id'>): void
  /** Heartbeats were lost or delayed until now: the time since the last proof that they arrive does not count. */
  reset(): void
  /** A heartbeat that is being stored, or a ping: while it is late, no holder is taken for dead. */
  track<T>(work: Promise<T>): Promise<T>
  /** Drops entries of runs that are no longer looked at; true while there are others. */
  prune(): boolean
}

/** A host that webhooks are delivered to. */
export interface WebhookHost {
  active: number
  /** Failed tries in a row. */
  failures: number
  /** No try before this time (ms). */
  closed_until: number
}

/** The deliveries of one resource worker. */
export interface Deliveries {
  underWay: Set<string>
  hosts: Map<string, WebhookHost>
  /** A delivery was turned away: the alarms run again when a place is free. */
  isCrowded: boolean
}
