/**
 * The heads of calls between edge, workers and back: small JSON beside an opaque body. Everything here is made by our
 * own processes; user bytes travel in the body.
 */
import type { RunHead, RunMode, RunStatus } from './runs.js'

export interface Identity {
  identity: string
  permissions?: string[]
}

/** Head of every call. `params` are decoded path parameters, `query` the raw query string without "?". */
export interface CallHead {
  request_id: string
  params?: { [name: string]: string }
  query?: string
  identity?: Identity | null
  traceparent?: string
  /** rpc.runs.create: the edge makes the id and follows the run before it exists. */
  run?: { run_id: string; mode: RunMode }
  /** rpc.runs.claim, save, finish …: the authority of a graph worker over a run. */
  lease?: Lease
}

export interface Lease {
  run_id: string
  thread_id: string
  attempt: number
  token: string
}

/** Head of every answer; `status` is the HTTP status, `detail` one sentence when it is an error. */
export interface AnswerHead {
  status: number
  code?: string
  detail?: string
  run?: RunHead
  headers?: { [name: string]: string }
}

/** Body of a wake-up: ids only. */
export interface WakeUp {
  run_id: string
  thread_id: string
}

/** What `rpc.runs.peek` says of each run it knows. */
export interface Peek {
  run_id: string
  status: RunStatus
  attempt: number
  last_event_id: number | null
}
