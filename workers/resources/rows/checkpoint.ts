/**
 * Converts checkpoints between the packed form of calls (schemas/checkpoints.ts) and the rows of the store. Bytes are
 * cut and joined, never parsed.
 */
import { unpackAs } from '../../../bus/decode.js'
import { type Checkpoint, type TuplesHead, validateSaveHead } from '../../../schemas/checkpoints.js'
import { fail } from '../../../schemas/errors.js'
import { cutter, pack } from '../../../schemas/packed.js'
import type { Store } from '../../../store/port.js'
import type { BlobRow, CheckpointRow, Tuple, WriteRow } from '../../../store/rows/checkpoints.js'

/** Before the type of a value that the handlers of an application encrypted, which may be any bytes. */
export const SEALED_TYPE = 'sealed:'

/**
 * The rows of a packed save. Throws a RangeError when the body is cut short, and bad_request for a head of another form, and for a value whose type says that
 * it is encrypted: only the store writes such.
 */
export function rowsOf(body: Uint8Array): { checkpoints: CheckpointRow[]; blobs: BlobRow[]; writes: WriteRow[] } {
  const { head, rest } = unpackAs(body, validateSaveHead)
  for (const { type } of [...head.checkpoints, ...head.blobs, ...head.writes])
    if (type.startsWith(SEALED_TYPE)) throw fail('bad_request', `A value of type ${type} cannot be saved`)
  const cut = cutter(rest)
  return {
    checkpoints: head.checkpoints.map(row => ({ ...row, value: cut(row.size), metadata: cut(row.meta_size) })),
    blobs: head.blobs.map(row => ({ ...row, value: cut(row.size) })),
    writes: head.writes.map(row => ({ ...row, value: cut(row.size) })),
  }
}

/** The answer of get and list: heads first, then the parts of each tuple in order. */
export function packTuples(tuples: readonly Tuple[]): Uint8Array {
  const parts: Uint8Array[] = []
  const head: TuplesHead = {
    tuples: tuples.map(({ ns, id, parent, type, value, meta_type, metadata, blobs, writes }) => {
      parts.push(value, metadata)
      for (const blob of blobs) parts.push(blob.value)
      for (const write of writes) parts.push(write.value)
      return {
        ns,
        id,
        parent,
        type,
        size: value.length,
        meta_type,
        meta_size: metadata.length,
        blobs: blobs.map(blob => ({ channel: blob.channel, type: blob.type, size: blob.value.length })),
        writes: writes.map(({ task_id, idx, channel, type, value, path }) => ({
          task_id,
          idx,
          channel,
          type,
          size: value.length,
          ...(path === undefined ? {} : { path }),
        })),
      }
    }),
  }
  return pack(head, parts)
}

/** A checkpoint that a client names must exist on the thread; throws not_found, or `refuse` makes another error. */
export async function requireCheckpoint(
  store: Store,
  thread_id: string,
  { checkpoint_id, checkpoint_ns }: Checkpoint,
  refuse: (message: string) => Error = message => fail('not_found', message),
): Promise<void> {
  if (!checkpoint_id) return
  if ((await store.checkpoints.get({ thread_id, ns: checkpoint_ns ?? '', checkpoint_id })) === null)
    throw refuse(`Checkpoint ${checkpoint_id} not found on thread ${thread_id}`)
}
