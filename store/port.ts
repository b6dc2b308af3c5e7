/**
 * The store: the contract of an adapter, without its means. User JSON is opaque text or bytes here; no user value ever
 * becomes an operator, a path or a pattern. Times are Unix milliseconds.
 *
 * A write is a list of steps. An adapter with transactions applies all or none; one without applies them in order and
 * stops at the first whose condition fails. Callers order their steps so that every prefix is a safe state.
 */
import type { BlobEntry, CheckpointEntry, CheckpointQuery, WriteEntry } from '../schemas/checkpoints.js'
import type { KeyCondition } from '../schemas/item-keys.js'
import type { MultitaskStrategy, RunMode, RunStatus } from '../schemas/runs.js'
import type { ThreadStatus } from '../schemas/threads.js'

export interface AssistantRow {
  app: string
  assistant_id: string
  graph_id: string
  name: string
  description: string | null
  /** JSON text, as are context and metadata. */
  config: string
  context: string
  metadata: string
  version: number
  created_at: number
  updated_at: number
}

/** What an assistant was at one of its versions. A version never changes. */
export type AssistantVersionRow = Omit<AssistantRow, 'updated_at'>

type AssistantSort = 'assistant_id' | 'graph_id' | 'name' | 'created_at' | 'updated_at'

export interface AssistantQuery {
  app: string
  graph_id?: string
  /** The metadata has all of these keys (schemas/contains.ts), or too many keys to tell. */
  keys?: readonly string[]
  sort: AssistantSort
  order: 'asc' | 'desc'
  /** The last row of the page before. */
  after?: AssistantRow
  limit: number
}

export interface Active {
  run_id: string
  attempt: number
  token: string
  /** Attempts that ended through the fault of the run; absent = 0. An interrupted attempt is not charged. */
  charges?: number
  /** The latest checkpoint of the thread at the claim: another one shows that this attempt made progress. */
  checkpoint_id?: string | null
}

