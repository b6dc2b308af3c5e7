/**
 * Steps as writes to single documents: each is atomic by itself, and its condition is part of its filter. Repeating a
 * step whose outcome is unknown is safe: inserts have their ids, patches their conditions.
 */
import type { Filter, UpdateFilter } from 'mongodb'
import { keysOf } from '../../schemas/contains.js'
import type { RunWhere } from '../rows/runs.js'
import type { Step, Truncated } from '../steps.js'
import type { CollectionName, Collections } from './collections.js'
import { type Doc, fields, key, plain } from './documents.js'
import { putItem, removeItem, takeItem, touchItems } from './items.js'
import { insert, NOBODY, patch, put, remove } from './parts.js'
import { removeThread } from './removal.js'
import { removeBlobs, removeCheckpoints, rollback, save, trim } from './saves.js'

type Of<Name extends Step['step']> = Extract<Step, { step: Name }>
/** False = the condition does not hold, nothing was done. A function undoes a step that cannot fail. */
type Done = boolean | (() => Promise<void>)
type Ways = { readonly [Name in Step['step']]: (step: Of<Name>, all: Collections) => Promise<Done> }

/** Does the steps in order; the index of the first that fails, or −1. */
export async function applySteps(steps: readonly Step[], all: Collections): Promise<number> {
  const undo: (() => Promise<void>)[] = []
  for (const [i, step] of steps.entries()) {
    const done = await (WAYS[step.step] as (step: Step, all: Collections) => Promise<Done>)(step, all)
    if (typeof done === 'function') undo.push(done)
    if (done !== false) continue
    // The save of a stale attempt precedes the condition that detects it: without the undo the history would show it.
    for (const back of undo.reverse()) await back()
    return i
  }
  return -1
}

const WAYS: Ways = {
  'assistants.insert': ({ row, searchable = row.metadata }, all) =>
    insert(all, 'assistants', NOBODY, {
      ...fields(row),
      _keys: keysOf(JSON.parse(searchable)),
      _id: key(row.app, row.assistant_id),
    }),

  'assistants.patch': ({ app, assistant_id, where, set, searchable = set.metadata }, all) =>
    patch(
      all,
      'assistants',
      NOBODY,
      { _id: key(app, assistant_id), updated_at: where.updated_at },
      searchable === undefined ? fields(set) : { ...fields(set), _keys: keysOf(JSON.parse(searchable)) },
    ),

  /** The versions first: an assistant that is made anew under this id finds none of them. */
  'assistants.remove': async ({ app, assistant_id }, all) => {
    await removeMany(all, 'versions', { app, assistant_id })
    await removeMany(all, 'assistants', { _id: key(app, assistant_id) })
    return true
  },

  'versions.insert': ({ row }, all) =>
    insert(all, 'versions', NOBODY, { ...fields(row), _id: key(row.app, row.assistant_id, row.version) }),

  'versions.remove': async ({ app, assistant_id, version }, all) => {
    await removeMany(all, 'versions', { _id: key(app, assistant_id, version) })
    return true
  },

  'threads.insert': async ({ row, keys }, all) => {
    const doc = { ...fields(row), ...(keys ? { _keys: [...keys] } : {}), _id: row.thread_id }
    if (await insert(all, 'threads', owner(row.thread_id), doc)) return true
    // The id of a thread whose removal was cut short is free again.
    if ((await all.threads.findOne({ _id: row.thread_id }, { projection: { _removing: 1 } }))?._removing === undefined)
      return false
    await removeThread(all, row.thread_id)
    return insert(all, 'threads', owner(row.thread_id), doc)
  },

  'threads.patch': ({ thread_id, where, set, keys }, all) => {
    const filter: Filter<Doc> = { _id: thread_id }
    if (where.rev !== undefined) filter.rev = where.rev
    if (where.token !== undefined) filter['active.token'] = where.token
    const more: UpdateFilter<Doc> = where.rev === undefined ? {} : { $inc: { rev: 1 } }
    if (keys !== undefined) more.$set = { _keys: [...keys] }
    return patch(all, 'threads', owner(thread_id), filter, fields(set), more)
  },

  'threads.state': async ({ thread_id, latest_checkpoint_id, values, rest }, all) => {
    await put(all, 'states', owner(thread_id), { _id: thread_id, latest_checkpoint_id, values, rest })
    return true
  },

  'runs.insert': async ({ row }, all) => {
    const doc = { ...fields(row), ...openOf(row.status), _id: row.run_id }
    if (await insert(all, 'runs', owner(row.thread_id), doc)) return true
    // A repeated create counts as done and leaves the stored row unchanged.
    const same: Filter<Doc> = { _id: row.run_id, status: 'accepting', app: row.app, thread_id: row.thread_id }
    return (await all.runs.findOne(same, { projection: { _id: 1 } })) !== null
  },

  'runs.patch': async ({ run_id, where, set, optional }, all) => {
    const more: UpdateFilter<Doc> =
      set.status === undefined ? {} : isOpen(set.status) ? { $set: { _open: true } } : { $unset: { _open: '' } }
    const done = await patch(
      all,
      'runs',
      owner(await threadOf(all, run_id, set)),
      runFilter(run_id, where),
      fields(set),
      more,
    )
    return done || optional === true
  },

  'runs.remove': async ({ run_id, where, optional }, all) => {
    const removed = await all.runs.findOneAndDelete(runFilter(run_id, where), { projection: { _parts: 1 } })
    if (removed === null) return optional === true
    await remove(all, removed._parts)
    return true
  },

  'runs.beat': async ({ runs }, all) => {
    if (runs.length === 0) return true
    await all.runs.bulkWrite(
      runs.map(({ run_id, token }) => ({
        updateOne: { filter: { _id: run_id, token }, update: { $inc: { heartbeats: 1 } } },
      })),
      { ordered: false },
    )
    return true
  },

  'checkpoints.insert': (step, all) => save(all, step),

  'checkpoints.rollback': async ({ thread_id, run_id }, all) => {
    await rollback(all, thread_id, run_id)
    return true
  },

  'checkpoints.trim': async (step, all) => {
    await trim(all, step)
    return true
  },

  'checkpoints.remove': async ({ thread_id, checkpoints }, all) => {
    await removeCheckpoints(all, thread_id, checkpoints)
    return true
  },

  'blobs.remove': async ({ thread_id, blobs }, all) => {
    await removeBlobs(all, thread_id, blobs)
    return true
  },

  'threads.remove': async ({ thread_id }, all) => {
    await removeThread(all, thread_id)
    return true
  },

  truncate: async ({ what, keep = [] }, all) => {
    await TRUNCATE[what](all, keep)
    return true
  },

  'records.insert': ({ row }, all) =>
    insert(all, 'records', NOBODY, {
      ...fields(row),
      name: nameOf(row.name, row.id),
      _id: key(row.kind, row.id),
    }),

  'records.patch': ({ kind, id, where, set }, all) => {
    const filter: Filter<Doc> = { _id: key(kind, id) }
    if (where.rev !== undefined) filter.rev = where.rev
    const name = set.name === undefined ? {} : { name: nameOf(set.name, id) }
    return patch(all, 'records', NOBODY, filter, { ...fields(set), ...name }, { $inc: { rev: 1 } })
  },

  'records.remove': async ({ kind, id, where }, all) => {
    const filter: Filter<Doc> = { _id: key(kind, id) }
    if (where.rev !== undefined) filter.rev = where.rev
    const removed = await all.records.findOneAndDelete(filter, { projection: { _parts: 1 } })
    if (removed === null) return false
    await remove(all, removed._parts)
    return true
  },

  'records.clear': async ({ kind, parent }, all) => {
    await removeMany(all, 'records', { kind, parent })
    return true
  },

  'items.put': async (step, all) => {
    await putItem(all, step)
    return true
  },

  'items.replace': (step, all) => putItem(all, step, step.replaces),
  'items.take': (step, all) => takeItem(all, step),

  'items.remove': async (step, all) => {
    await removeItem(all, step)
    return true
  },

  'items.touch': async (step, all) => {
    await touchItems(all, step)
    return true
  },
}

