/** Checkpoints: what a save writes, and what a rollback takes back. Values before the checkpoints that refer to them. */
import { MongoBulkWriteError } from 'mongodb'
import type { Step } from '../port.js'
import type { Collections } from './collections.js'
import { type Doc, isTaken, key, plain } from './documents.js'
import { put, remove, store } from './parts.js'

type Save = Extract<Step, { step: 'checkpoints.insert' }>

/** Stores them; resolves to what takes back the checkpoints and writes that were not there before. */
export async function save(
  all: Collections,
  { thread_id, run_id, attempt, checkpoints, blobs, writes }: Save,
): Promise<() => Promise<void>> {
  const of = { thread_id, run_id, attempt }
  const mine = { thread_id, run_id }
  const blobDocs = blobs.map(({ ns, channel, version, type, value }) => ({
    _id: blobKey(thread_id, ns, channel, version),
    thread_id,
    type,
    value,
  }))
  const writeDocs = writes.map(({ ns, checkpoint_id, task_id, idx, channel, type, value }) => ({
    ...of,
    _id: key(thread_id, ns, checkpoint_id, task_id, idx),
    of: key(thread_id, ns, checkpoint_id),
    task_id: plain(task_id),
    idx,
    channel: plain(channel),
    type,
    value,
  }))
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
      const _id = checkpointKey(thread_id, id, ns)
      return (await put(all, 'checkpoints', mine, { ...of, ...row, _id })) ? [_id] : []
    }),
  )
  return async () => {
    await Promise.all([drop(all, 'checkpoints', made.flat()), drop(all, 'writes', first)])
  }
}

/** Inserts those whose ids are new; resolves to their ids. */
async function insertNew(
  all: Collections,
  on: 'blobs' | 'writes',
  owner: { thread_id: string; run_id: string | null },
  docs: readonly Doc[],
): Promise<string[]> {
  if (docs.length === 0) return []
  const ready: Doc[] = []
  const added: string[] = []
  for (const doc of docs) {
    const { fields, refs } = await store(all, owner, doc)
    if (refs === null) ready.push(fields as Doc)
    else if (await insertStored(all, on, { ...(fields as Doc), _parts: refs })) added.push(doc._id)
    else await remove(all, refs)
  }
  if (ready.length === 0) return added
  const taken = new Set<number>()
  try {
    await all[on].insertMany(ready, { ordered: false })
  } catch (error) {
    if (!(error instanceof MongoBulkWriteError)) throw error
    const errors = Array.isArray(error.writeErrors) ? error.writeErrors : [error.writeErrors]
    if (errors.length === 0 || !errors.every(isTaken)) throw error
    for (const { index } of errors) taken.add(index)
  }
  return [...added, ...ready.flatMap(({ _id }, i) => (taken.has(i) ? [] : [_id]))]
}

async function insertStored(all: Collections, on: 'blobs' | 'writes', doc: Doc): Promise<boolean> {
  try {
    await all[on].insertOne(doc)
    return true
  } catch (error) {
    if (!isTaken(error)) throw error
    return false
  }
}

async function drop(all: Collections, on: 'checkpoints' | 'writes', ids: string[]): Promise<void> {
  if (ids.length === 0) return
  const filter = { _id: { $in: ids } }
  const docs = await all[on].find({ ...filter, _parts: { $ne: null } }, { projection: { _parts: 1 } }).toArray()
  await all[on].deleteMany(filter)
  for (const doc of docs) await remove(all, doc._parts)
}

export async function rollback(all: Collections, thread_id: string, run_id: string): Promise<void> {
  const made = { thread_id, run_id }
  // Blobs stay, and so do their parts: those name no run.
  await Promise.all([all.checkpoints.deleteMany(made), all.writes.deleteMany(made)])
  await all.parts.deleteMany(made)
}

export const checkpointKey = (thread_id: string, id: string, ns: string): string => key(thread_id, id, ns)
export const blobKey = (thread_id: string, ns: string, channel: string, version: string): string =>
  key(thread_id, ns, channel, version)
