/** Checkpoints, their blobs and writes, as the store keeps them. */
import type { BlobEntry, CheckpointEntry, WriteEntry } from '../../schemas/checkpoints.js'

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
