/** Saves and rollbacks of checkpoints. Values are written before the checkpoints that refer to them. */
import type { Filter } from 'mongodb'
import type { BlobKey, CheckpointKey, WriteKey } from '../rows/checkpoints.js'
import type { Step } from '../steps.js'
import type { CollectionName, Collections } from './collections.js'
import { type Doc, key, plain } from './documents.js'
import { chunks } from './find.js'
import { insert, put, remove } from './parts.js'

type Save = Extract<Step, { step: 'checkpoints.insert' }>

/** Stores them; resolves to an undo, which removes the checkpoints and writes that did not exist before. */
export async function save(
  all: Collections,
  { thread_id, run_id, attempt, checkpoints, blobs, writes }: Save,
): Promise<() => Promise<void>> {
  const of = { thread_id, run_id, attempt }
  const mine = { thread_id, run_id }
  const blobDocs = blobs.map(blob => {
    const { ns, channel, version, type, value } = blob
    const row = { ns: plain(ns), channel: plain(channel), version, type, size: value.length, value }
    return { ...row, thread_id, _id: blobKey(thread_id, blob) }
  })
  const writeDocs = writes.map(write => {
    const { ns, checkpoint_id, task_id, idx, channel, type, value, path } = write
    const where = path === undefined ? {} : { path: plain(path) }
    const row = {
      ns: plain(ns),
      checkpoint_id,
      task_id: plain(task_id),
      idx,
      channel: plain(channel),
      type,
      value,
      ...where,
    }
    const _id = writeKey(thread_id, write)
    return { ...of, ...row, size: value.length, of: key(thread_id, ns, checkpoint_id), _id }
  })
  const [, first] = await Promise.all([
    insertNew(all, 'blobs', { thread_id, run_id: null }, blobDocs),
    insertNew(
      all,
      'writes',
      mine,
      writeDocs.filter(({ idx }) => idx >= 0),
    ),
    ...writeDocs.filter(({ idx }) => idx < 0).map(doc => put(all, 'writes', mine, doc)),
  ])
  const made = await Promise.all(
    checkpoints.map(async ({ ns, id, parent, seq, type, meta_type, refs, value, metadata }) => {
      const row = { id, ns: plain(ns), parent, seq, type, meta_type, refs: JSON.stringify(refs), value, metadata }
      const sizes = { size: value.length, meta_size: metadata.length }
      const _id = checkpointKey(thread_id, id, ns)
      return (await put(all, 'checkpoints', mine, { ...of, ...row, ...sizes, _id })) ? [_id] : []
    }),
  )
  return async () => {
    await Promise.all([drop(all, 'checkpoints', thread_id, made.flat()), drop(all, 'writes', thread_id, first)])
  }
}

/** Inserts those whose ids are new; resolves to their ids. */
async function insertNew(
  all: Collections,
  on: 'blobs' | 'writes',
  owner: { thread_id: string; run_id: string | null },
  docs: readonly Doc[],
): Promise<string[]> {
  const ids = docs.map(async doc => ((await insert(all, on, owner, doc)) ? [doc._id] : []))
  return (await Promise.all(ids)).flat()
}

async function drop(all: Collections, on: 'checkpoints' | 'writes', thread_id: string, ids: string[]): Promise<void> {
  if (ids.length > 0) await dropFound(all, on, { thread_id, _id: { $in: ids } })
}

async function dropFound(all: Collections, on: CollectionName, filter: Filter<Doc>): Promise<void> {
  const large = all[on].find({ ...filter, _parts: { $ne: null } }, { projection: { _parts: 1 } })
  const parts = (await large.toArray()).map(doc => doc._parts)
  await all[on].deleteMany(filter)
  for (const refs of parts) await remove(all, refs)
}

export async function rollback(all: Collections, thread_id: string, run_id: string): Promise<void> {
  const made = { thread_id, run_id }
  // Blobs stay, and so do their parts: those name no run.
  await Promise.all([all.checkpoints.deleteMany(made), all.writes.deleteMany(made)])
  await all.parts.deleteMany(made)
}

/** Removes root checkpoints of the attempt after the one that the thread names. */
export async function trim(
  all: Collections,
  { thread_id, run_id, attempt }: Extract<Step, { step: 'checkpoints.trim' }>,
): Promise<void> {
  const thread = await all.threads.findOne({ _id: thread_id }, { projection: { latest_checkpoint_id: 1 } })
  if (thread === null) return
  const { latest_checkpoint_id: id } = thread as Doc & { latest_checkpoint_id: string | null }
  const known = { _id: id === null ? '' : checkpointKey(thread_id, id, ''), thread_id }
  const latest = id === null ? null : await all.checkpoints.findOne(known, { projection: { seq: 1 } })
  if (id !== null && latest === null) return
  const newer = { thread_id, run_id, attempt, ns: plain(''), seq: { $gt: (latest?.seq as number | undefined) ?? -1 } }
  const found = await all.checkpoints.find(newer, { projection: { id: 1 } }).toArray()
  const ids = found.map(doc => ({ ns: '', id: doc.id as string }))
  await removeCheckpoints(all, thread_id, ids)
}

/** With their writes. */
export async function removeCheckpoints(
  all: Collections,
  thread_id: string,
  checkpoints: readonly CheckpointKey[],
): Promise<void> {
  for (const some of chunks(checkpoints)) {
    const of = some.map(({ ns, id }) => key(thread_id, ns, id))
    await dropFound(all, 'writes', { thread_id, of: { $in: of } })
    const ids = some.map(({ ns, id }) => checkpointKey(thread_id, id, ns))
    await dropFound(all, 'checkpoints', { thread_id, _id: { $in: ids } })
  }
}

export async function removeBlobs(all: Collections, thread_id: string, blobs: readonly BlobKey[]): Promise<void> {
  for (const some of chunks(blobs))
    await dropFound(all, 'blobs', { thread_id, _id: { $in: some.map(blob => blobKey(thread_id, blob)) } })
}

export const checkpointKey = (thread_id: string, id: string, ns: string): string => key(thread_id, id, ns)
export const blobKey = (thread_id: string, { ns, channel, version }: BlobKey): string =>
  key(thread_id, ns, channel, version)
export const writeKey = (thread_id: string, { ns, checkpoint_id, task_id, idx }: WriteKey): string =>
  key(thread_id, ns, checkpoint_id, task_id, idx)
