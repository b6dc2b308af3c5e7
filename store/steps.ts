/** The steps of a write. An adapter applies all or none of them, or applies them in order until one fails (store/port.ts). */
import type { AssistantRow, AssistantVersionRow } from './rows/assistants.js'
import type { BlobKey, BlobRow, CheckpointKey, CheckpointRow, WriteRow } from './rows/checkpoints.js'
import type { ItemKey, ItemRow } from './rows/items.js'
import type { RecordRow } from './rows/records.js'
import type { RunRow, RunWhere } from './rows/runs.js'
import type { StateRow, ThreadRow } from './rows/threads.js'

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
        /** JSON text: the deliveries of its webhook that are kept. They are removed with the run. */
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
   * Like `items.put`, but fails when an item is stored that has not expired and was not last written at `replaces`; null:
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
