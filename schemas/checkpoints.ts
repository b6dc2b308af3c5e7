/**
 * Checkpoints as they travel: a packed head (schemas/packed.ts) with sizes, then the serialised values in the same
 * order. Values are opaque bytes to everything but the host that wrote them. `type` is the serialiser's type name.
 */
import typia, { type tags } from 'typia'
import type { JsonObject } from './json.js'

/** The bytes of a part. */
type Size = number & tags.Type<'uint32'>

export interface CheckpointEntry {
  ns: string
  id: string
  parent: string | null
  /** Orders the checkpoints of a thread: claim_no · 2²⁴ + n. Never a clock. */
  seq: number & tags.Minimum<0> & tags.Maximum<9_007_199_254_740_991>
  type: string
  size: Size
  meta_type: string
  meta_size: Size
  /** Channel → version of each channel that has a value: which blobs make up `channel_values`. */
  refs: { [channel: string]: string }
}

export interface BlobEntry {
  ns: string
  channel: string
  version: string
  type: string
  size: Size
}

export interface WriteEntry {
  ns: string
  checkpoint_id: string
  task_id: string
  idx: number & tags.Type<'int32'>
  channel: string
  type: string
  size: Size
  /** Where in its step the task stood: hosts replay writes in this order. Absent: the library has no paths. */
  path?: string
}

/** Head of `rpc.checkpoints.save`. Parts: per checkpoint its value and its metadata; then blobs; then writes. */
export interface SaveHead {
  checkpoints: CheckpointEntry[]
  blobs: BlobEntry[]
  writes: WriteEntry[]
}

/** Body of `rpc.checkpoints.get` and `.list` (JSON). No `checkpoint_id` in get: the latest of the namespace. */
export interface CheckpointQuery {
  thread_id: string
  ns?: string
  checkpoint_id?: string
  /** Exclusive upper bound. */
  before?: string
  limit?: number
  /** Leaves out what this run made. */
  without_run?: string
  /** List: at least one, and no more once they hold so many bytes. */
  bytes?: number
}

/** One checkpoint in an answer. Parts: value, metadata, then blobs, then writes. */
export interface TupleEntry {
  ns: string
  id: string
  parent: string | null
  type: string
  size: number
  meta_type: string
  meta_size: number
  blobs: { channel: string; type: string; size: number }[]
  writes: { task_id: string; idx: number; channel: string; type: string; size: number; path?: string }[]
}

/** Head of the answer of get and list: newest first; empty when there is none. */
export interface TuplesHead {
  tuples: TupleEntry[]
}

export const validateCheckpointQuery = typia.createValidate<CheckpointQuery>()
export const validateSaveHead = typia.createValidate<SaveHead>()

/** 2²⁴ checkpoints or v2 events in one claim. */
export const PER_CLAIM = 2 ** 24

export interface Checkpoint {
  thread_id?: string
  checkpoint_ns?: string | null
  checkpoint_id?: string | null
  checkpoint_map?: JsonObject | null
}
