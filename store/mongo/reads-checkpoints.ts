/** Checkpoints with their blobs and writes, and pages of all stored rows of a thread. */
import type { Document, Filter, FindOptions } from 'mongodb'
import type { Store } from '../port.js'
import type { BlobRow, CheckpointRow, PageQuery, Tuple, WriteRow } from '../rows/checkpoints.js'
import type { CollectionName, Collections } from './collections.js'
import { type Doc, exact, key, plain } from './documents.js'
import { chunks } from './find.js'
import { findById, findOfCheckpoint } from './grouped-reads.js'
import { load } from './parts.js'
import { blobKey, checkpointKey, writeKey } from './saves.js'

/** Checkpoints that are put together at once. */
const TUPLES = 64
/** So many blobs are read with those of other calls; more are a command of their own. */
const FEW = 64
const LATEST: FindOptions = { projection: { latest_checkpoint_id: 1 } }

export function checkpointReads(all: Collections): Store['checkpoints'] {
  return {
    async get({ thread_id, ns = '', checkpoint_id, without_run }) {
      // The latest checkpoint may be one to leave out: then the newest of the others counts.
      const follows = checkpoint_id === undefined && ns === '' && without_run === undefined
      const id = follows ? await latestOf(thread_id) : checkpoint_id
      if (id === null) return null
      const others = without_run === undefined ? {} : { run_id: { $ne: without_run } }
      const found =
        id === undefined
          ? await all.checkpoints.findOne({ thread_id, ns: plain(ns), ...others }, { sort: { seq: -1 } })
          : await findById(all.checkpoints, checkpointKey(thread_id, id, ns), null, thread_id)
      if (found === null || (without_run !== undefined && found.run_id === without_run)) return null
      return (await tuples(thread_id, [found as Doc]))[0] ?? null
    },

    async list({ thread_id, ns, checkpoint_id, before, limit, bytes, without_run }) {
      if (limit === 0) return []
      const filter: Filter<Doc> = { thread_id }
      if (ns !== undefined) filter.ns = plain(ns)
      if (checkpoint_id !== undefined) filter.id = checkpoint_id
      if (without_run !== undefined) filter.run_id = { $ne: without_run }
      if (before !== undefined) {
        const seq = await seqOf(thread_id, before)
        if (seq === null) return []
        filter.seq = { $lt: seq }
      }
      const found: Tuple[] = []
      let held = 0
      // With a bound of bytes a few at a time, so that no more is read than is answered.
      const page = bytes === undefined ? Number.POSITIVE_INFINITY : 4
      for await (const docs of pages(filter, limit, Math.min(page, TUPLES)))
        for (const tuple of await tuples(thread_id, docs)) {
          found.push(tuple)
          if (bytes !== undefined && (held += bytesOf(tuple)) >= bytes) return found
        }
      return found
    },

    rows: query =>
      walk<CheckpointDoc, CheckpointRow>(
        'checkpoints',
        query,
        { seq: { $gt: query.after?.seq ?? -1 } },
        { seq: 1 },
        ({ ns, id, parent, seq, type, size, meta_type, meta_size, refs, value, metadata }) =>
          query.bare
            ? {
                ns,
                id,
                parent,
                seq,
                type,
                size: 0,
                meta_type,
                meta_size: 0,
                refs: JSON.parse(refs),
                value: NOTHING,
                metadata: NOTHING,
              }
            : { ns, id, parent, seq, type, size, meta_type, meta_size, refs: JSON.parse(refs), value, metadata },
      ),

    blobs: query => {
      const { thread_id, after } = query
      return walk<BlobRow, BlobRow>(
        'blobs',
        query,
        after === null ? {} : { _id: { $gt: blobKey(thread_id, after) } },
        { _id: 1 },
        ({ ns, channel, version, type, size, value }) => ({
          ns,
          channel,
          version,
          type,
          ...bytesFor(query, size, value),
        }),
      )
    },

    writes: query => {
      const { thread_id, after } = query
      return walk<WriteRow, WriteRow>(
        'writes',
        query,
        after === null ? {} : { _id: { $gt: writeKey(thread_id, after) } },
        { _id: 1 },
        ({ ns, checkpoint_id, task_id, idx, channel, type, size, value, path }) => ({
          ...{ ns, checkpoint_id, task_id, idx, channel, type },
          ...(path === undefined ? {} : { path }),
          ...bytesFor(query, size, value),
        }),
      )
    },

    async storage(thread_id) {
      const sum = async (on: CollectionName, _id: string | null, ...sizes: string[]) =>
        (await all[on]
          .aggregate([
            { $match: { thread_id } },
            { $group: { _id, rows: { $sum: 1 }, bytes: { $sum: sizes.length > 1 ? { $add: sizes } : sizes[0] } } },
            { $sort: { _id: 1 } },
          ])
          .toArray()) as { _id: string; rows: number; bytes: number }[]
      const [checkpoints, blobs, writes] = await Promise.all([
        sum('checkpoints', null, '$size', '$meta_size'),
        sum('blobs', '$channel', '$size'),
        sum('writes', null, '$size'),
      ])
      const total = (found: { rows: number; bytes: number }[]) => ({
        rows: found.reduce((sum, { rows }) => sum + rows, 0),
        bytes: found.reduce((sum, { bytes }) => sum + bytes, 0),
      })
      const channels = blobs.map(({ _id, rows, bytes }) => ({ channel: exact(_id), rows, bytes }))
      return { checkpoints: total(checkpoints), blobs: { ...total(blobs), channels }, writes: total(writes) }
    },
  }

  async function latestOf(thread_id: string): Promise<string | null> {
    const doc = await findById(all.threads, thread_id, LATEST)
    return (doc?.latest_checkpoint_id as string | null | undefined) ?? null
  }

  async function seqOf(thread_id: string, id: string): Promise<number | null> {
    const options: FindOptions = { sort: { seq: -1 }, projection: { seq: 1 } }
    return ((await all.checkpoints.findOne({ thread_id, id }, options))?.seq as number | undefined) ?? null
  }

  /** The documents of a list, newest first, some at a time. */
  async function* pages(filter: Filter<Doc>, limit: number | undefined, size: number): AsyncGenerator<Doc[]> {
    let page: Doc[] = []
    const options: FindOptions = { sort: { seq: -1 }, batchSize: size, ...(limit === undefined ? {} : { limit }) }
    for await (const doc of all.checkpoints.find(filter, options)) {
      page.push(doc)
      if (page.length < size) continue
      yield page
      page = []
    }
    if (page.length > 0) yield page
  }

  /** With the blobs that they refer to and their writes, each fetched once for all of them. */
  async function tuples(thread_id: string, docs: readonly Doc[]): Promise<Tuple[]> {
    if (docs.length === 0) return []
    const found = docs.map(doc => ({ doc, ns: exact(doc.ns as string), refs: Object.entries(refsOf(doc)) }))
    const [blobs, writes] = await Promise.all([
      values(
        thread_id,
        found.flatMap(({ ns, refs }) => refs.map(([channel, version]) => blobKey(thread_id, { ns, channel, version }))),
      ),
      writesOf(
        thread_id,
        found.map(({ ns, doc }) => key(thread_id, ns, doc.id as string)),
      ),
    ])
    const made: Tuple[] = []
    for (const { doc, ns, refs } of found) {
      const row = await load<CheckpointDoc>(all, doc, () => all.checkpoints.findOne({ _id: doc._id, thread_id }))
      if (row === null) continue
      const { id, parent, type, value, meta_type, metadata } = row
      made.push({
        ...{ ns, id, parent, type, value, meta_type, metadata },
        blobs: refs.flatMap(([channel, version]) => {
          const blob = blobs.get(blobKey(thread_id, { ns, channel, version }))
          return blob === undefined ? [] : [{ channel, ...blob }]
        }),
        writes: writes.get(key(thread_id, ns, id)) ?? [],
      })
    }
    return made
  }

  async function values(
    thread_id: string,
    ids: readonly string[],
  ): Promise<Map<string, { type: string; value: Uint8Array }>> {
    const out = new Map<string, { type: string; value: Uint8Array }>()
    for (const doc of await blobDocs(thread_id, [...new Set(ids)])) {
      const blob = await load<BlobRow>(all, doc, () => all.blobs.findOne({ _id: doc._id, thread_id }))
      if (blob !== null) out.set(doc._id, { type: blob.type, value: blob.value })
    }
    return out
  }

  async function blobDocs(thread_id: string, ids: readonly string[]): Promise<Document[]> {
    if (ids.length <= FEW) {
      const docs = await Promise.all(ids.map(id => findById(all.blobs, id, null, thread_id)))
      return docs.filter(doc => doc !== null)
    }
    const docs: Document[] = []
    for (const some of chunks(ids)) docs.push(...(await all.blobs.find({ thread_id, _id: { $in: some } }).toArray()))
    return docs
  }

  async function writesOf(thread_id: string, of: readonly string[]): Promise<Map<string, Tuple['writes']>> {
    const out = new Map<string, Tuple['writes']>()
    for (const docs of await Promise.all(of.map(one => findOfCheckpoint(all.writes, one, thread_id))))
      for (const doc of docs) {
        const row = await load<WriteRow & { of: string }>(all, doc, () =>
          all.writes.findOne({ _id: doc._id, thread_id }),
        )
        if (row === null) continue
        const { of, task_id, idx, channel, type, value, path } = row
        const list = out.get(of) ?? []
        list.push({ task_id, idx, channel, type, value, ...(path === undefined ? {} : { path }) })
        out.set(of, list)
      }
    for (const list of out.values())
      list.sort((a, b) => (a.task_id === b.task_id ? a.idx - b.idx : a.task_id < b.task_id ? -1 : 1))
    return out
  }

  /** Rows up to the limit, or until their values hold enough. */
  async function walk<Stored extends { size: number; meta_size?: number }, Row>(
    on: CollectionName,
    { thread_id, limit, bytes, bare = false }: PageQuery<unknown>,
    beyond: Filter<Doc>,
    sort: { [field: string]: 1 },
    make: (stored: Stored) => Row,
  ): Promise<Row[]> {
    const options: FindOptions = bare
      ? { projection: { value: 0, metadata: 0, _parts: 0 } }
      : { batchSize: Math.max(2, Math.min(limit, 16)) }
    const found: Row[] = []
    let held = 0
    for await (const doc of all[on].find({ thread_id, ...beyond }, { ...options, sort, limit })) {
      const stored = await load<Stored>(all, doc, () => all[on].findOne({ _id: doc._id, thread_id }))
      if (stored === null) continue
      found.push(make(stored))
      if (!bare && (held += stored.size + (stored.meta_size ?? 0)) >= bytes) break
    }
    return found
  }
}

/** A checkpoint as it is stored: its refs are JSON text. */
type CheckpointDoc = Omit<CheckpointRow, 'refs'> & { refs: string }

const NOTHING = new Uint8Array(0)

const bytesFor = ({ bare = false }: PageQuery<unknown>, size: number, value: Uint8Array) =>
  bare ? { size: 0, value: NOTHING } : { size, value }

const refsOf = (doc: Document): { [channel: string]: string } => JSON.parse(exact(doc.refs as string))

function bytesOf({ value, metadata, blobs, writes }: Tuple): number {
  let all = value.length + metadata.length
  for (const blob of blobs) all += blob.value.length
  for (const write of writes) all += write.value.length
  return all
}
