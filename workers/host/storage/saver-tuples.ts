/** Converts stored checkpoints to the library's tuples. */
import type { BaseCheckpointSaver, Checkpoint, CheckpointMetadata, CheckpointTuple } from '@langchain/langgraph'
import type { TupleEntry, TuplesHead } from '../../../schemas/checkpoints.js'
import { cutter, unpack } from '../../../schemas/packed.js'
import type { Write } from './saver-parts.js'
import { revive } from './saver-values.js'

type Serializer = BaseCheckpointSaver['serde']

/** The channel of sends. */
export const TASKS = '__pregel_tasks'

/** One checkpoint of an answer, as bytes. */
export interface Packed {
  entry: TupleEntry
  rest: Uint8Array
}

export const configOf = (thread_id: string, checkpoint_ns: string, checkpoint_id: string) => ({
  configurable: { thread_id, checkpoint_ns, checkpoint_id },
})

export const writeKey = (task_id: string, idx: number): string => `${task_id},${idx}`

/** Returns the first checkpoint of an answer. */
export function firstOf(packed: Uint8Array): Packed | null {
  if (packed.length === 0) return null
  const { head, rest } = unpack<TuplesHead>(packed)
  const entry = head.tuples[0]
  return entry === undefined ? null : { entry, rest }
}

/** Bytes of all parts of a checkpoint. */
export function sizeOf({ size, meta_size, blobs, writes }: TupleEntry): number {
  let all = size + meta_size
  for (const blob of blobs) all += blob.size
  for (const write of writes) all += write.size
  return all
}

/** Restores the values of a checkpoint; `over` holds writes that are not stored yet. */
export async function readTuple(
  serde: Serializer,
  thread_id: string,
  entry: TupleEntry,
  rest: Uint8Array,
  over?: Map<string, Write>,
): Promise<CheckpointTuple> {
  const cut = cutter(rest)
  const { ns, id, parent } = entry
  const checkpoint = (await revive(serde, entry.type, cut(entry.size))) as Checkpoint
  const metadata = (await revive(serde, entry.meta_type, cut(entry.meta_size))) as CheckpointMetadata
  checkpoint.channel_values = {}
  for (const { channel, type, size } of entry.blobs)
    checkpoint.channel_values[channel] = await revive(serde, type, cut(size))
  const writes = new Map<string, Write>()
  for (const { task_id, idx, channel, type, size } of entry.writes)
    writes.set(writeKey(task_id, idx), [task_id, channel, await revive(serde, type, cut(size))])
  for (const [key, write] of over ?? []) if (placeIn(key) < 0 || !writes.has(key)) writes.set(key, write)
  return {
    config: configOf(thread_id, ns, id),
    checkpoint,
    metadata,
    ...(parent === null ? {} : { parentConfig: configOf(thread_id, ns, parent) }),
    pendingWrites: ordered(writes),
  }
}

/** Returns the sends among the writes of a checkpoint. */
export async function sendsOf(serde: Serializer, packed: Uint8Array): Promise<unknown[]> {
  const found = firstOf(packed)
  const { pendingWrites } = found === null ? {} : await readTuple(serde, '', found.entry, found.rest)
  return (pendingWrites ?? []).filter(([, channel]) => channel === TASKS).map(([, , value]) => value)
}

/** Sorts writes by task, then by position, as the store does. */
export function ordered(writes: Map<string, Write> | undefined): Write[] {
  if (writes === undefined) return []
  return [...writes]
    .sort(([a, [task]], [b, [other]]) => (task === other ? placeIn(a) - placeIn(b) : task < other ? -1 : 1))
    .map(([, write]) => write)
}

const placeIn = (key: string): number => Number(key.slice(key.lastIndexOf(',') + 1))

/** Compares channel versions, which are numbers or strings. */
export const isLater = (a: string | number, b: string | number): boolean =>
  typeof a === 'number' && typeof b === 'number' ? a >= b : String(a).localeCompare(String(b)) >= 0