/** Removes the documents that the filter finds, then the parts that they named. */
async function removeMany(all: Collections, on: CollectionName, filter: Filter<Doc>): Promise<void> {
  const large = all[on].find({ ...filter, _parts: { $ne: null } }, { projection: { _parts: 1 } })
  const parts = (await large.toArray()).map(doc => doc._parts)
  await all[on].deleteMany(filter)
  for (const refs of parts) await remove(all, refs)
}

const owner = (thread_id: string | null) => ({ thread_id, run_id: null })

/** Runs that have not ended are in a separate index. */
const isOpen = (status: string): boolean => status === 'accepting' || status === 'pending' || status === 'running'
const openOf = (status: string) => (isOpen(status) ? { _open: true } : {})

/** The unique index on names has no exception: a record without a name gets one that no user can choose. */
const NONE = '\uffff:'
const nameOf = (name: string | null, id: string): string => (name === null ? NONE + id : plain(name))
export const nameFrom = (stored: string): string | null => (stored.startsWith(NONE) ? null : stored)

function runFilter(run_id: string, { status, ...equal }: RunWhere): Filter<Doc> {
  const filter: Filter<Doc> = { ...fields(equal), _id: run_id }
  if (status !== undefined) filter.status = { $in: [...status] }
  return filter
}

/** Whose parts they will be; only a patch that brings large values needs to know. */
async function threadOf(all: Collections, run_id: string, { kwargs, result }: { kwargs?: unknown; result?: unknown }) {
  if (kwargs === undefined && (result === undefined || result === null)) return null
  return ((await all.runs.findOne({ _id: run_id }, { projection: { thread_id: 1 } }))?.thread_id as string) ?? null
}

const empty = (all: Collections, ...names: (keyof Collections)[]) =>
  Promise.all(names.map(name => all[name].deleteMany({})))

type Keep = NonNullable<Of<'truncate'>['keep']>

/** Parts of large documents that are left behind go with their threads. */
const TRUNCATE: { readonly [what in Truncated]: (all: Collections, keep: Keep) => Promise<unknown> } = {
  threads: all => empty(all, 'threads', 'states', 'runs', 'checkpoints', 'blobs', 'writes', 'parts'),
  async runs(all) {
    await empty(all, 'runs')
    for (const settled of ['idle', 'interrupted', 'error'])
      await all.threads.updateMany(
        { settled },
        { $set: { active: null, queue: [], status: settled }, $inc: { rev: 1 } },
      )
  },
  async checkpoints(all) {
    await empty(all, 'checkpoints', 'blobs', 'writes', 'states')
    const set = { latest_checkpoint_id: null, settled: 'idle', interrupts: '{}', error: null }
    await all.threads.updateMany({ status: { $ne: 'busy' } }, { $set: { status: 'idle' } })
    await all.threads.updateMany({}, { $set: set, $inc: { rev: 1 } })
  },
  items: all => empty(all, 'items', 'item_vectors'),
  async assistants(all, keep) {
    const kept = keep.map(({ app, assistant_id }) => ({ app, assistant_id }))
    await all.versions.deleteMany(kept.length === 0 ? {} : { $nor: kept })
    await all.assistants.deleteMany({ _id: { $nin: kept.map(({ app, assistant_id }) => key(app, assistant_id)) } })
  },
}
