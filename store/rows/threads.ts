/** Threads and their finished states, as the store keeps them. */
import type { ThreadStatus } from '../../schemas/threads.js'

export interface Active {
  run_id: string
  attempt: number
  token: string
  /** Attempts that ended through the fault of the run; absent = 0. An interrupted attempt is not charged. */
  charges?: number
  /** The latest checkpoint of the thread at the claim: another one shows that this attempt made progress. */
  checkpoint_id?: string | null
  /** The pool whose worker holds it; absent in rows of an older Weft. */
  pool?: string
}

export interface Queued {
  run_id: string
  position: number
  due_at: number
  /** The same as in Active, while the run waits for its next attempt. */
  charges?: number
}

/** A graph, and the assistant with which it was executed. */
export interface Author {
  graph_id: string
  assistant_id?: string
}

/** The thread row is the lock of its runs: `rev` is the compare-and-set of everything but a save. */
export interface ThreadRow {
  app: string
  thread_id: string
  created_at: number
  updated_at: number
  state_updated_at: number
  /** JSON text, as are config, interrupts and error. */
  metadata: string
  config: string
  status: ThreadStatus
  /** The outcome of the last run that ended: the status while no run is active or queued. */
  settled: 'idle' | 'interrupted' | 'error'
  interrupts: string
  /** Whose run or update left this state; null or absent: unknown, as in rows of earlier versions. */
  left_by?: Author | null
  error: string | null
  /** Made by a stateless run: hidden from reads, removed by the sweeper after its end. */
  temporary: boolean
  rev: number
  active: Active | null
  queue: Queued[]
  next_position: number
  claim_no: number
  /** The checkpoint that "latest" follows. */
  latest_checkpoint_id: string | null
  /** Time to live; null = unlimited. */
  ttl: Ttl | null
  /** When the sweeper must act on the ttl, or on a hidden thread whose creation or removal was interrupted. */
  expires_at: number | null
}

export interface Ttl {
  minutes: number
  strategy: 'delete' | 'keep_latest'
}

/** The columns by which threads are listed; equal values are ordered by thread_id. */
export type ThreadSort = 'thread_id' | 'status' | 'created_at' | 'updated_at' | 'state_updated_at'

/** The position in a list of threads: one of its rows. */
export interface ThreadCursor {
  /** The value of the column by which the list is sorted. */
  value: string | number
  thread_id: string
}

export interface ThreadQuery {
  app: string
  /** Only these. */
  ids?: readonly string[]
  status?: ThreadStatus
  /** Only threads that have all of these, or the key `*` (schemas/contains.ts ANY_KEY). */
  keys?: readonly string[]
  sort: ThreadSort
  order: 'asc' | 'desc'
  /** The end of the page before. */
  after?: ThreadCursor
  /** Rows to be passed over before the first; given only without ids, status and keys. */
  skip?: number
  limit: number
}

/** One page, in order. It may hold fewer rows than asked for, even none, before the end; the end is `next: null`. */
export interface ThreadPage {
  rows: ThreadRow[]
  next: ThreadCursor | null
}

/** Bytes and rows that a thread has stored, and the bytes of each channel (all versions, all namespaces). */
export interface Storage {
  checkpoints: { rows: number; bytes: number }
  blobs: { rows: number; bytes: number; channels: { channel: string; rows: number; bytes: number }[] }
  writes: { rows: number; bytes: number }
}

/** The finished state of a thread, valid while its `latest_checkpoint_id` is that of the thread. `values` and `rest` are JSON text bytes. */
export interface StateRow {
  latest_checkpoint_id: string | null
  values: Uint8Array | null
  /** The ThreadState without its first member: `"next":[…],…}`. Null: a host computes it. */
  rest: Uint8Array | null
}
