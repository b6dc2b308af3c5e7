/**
 * Following a thread over its runs (docs/spec/streams.md#thread-streams): messages between edges and resource workers.
 * Runs of a thread never overlap and each attempt is one claim, so `claim_no · 2²⁴ + n` orders everything that
 * happens on a thread, over restarts too.
 */
import typia from 'typia'
import { PER_CLAIM } from './checkpoints.js'
import type { RunStatus, RunView } from './runs.js'
import { attemptOf, firstIdOf } from './subjects.js'

/**
 * Where to begin. start: all available events. now: only new ones. current: with the first event of the run that is
 * under way or due, else of the last one. A number: after this seq.
 */
export type From = 'start' | 'now' | 'current' | number

/** Body of rpc.threads.follow. */
export interface Follow {
  from: From
  /** A thread that does not exist is one without runs. */
  may_miss: boolean
}

export interface FollowedRun extends RunView {
  /** The claim of its newest attempt. */
  claim_no: number
  /** It renders events of protocol v2. */
  events: boolean
}

/** The answer. */
export interface Followed {
  /** The thread exists. One that is created later may not be visible to this reader. */
  exists: boolean
  /** The application it is of: news of another one with the same thread id are none of this reader's. */
  app: string
  /** Claims up to this one need no further word. */
  known: number
  /** In the order of their claims. */
  runs: FollowedRun[]
  /** There are more behind these. */
  more: boolean
  /** Something after `from` is no longer kept. */
  gone: boolean
}

/** Published for each change of a thread's runs. */
export type ThreadNews = { app: string } & (
  | { claimed: FollowedRun }
  | { dropped: { run_id: string; status: RunStatus } }
  | { removed: true }
)

export const validateFollow = typia.createValidate<Follow>()

/** The last of a claim: an error that no host lived to write, the end of the run, the state that it left. */
const RESERVED = 3
const LAST = PER_CLAIM - RESERVED - 1

export const claimOf = (seq: number): number => Math.floor(seq / PER_CLAIM)

type Claimed = { claim_no: number; attempt: number }

/** The seq of an event of a run, whose attempts are claims one after the other. */
export function seqOf(id: number, { claim_no, attempt }: Claimed): number {
  const of = attemptOf(id)
  // The first id of an attempt that never ran: the last id was unknown when the run was given up.
  if (of > attempt) return claim_no * PER_CLAIM + LAST + 1
  return (claim_no - (attempt - of)) * PER_CLAIM + Math.min(id - firstIdOf(of), LAST)
}

/** The id behind which to go on in a run: the last that a reader of `seq` has seen; −1 when it has seen nothing. */
export function idBefore(seq: number, { claim_no, attempt }: Claimed): number {
  const of = attempt - (claim_no - claimOf(seq))
  if (of < 1) return -1
  const n = seq % PER_CLAIM
  return of > attempt || n > LAST ? Number.MAX_SAFE_INTEGER : firstIdOf(of) + n
}

/** The seq of the end of a run, behind its last event. */
export function endSeqOf(last: number | null, run: Claimed): number {
  const base = last === null || last < firstIdOf(run.attempt) ? run.claim_no * PER_CLAIM - 1 : seqOf(last, run)
  return base + 1
}

/** The seq of the state that a run left, behind its end. */
export const stateSeqOf = (last: number | null, run: Claimed): number => endSeqOf(last, run) + 1
