/**
 * The heads of calls between edge, workers and back: small JSON beside an opaque body. Everything here is made by our
 * own processes; user bytes travel in the body.
 */
import typia, { type tags } from 'typia'
import type { Libraries } from './announcements.js'
import type { AppHostSettings } from './app-host.js'
import type { HttpConfig } from './application.js'
import type { AuthUser, Filters } from './auth/auth.js'
import type { RunMode, RunStatus, RunView } from './runs.js'

/** Head of every call. `params` are decoded path parameters, `query` the raw query string without "?". */
export interface CallHead {
  request_id: string
  params?: { [name: string]: string }
  query?: string
  /** The authenticated caller; set by the edge only. */
  identity?: AuthUser | null
  /** The results of authorization handlers, by event; absent: there are none. The edge alone sets it. */
  filters?: Filters
  /** The application whose `auth` the request passed. Set by the edge only. */
  checked?: string
  /** It passed none, although its application has one; set by the worker. */
  unchecked?: true
  /** The key of the caller, and how many of its runs may be pending or running; null: any number. */
  key?: { id: string; running_runs: number | null }
  /** Control plane: whose key the request has, the id of a key or `control`; rpc.keys: also `command`. */
  by?: string
  /** The deployment that the client addressed, by the slug of the path or by its id; absent: the built-in application. */
  deployment?: { slug: string } | { id: string }
  /** The application that the call is for, resolved from `deployment` by the worker. Read with `appOf`. */
  app?: string
  traceparent?: string
  /** Control plane: where the client finds this server, and the headers of the same names. */
  origin?: string
  /** `origin` is what the client says in its Host header: nobody has checked it. */
  origin_is_claimed?: true
  if_match?: string
  idempotency_key?: string
  /** rpc.deployments.github_push and gitlab_push: the headers of the git host, by lower-case name. */
  push?: { [name: string]: string }
  /** The client's headers that become members of `config.configurable`, by lower-case name. */
  headers?: { [name: string]: string }
  /** The client's X-Encryption-Context. */
  encryption?: string
  /** The client wants no body: `Prefer: return=minimal`. */
  minimal?: boolean
  /** rpc.threads.create: the id of the thread unless the body has one. A repeated call finds the thread of the first. */
  makes?: string
  /** rpc.runs.create: the edge makes the id and follows the run before it exists. */
  run?: {
    run_id: string
    mode: RunMode
    /** rpc.runs.join: the client resumes behind the last event that it has. */
    resumes?: boolean
  }
  /** rpc.runs.claim, save, finish …: the authority of a graph worker over a run. */
  lease?: Lease
  /** rpc.threads.socket_command: the assistant whose runs this connection has started. */
  assistant_id?: string
  /** With a lease: the stored stream keeps nothing from this event on. */
  kept_until?: number
  /** host.<pool>.start: a run that was claimed with its create, for a slot that the worker keeps free. */
  hand_over?: HandOver
}

/** A run that a resource worker has claimed for a graph worker. The body is that of a taken claim. */
export interface HandOver {
  /** The value in the request for slots that it uses. */
  asker: string
  lease: ClaimedLease
  /** The stamp of the offer that it uses. */
  stamp: number
}

export interface Lease {
  run_id: string
  thread_id: string
  attempt: number
  token: string
}

type Id = string & tags.MinLength<1> & tags.MaxLength<128>

/** The members that graph workers may set in the head of a call. Code of an application may write it, too. */
export interface PoolHead {
  request_id: string
  lease?: {
    run_id: Id
    thread_id: Id
    attempt: number & tags.Type<'uint32'>
    token: Id
  }
  kept_until?: number & tags.Minimum<0> & tags.Maximum<9_007_199_254_740_991>
  traceparent?: string
}

/** A run for the worker that holds it. */
export interface ClaimedLease extends Lease {
  graph_id: string
  resumable: boolean
  temporary: boolean
  resumable_until_id: number | null
  /** The span that created the run. */
  traceparent?: string
}

/** Head of every answer; `status` is the HTTP status, `detail` one sentence when it is an error. */
export interface AnswerHead {
  status: number
  code?: string
  detail?: string
  run?: RunView
  /** rpc.runs.claim: the outcome. `held`: another worker has the run; repeat the claim later. */
  claim?: 'taken' | 'waiting' | 'ended' | 'held'
  /** rpc.runs.choose: the run to claim; absent: none may start now, with `claim` `held`: ask again later. */
  chosen?: { run_id: string; thread_id: string }
  lease?: ClaimedLease
  headers?: { [name: string]: string }
  /** rpc.threads.socket_command: the body is an EdgeAction (schemas/protocols/v2.ts). */
  action?: true
  /** rpc.threads.socket_command: a run of this assistant was started, the connection is bound to it. */
  assistant_id?: string
}