export interface Queued {
  run_id: string
  position: number
  due_at: number
  /** As in Active, while the run waits for its next attempt. */
  charges?: number
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
interface ThreadPage {
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

export interface RunRow {
  app: string
  run_id: string
  thread_id: string
  assistant_id: string
  graph_id: string
  pool: string
  /** `accepting` until the thread row has taken it: invisible to reads. */
  status: RunStatus | 'accepting'
  created_at: number
  updated_at: number
  /** JSON text. */
  metadata: string
  /** JSON text (schemas/runs.ts RunKwargs), up to 64 MB. */
  kwargs: string
  multitask_strategy: MultitaskStrategy
  mode: RunMode
  resumable: boolean
  temporary: boolean
  on_disconnect: 'cancel' | 'continue'
  /** When a delayed run must be woken; 0 after that, and for a run without delay. */
  due_at: number
  attempt: number
  token: string | null
  /** Grows with every heartbeat of the worker that holds the run. */
  heartbeats: number
  worker: string | null
  cancel: 'interrupt' | 'rollback' | null
  cancel_due_at: number | null
  /** The reason of the cancel, as clients see it; null: no cancel was requested. */
  cancel_reason: string | null
  /** When a client joined last whose join may revoke a pending cancel. */
  joined_at: number | null
  started_at: number | null
  ended_at: number | null
  last_event_id: number | null
  /** The stored stream of the run ends before this event, because its byte budget was used up; null: it is complete. */
  resumable_until_id: number | null
  /** JSON text {error, message}; null when there is none. */
  error: string | null
  /** The claim of its thread that began the newest attempt: orders the runs of a thread; null before the first. */
  claim_no: number | null
  /** JSON text (workers/resources/rows/thread-status.ts Base): the thread before its first attempt, for a rollback. */
  base: string | null
  webhook: string | null
  /** When the webhook is tried next; null when there is nothing to deliver. */
  webhook_due_at: number | null
  webhook_tries: number
  /** The record of its Idempotency-Key; removed with a run that is never accepted. */
  idempotency_id: string | null
  /** The answer of wait, for temporary runs only (that of other runs is read from the thread). */
  result: Uint8Array | null
  /** The key whose limit of pending and running runs counts this one; null: none. */
  key_id: string | null
  /** The authenticated caller (schemas/auth.ts AuthUser) as JSON text; clients never get it. */
  auth_user: string | null
  /** The span that created it (W3C traceparent); null: not traced. Clients never get it. */
  traceparent: string | null
}

/** A run without its payload. */
export type RunSummary = Omit<RunRow, 'kwargs' | 'result' | 'auth_user' | 'traceparent'>

/** The deliveries of a webhook; `webhook_log` is null until something is kept. */
export type WebhookLog = Pick<RunRow, 'webhook_due_at'> & { webhook_log: string | null }

/** A running run as its heartbeats change it. */
export type RunningRun = Pick<RunRow, 'run_id' | 'attempt' | 'heartbeats'>

/** The end of a page of runs: its last row. */
export type RunCursor = Pick<RunRow, 'created_at' | 'run_id'>

export interface RunQuery {
  thread_id: string
  /** Absent: of any status. Runs that are accepting are never listed. */
  status?: readonly RunStatus[]
  after?: RunCursor
  skip?: number
  limit: number
}

export interface RunWhere {
  status?: readonly (RunStatus | 'accepting')[]
  attempt?: number
  token?: string
  heartbeats?: number
  due_at?: number
  /** Null: nothing is to be delivered. */
  webhook_due_at?: number | null
  /** Null: no client has joined. */
  joined_at?: number | null
}

export interface CheckpointRow extends CheckpointEntry {
  value: Uint8Array
  metadata: Uint8Array
}
export interface BlobRow extends BlobEntry {
  value: Uint8Array
}
export interface WriteRow extends WriteEntry {
  value: Uint8Array
}

export type CheckpointKey = Pick<CheckpointRow, 'ns' | 'id'>
export type BlobKey = Pick<BlobRow, 'ns' | 'channel' | 'version'>
export type WriteKey = Pick<WriteRow, 'ns' | 'checkpoint_id' | 'task_id' | 'idx'>

/**
 * Pages through the stored rows of a thread. A page has at least one row unless the end is reached, and stops once its
 * values have `bytes`.
 */
export interface PageQuery<Key> {
  thread_id: string
  /** The last row of the page before. */
  after: Key | null
  limit: number
  bytes: number
  /** Without values and metadata: those are empty then, and sizes 0. */
  bare?: boolean
}

/**
 * An aggregate off the hot path (a cron, a deployment, a provider, a key …): its body as JSON text, beside it the columns
 * that the store may query.
 */
export interface RecordRow {
  kind: string
  app: string
  id: string
  /** The id of its parent: the thread of a cron, the deployment of a revision. '' = it has no parent. */
  parent: string
  /** Unique within kind and app; null = has none. */
  name: string | null
  rev: number
  /** JSON text. */
  body: string
  /** The keys that a search can narrow by (schemas/contains.ts keysOf); each is a plain token of at most 64 characters. */
  keys: string[]
  /** When the record is due; null = never. */
  due_at: number | null
  created_at: number
  updated_at: number
}

/** The columns by which records are listed; equal values are ordered by id. */
export type RecordSort = 'id' | 'created_at' | 'updated_at'

export interface RecordQuery {
  kind: string
  app?: string
  parent?: string
  /** Only records that have all of these, or the key `*` (schemas/contains.ts ANY_KEY). */
  keys?: readonly string[]
  sort?: RecordSort
  order?: 'asc' | 'desc'
  /** The end of the page before: its last row. */
  after?: Pick<RecordRow, RecordSort>
  limit: number
}

/** An item of the store that applications share: a JSON object under a namespace and a key. */
export interface ItemRow {
  app: string
  /** Labels without dots, at least one. */
  namespace: string[]
  key: string
  /** JSON text of an object. */
  value: string
  created_at: number
  updated_at: number
  /** Minutes from its last write or read until it expires; null = never. */
  ttl: number | null
  expires_at: number | null
}

export type ItemKey = Pick<ItemRow, 'namespace' | 'key'>

/** The vectors of an item, which make it found by meaning. */
export interface ItemVectors extends ItemKey {
  updated_at: number
  /** One after the other, as little-endian 32-bit floats. */
  vectors: Uint8Array
}

/** A vector that was found. `score`: the cosine, from -1 to 1. */
export interface NearItem extends ItemKey {
  updated_at: number
  score: number
}

export interface ItemQuery {
  app: string
  /** The first labels; [] = all items. */
  prefix: readonly string[]
  /** The value has a key in a range of each condition (schemas/item-keys.ts), or too many keys to tell. */
  conditions?: readonly KeyCondition[]
  /** Items that have expired at this time are left out. */
  now: number
  /** The last row of the page before. */
  after?: ItemKey & { updated_at: number }
  limit: number
}

export type Step =
  /** Fails when the id exists in the application. `searchable`: the JSON text whose keys are searched instead of the metadata. */
  | { step: 'assistants.insert'; row: AssistantRow; searchable?: string }
  /** Fails unless the row exists and was last written at `where.updated_at`. */
  | {
      step: 'assistants.patch'
      app: string
      assistant_id: string
      where: { updated_at: number }
      set: Partial<Omit<AssistantRow, 'app' | 'assistant_id' | 'created_at'>>
      searchable?: string
    }
  /** Removes the assistant and its versions; never fails. */
  | { step: 'assistants.remove'; app: string; assistant_id: string }
  /** Fails when the assistant has this version. */
  | { step: 'versions.insert'; row: AssistantVersionRow }
  /** Removes one version; never fails. */
  | { step: 'versions.remove'; app: string; assistant_id: string; version: number }
  /** Fails when the id exists (in any application). `keys`: those of the metadata, by which a search can narrow. */
  | { step: 'threads.insert'; row: ThreadRow; keys?: readonly string[] }
  /** Fails unless the row exists and matches. `rev` grows by one when `where.rev` is given, else stays. */
  | {
      step: 'threads.patch'
      thread_id: string
      where: { rev?: number; token?: string }
      set: Partial<Omit<ThreadRow, 'app' | 'thread_id' | 'rev' | 'created_at'>>
      /** Replaces the keys; given when the metadata changes. */
      keys?: readonly string[]
    }
  /** Replaces the finished state of the thread. */
  | ({ step: 'threads.state'; thread_id: string } & StateRow)
  /** Fails when the id exists, unless the stored row is the same run still `accepting` (a repeated create). */
  | { step: 'runs.insert'; row: RunRow }
  /** Fails unless the row exists and matches. */
  | {
      step: 'runs.patch'
      run_id: string
      where: RunWhere
      set: Partial<Omit<RunRow, 'app' | 'run_id' | 'thread_id' | 'created_at'>> & {
        /** What is kept of the deliveries of its webhook, JSON text; removed with the run. */
        webhook_log?: string
      }
      /** Never fails: a row that does not match stays unchanged. */
      optional?: true
    }
  /** Fails unless the row exists and matches, or it is optional. Removes the run alone. */
  | { step: 'runs.remove'; run_id: string; where: RunWhere; optional?: true }
  /** heartbeats + 1 on every run named that still has this token; never fails. */
  | { step: 'runs.beat'; runs: { run_id: string; token: string }[] }
  /**
   * Inserts; never fails. A checkpoint or write with a known key is replaced (writes to a special channel, idx < 0,
   * always; others keep the first). Blobs are never replaced.
   */
  | {
      step: 'checkpoints.insert'
      thread_id: string
      run_id: string | null
      attempt: number
      checkpoints: CheckpointRow[]
      blobs: BlobRow[]
      writes: WriteRow[]
    }
  /** Removes the checkpoints and writes that this run made; never fails. Blobs stay: others may refer to them. */
  | { step: 'checkpoints.rollback'; thread_id: string; run_id: string }
  /**
   * Removes the checkpoints of the root graph, with their writes, that this attempt made after the latest checkpoint of
   * the thread: its worker died before the thread named them. Never fails.
   */
  | { step: 'checkpoints.trim'; thread_id: string; run_id: string; attempt: number }
  /** Fails when (kind, id) exists or the name is taken in (kind, app). */
  | { step: 'records.insert'; row: RecordRow }
  /** Fails unless the record exists and matches, and when the new name is taken. `rev` grows by one. */
  | {
      step: 'records.patch'
      kind: string
      id: string
      where: { rev?: number }
      set: Partial<Omit<RecordRow, 'kind' | 'app' | 'id' | 'rev' | 'created_at'>>
    }
  /** Fails unless the record exists and matches. */
  | { step: 'records.remove'; kind: string; id: string; where: { rev?: number } }
  /** Removes all records of the kind that belong to `parent`; never fails. */
  | { step: 'records.clear'; kind: string; parent: string }
  /**
   * Inserts the item or replaces its value and its vectors; never fails. A stored item that has not expired keeps its
   * `created_at`, and its `updated_at` grows by at least one. `vectors`: as ItemVectors; none when absent or empty.
   * `searchable`: the JSON text whose keys are searched instead of the value.
   */
  | { step: 'items.put'; row: ItemRow; vectors?: Uint8Array; searchable?: string }
  /**
   * As `items.put`, but fails when an item is stored that has not expired and was not last written at `replaces`; null:
   * when any is.
   */
  | { step: 'items.replace'; row: ItemRow; vectors?: Uint8Array; searchable?: string; replaces: number | null }
  /** Removes the item, with `expired_at` only if it has expired by then; never fails. */
  | ({ step: 'items.remove'; app: string; expired_at?: number } & ItemKey)
  /** Removes the item; fails unless it was last written at `updated_at`. */
  | ({ step: 'items.take'; app: string; updated_at: number } & ItemKey)
  /** Sets the expiry of items that have not been written since they were read (`updated_at`); never fails. */
  | { step: 'items.touch'; app: string; items: readonly (ItemKey & { updated_at: number; expires_at: number })[] }
  /** Removes checkpoints with their writes; never fails. */
  | { step: 'checkpoints.remove'; thread_id: string; checkpoints: readonly CheckpointKey[] }
  /** Removes blobs, to which no checkpoint refers any more; never fails. */
  | { step: 'blobs.remove'; thread_id: string; blobs: readonly BlobKey[] }
  /** Removes the thread with its state, runs, checkpoints, blobs and writes; never fails. */
  | { step: 'threads.remove'; thread_id: string }
  /** Empties it in all applications, for tests (Truncate); never fails. */
  | { step: 'truncate'; what: Truncated; keep?: readonly Pick<AssistantRow, 'app' | 'assistant_id'>[] }

/**
 * threads: with all that belongs to them. runs: their threads then rest. checkpoints: with the states of threads, which
 * are then empty. assistants: but those that `keep` names.
 */
export type Truncated = 'runs' | 'threads' | 'checkpoints' | 'assistants' | 'items'

export interface Tuple {
  ns: string
  id: string
  parent: string | null
  type: string
  value: Uint8Array
  meta_type: string
  metadata: Uint8Array
  blobs: { channel: string; type: string; value: Uint8Array }[]
  /** Ordered by task_id, idx. */
  writes: { task_id: string; idx: number; channel: string; type: string; value: Uint8Array; path?: string }[]
}

export interface Store {
  /** Applies the steps; resolves to the index of the step that failed, or −1 when all were done. Durable on return. */
  apply(steps: readonly Step[]): Promise<number>
  assistants: {
    get(app: string, assistant_id: string): Promise<AssistantRow | null>
    /** Equal values are ordered by id. */
    list(query: AssistantQuery): Promise<AssistantRow[]>
    /** How many there are, of one graph or of all. */
    count(query: Pick<AssistantQuery, 'app' | 'graph_id'>): Promise<number>
    /** Versions below `before`, newest first. */
    versions(app: string, assistant_id: string, limit: number, before?: number): Promise<AssistantVersionRow[]>
    version(app: string, assistant_id: string, version: number): Promise<AssistantVersionRow | null>
  }
  threads: {
    /** `null`: any application, for work on a run that is known already (ids are unique over all of them). */
    get(app: string | null, thread_id: string): Promise<ThreadRow | null>
    state(thread_id: string): Promise<StateRow | null>
    /** Busy threads last written before `before`, oldest first: where a crash may have left something half done. */
    busy(before: number, limit: number, after?: Pick<ThreadRow, 'updated_at' | 'thread_id'>): Promise<ThreadRow[]>
    /** Threads that are not hidden (temporary). */
    list(query: ThreadQuery): Promise<ThreadPage>
    /** How many threads are not hidden. */
    count(app: string, status?: ThreadStatus): Promise<number>
    /** The finished states of these threads, in this order; at least one, and no more once they hold `bytes`. */
    states(thread_ids: readonly string[], bytes: number): Promise<(StateRow | null)[]>
    /** Threads whose `expires_at` is not later than `now`, hidden ones too, earliest first. */
    expired(now: number, limit: number): Promise<ThreadRow[]>
  }
  runs: {
    get(run_id: string): Promise<RunRow | null>
    summary(run_ids: readonly string[]): Promise<RunSummary[]>
    /** What is kept of the deliveries of a run, in one read; null: no such run. */
    webhookLog(run_id: string): Promise<WebhookLog | null>
    /**
     * Runs that are accepting, running, or pending without an alarm (`due_at` 0), oldest first: those that the sweeper
     * checks.
     */
    unsettled(limit: number, after?: RunCursor): Promise<RunSummary[]>
    /** How many runs run, and how many wait: an index is counted, no row is read. */
    counts(): Promise<{ pending: number; running: number }>
    /** Running runs in the order of their ids, after `after`. */
    running(limit: number, after?: string): Promise<RunningRun[]>
    /** Runs of a thread, newest first; equal times are ordered by id. */
    list(query: RunQuery): Promise<RunSummary[]>
    /** Pending or running runs of an application, oldest first. */
    active(
      app: string,
      status: readonly ('pending' | 'running')[],
      limit: number,
      after?: RunCursor,
    ): Promise<RunSummary[]>
    /** How many runs that have not ended the limit of this key counts; no more than `most`. */
    countOpen(key_id: string, most: number): Promise<number>
    /** Runs of the thread with a `claim_no` of at least `from`, in its order. */
    claimed(thread_id: string, from: number, limit: number): Promise<RunSummary[]>
    /** Pending runs with 0 < `due_at` ≤ `until`, earliest first; so are the next two. */
    startsDue(until: number, limit: number): Promise<RunSummary[]>
    /** Runs with `cancel_due_at` ≤ `until`. */
    cancelsDue(until: number, limit: number): Promise<RunSummary[]>
    /** Runs with `webhook_due_at` ≤ `until`. */
    webhooksDue(until: number, limit: number): Promise<RunSummary[]>
    /** Thread ids of temporary runs that ended before `ended_before` (resumable ones: `resumable_before`) and owe no webhook. */
    expired(ended_before: number, resumable_before: number, limit: number): Promise<string[]>
  }
  checkpoints: {
    /** By id; without one the thread's latest checkpoint (namespace "") or the greatest seq of the namespace. */
    get(query: CheckpointQuery): Promise<Tuple | null>
    /**
     * Newest first (by seq); all namespaces when `ns` is absent. With `bytes`: at least one, and no more once they
     * hold so many.
     */
    list(query: CheckpointQuery): Promise<Tuple[]>
    /** In the order of seq, which is unique in a thread. */
    rows(query: PageQuery<Pick<CheckpointRow, 'seq'>>): Promise<CheckpointRow[]>
    /** In the order of their keys. */
    blobs(query: PageQuery<BlobKey>): Promise<BlobRow[]>
    /** In the order of their keys. */
    writes(query: PageQuery<WriteKey>): Promise<WriteRow[]>
    storage(thread_id: string): Promise<Storage>
  }
  records: {
    get(kind: string, id: string): Promise<RecordRow | null>
    named(kind: string, app: string, name: string): Promise<RecordRow | null>
    /** Newest first by `created_at` unless the query says otherwise. */
    list(query: RecordQuery): Promise<RecordRow[]>
    /** Records whose `due_at` is not later than `now`, earliest first. */
    due(kind: string, now: number, limit: number): Promise<RecordRow[]>
  }
  items: {
    /** Null also for an item that has expired at `now`. */
    get(app: string, item: ItemKey, now: number): Promise<ItemRow | null>
    /** Those of the items that exist and have not expired at `now`, in any order. */
    many(app: string, items: readonly ItemKey[], now: number): Promise<ItemRow[]>
    /** Items with vectors, least recently written first; equal times are ordered by namespace and key. */
    indexed(
      app: string,
      after: ItemKey & { updated_at: number },
      limit: number,
    ): Promise<Omit<ItemVectors, 'vectors'>[]>
    /** The vectors of those items that have some, in any order. */
    vectors(app: string, items: readonly ItemKey[]): Promise<ItemVectors[]>
    /** Items at or below the prefix, most recently written first; equal times are ordered by namespace and key. */
    list(query: ItemQuery): Promise<ItemRow[]>
    /** Namespaces at or below the prefix that hold an item, ordered by their labels joined with dots. */
    namespaces(query: Omit<ItemQuery, 'after' | 'conditions'> & { after?: readonly string[] }): Promise<string[][]>
    /** Items of all applications that have expired at `now`, earliest first. */
    expired(now: number, limit: number): Promise<(ItemKey & { app: string })[]>
  }
  /**
   * Vector search by the database itself, which follows the items with a delay. Absent in a store that has none; the one
   * in MongoDB asks its server (`prepare`).
   */
  nearest?: {
    /**
     * Makes the index for vectors of this size when it is missing. `none`: the server has no vector search, or none of this
     * size; `building`: the index does not answer yet.
     */
    prepare(dims: number): Promise<'none' | 'building' | 'ready'>
    /** Gives the index vectors of the application that it does not have; false when it was given all of them. */
    copy(app: string, dims: number): Promise<boolean>
    /** Gives the index a mark, after what it was given before. */
    mark(dims: number): Promise<string>
    /** Whether the index has the mark, which is removed then; so it has what it was given before. */
    reached(dims: number, mark: string): Promise<boolean>
    /**
     * The vectors of items at or below the prefix, most similar first, at most `limit` (10,000); an item once for each of
     * its vectors. `updated_at`: the write of the item that the vector is of, which may have been replaced or removed.
     */
    find(query: { app: string; prefix: readonly string[]; query: Float32Array; limit: number }): Promise<NearItem[]>
    /** Takes vectors from the index whose items were replaced or removed. */
    drop(app: string, stale: readonly (ItemKey & { updated_at: number })[]): Promise<void>
  }
  /** Resolves when the store can read and write; rejects otherwise. */
  ping(): Promise<void>
  /** Disk space that rows and indexes use, in bytes. */
  bytes(): Promise<number>
  /**
   * Bytes that removed rows have left free in the files: new rows use them before the files grow. 0: the store does not
   * know.
   */
  reusable(): Promise<number>
  /** Accepts nothing new, finishes accepted calls, closes. */
  close(): Promise<void>
}
