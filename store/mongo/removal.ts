/**
 * Removes a thread with all its documents. The thread is marked first and removed last: with the mark it reads as absent
 * and is in no list, its id is not free, and an interrupted removal is finished later.
 */
import type { Collections } from './collections.js'

/** A mark of this age belongs to an interrupted removal. */
const ABANDONED_MS = 120_000

export async function removeThread(all: Collections, thread_id: string): Promise<void> {
  await all.threads.updateOne({ _id: thread_id, _removing: null }, { $set: { _removing: Date.now(), temporary: true } })
  await Promise.all([
    all.states.deleteOne({ _id: thread_id }),
    ...[all.runs, all.checkpoints, all.blobs, all.writes, all.parts].map(collection =>
      collection.deleteMany({ thread_id }),
    ),
  ])
  await all.threads.deleteOne({ _id: thread_id, _removing: { $gt: 0 } })
}

/** Finishes removals that a crash has cut short. */
export async function finishRemovals(all: Collections, limit: number): Promise<void> {
  const filter = { _removing: { $gt: 0, $lt: Date.now() - ABANDONED_MS } }
  const marked = await all.threads
    .find(filter, { projection: { _id: 1 } })
    .limit(limit)
    .toArray()
  for (const { _id } of marked) await removeThread(all, _id)
}