/** Asks all graph workers of a pool on `slots.<pool>`: how many runs may I hand to you? */
export interface SlotRequest {
  /** The resource worker. */
  asker: string
  slots: number & tags.Type<'uint32'>
}

/**
 * The answer of a graph worker on `slots.<pool>`, and to each run that it was handed: it keeps this many slots free for the
 * asking resource worker, which may claim a run for each.
 */
export interface SlotOffer {
  /** Receives `host.<pool>.start`. */
  member: string & tags.MaxLength<64>
  /** The same as in `Claim`. */
  worker: string & tags.MaxLength<256>
  slots: number & tags.Type<'uint32'>
  /** The worker's monotonic clock, ms: it refuses what cites an older stamp than HAND_OVER_MS. */
  stamp: number
}

/**
 * So long an offer holds. A run that is handed over later is refused, so after this time without a heartbeat nobody has
 * begun it.
 */
export const HAND_OVER_MS = 5_000

/** Body of rpc.runs.claim. */
export interface Claim {
  run_id: string
  thread_id: string
  worker: string
}

/** Body of rpc.runs.heartbeat; answered by HeartbeatReply. */
export interface Heartbeat {
  worker: string
  runs: { run_id: string; token: string }[]
}
export interface HeartbeatReply {
  /** Runs to stop: their cancel was requested. */
  cancel: string[]
  /** Runs that a later attempt holds: stop and say nothing. */
  lost: string[]
}

/** Body of rpc.runs.release: the run cannot go on here, and waits again unless it ends. */
export interface Release {
  /** This attempt counts; the third that does ends the run as `error`. */
  charge: boolean
  /** Ends the run with this status, at any number of attempts. */
  end: 'timeout' | 'error' | null
  /** Why: the error of the run when it ends. */
  error: { error: string; message: string }
  /** No event of this attempt has a greater id; null: unknown. */
  last_event_id: number | null
}
/** The answer: the run is over, instead of waiting for its next attempt. */
export interface Released {
  ended: boolean
}

/** Body of a wake-up: ids only. Also the body of rpc.runs.choose, which answers `chosen`. */
export interface WakeUp {
  run_id: string
  thread_id: string
  /** The slot is for any run of the pool: rpc.runs.choose says for which. */
  any?: boolean
}

/** The answer of `rpc.runs.peek` for each run that exists. */
export interface Peek {
  run_id: string
  status: RunStatus
  attempt: number
  pool: string
  last_event_id: number | null
  resumable_until_id: number | null
}

/** Body of rpc.runs.peek. */
export interface RunIds {
  run_ids: string[]
}

/** Body of rpc.runs.disconnect: a client went away whose leaving may cancel the run. */
export interface Disconnect {
  run_id: string
  /** It had joined, with cancel_on_disconnect; else it is the one that made the run. */
  reader?: boolean
  /** `joined_at` of the answer it got: a later one belongs to another client, or to the same after a reconnect. */
  joined_at?: number | null
}

/** Answer of rpc.system.info: what executes the graphs of an application. */
export interface AppInfo {
  app: string
  /** The slug of a deployment; null or absent: it is none. */
  slug?: string | null
  /** The pool of the active revision of a deployment; null: unknown. */
  pool: string | null
  /** The app host beside the graph workers of that pool; null: none. */
  app_host: AppHostSettings | null
  /** Null: no graph worker has announced them yet. */
  libraries: Libraries | null
  /** `http` of langgraph.json of the active revision of a deployment; null or absent: the defaults. */
  http?: HttpConfig | null
}

/** Body of POST /internal/truncate (docs/api.md#system): each that is true is emptied. */
export interface Truncate {
  runs?: boolean | null
  threads?: boolean | null
  /** But the system's own. */
  assistants?: boolean | null
  checkpoint?: boolean | null
  store?: boolean | null
}

export const validateTruncate = typia.createValidate<Truncate>()
export const validateAppInfo = typia.createValidate<AppInfo>()
export const validatePoolHead = typia.createValidate<PoolHead>()
export const validateWakeUp = typia.createValidate<WakeUp>()
export const validateClaim = typia.createValidate<Claim>()
export const validateHandOver = typia.createValidate<HandOver>()
export const validateSlotRequest = typia.createValidate<SlotRequest>()
export const validateSlotOffer = typia.createValidate<SlotOffer>()
export const validateHeartbeat = typia.createValidate<Heartbeat>()
export const validateRelease = typia.createValidate<Release>()
export const validateRunIds = typia.createValidate<RunIds>()
export const validateDisconnect = typia.createValidate<Disconnect>()
