/**
 * The store: the contract of an adapter, without its means. User JSON is opaque text or bytes here; no user value ever
 * becomes an operator, a path or a pattern. Times are Unix milliseconds.
 *
 * A write is a list of steps. An adapter with transactions applies all or none; one without applies them in order and
 * stops at the first whose condition fails. Callers order their steps so that every prefix is a safe state.
 */
import type { CheckpointQuery } from '../schemas/checkpoints.js'
import type { ThreadStatus } from '../schemas/threads.js'
import type { AssistantQuery, AssistantRow, AssistantVersionRow } from './rows/assistants.js'
import type { BlobKey, BlobRow, CheckpointRow, PageQuery, Tuple, WriteKey, WriteRow } from './rows/checkpoints.js'
import type { ItemKey, ItemQuery, ItemRow, ItemVectors, NearItem } from './rows/items.js'
import type { RecordQuery, RecordRow } from './rows/records.js'
import type {
  OccupiedSlots,
  ReadyRun,
  RunConditions,
  RunCursor,
  RunningRun,
  RunPage,
  RunQuery,
  RunRow,
  RunSearchQuery,
  RunSummary,
  WebhookLog,
} from './rows/runs.js'
import type { StateRow, Storage, ThreadPage, ThreadQuery, ThreadRow } from './rows/threads.js'
import type { Step } from './steps.js'

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
    /** The stored deliveries of a run, in one read; null: no such run. */
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
    /** Runs of an application, by time. One call looks at a few thousand runs at most. */
    search(query: RunSearchQuery): Promise<RunPage>
    /** How many runs there are. With one condition an index is counted; with several, runs are looked at. */
    count(conditions: RunConditions): Promise<number>
    /** Pending or running runs of an application, oldest first. */
    active(
      app: string,
      status: readonly ('pending' | 'running')[],
      limit: number,
      after?: RunCursor,
    ): Promise<RunSummary[]>
    /** How many runs of this key have not ended; no more than `most`. */
    countOpen(key_id: string, most: number): Promise<number>
    /**
     * Pending runs with a tenant that are the first in line of their threads: at most `per` of each pool and tenant, by
     * priority and then by age, of at most `tenants` pools and tenants.
     */
    ready(app: string, per: number, tenants: number): Promise<ReadyRun[]>
    /** The running runs of an application, counted by what limits name. */
    occupied(app: string): Promise<OccupiedSlots[]>
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
    /** The items that exist and have not expired at `now`, in any order. */
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
    /** Namespaces at or below the prefix that hold an item, ordered by their labels joined with dots; `after`: the last of a page. */
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
