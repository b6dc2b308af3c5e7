/**
 * Vector search by MongoDB (`$vectorSearch`; Atlas, or 8.2 and newer with mongot). It finds one vector in a document, so
 * the vectors of items are copied to `item_vectors`, one document each, which name the write of the item that they are of.
 * Copies are derived: the item is the truth, and a vector of another write of it counts for nothing. Only applications that
 * are searched this way have copies (workers/resources/vectors/nearest.ts).
 */
import { createHash, randomUUID } from 'node:crypto'
import { type AnyBulkWriteOperation, Binary, type Document, MongoBulkWriteError, MongoServerError } from 'mongodb'
import { fail } from '../../schemas/errors.js'
import type { Store } from '../port.js'
import type { Collections } from './collections.js'
import { type Doc, exact, key as idOf, isTaken } from './documents.js'
import { bytesOf, idOfItem, labelsOfPath, pathOf } from './items.js'

/** The server's limits: numbers of a vector, and candidates of one search. */
const MAX_DIMS = 8192
const MAX_CANDIDATES = 10_000
/** The manual asks for 20 times as many candidates as results. */
const CANDIDATES = 20
/** Items copied in one go; each may have 1 MB of vectors. */
const COPIED = 64
/** An index that was ready is not asked about before this time. */
const READY_MS = 30_000
/** A mark that nobody waits for any more. */
const ABANDONED_MS = 3_600_000
/** `of` of the documents that are marks; ids of items begin with a bracket. */
const MARK = 'mark'
/** The stages of searches accept no other one. */
const LOCAL = { readConcern: { level: 'local' } } as const
/**
 * Answers of servers without vector search, by version: CommandNotFound, CommandNotSupported, AtlasError (a tier without
 * it), SearchNotEnabled, an unknown stage, `only allowed on MongoDB Atlas`. Some before 7.2.1 list no indexes, and refuse
 * to make one.
 */
const NO_SEARCH: readonly number[] = [59, 115, 8000, 31082, 40324, 6047401]
const UNAUTHORIZED = 13

export function nearestVectors(all: Collections): NonNullable<Store['nearest']> {
  const vectors = all.item_vectors
  const ready = new Map<number, number>()

  /** The search index of a size; undefined when there is none, null when the server has none at all. */
  async function indexOf(dims: number): Promise<Document | undefined | null> {
    try {
      const stage = { $listSearchIndexes: { name: indexName(dims) } }
      return (await vectors.aggregate([stage], LOCAL).toArray())[0]
    } catch (error) {
      // Some check the right before they say that they have none.
      if (isOneOf([...NO_SEARCH, UNAUTHORIZED], error)) return null
      throw error
    }
  }

  const search = async (query: Float32Array, scope: string, limit: number) =>
    vectors
      .aggregate(
        [
          {
            $vectorSearch: {
              index: indexName(query.length),
              path: fieldOf(query.length),
              queryVector: Binary.fromFloat32Array(query),
              filter: { scopes: { $eq: scope } },
              numCandidates: Math.min(limit * CANDIDATES, MAX_CANDIDATES),
              limit,
            },
          },
          { $project: { _id: 0, path: 1, key: 1, updated_at: 1, score: { $meta: 'vectorSearchScore' } } },
        ],
        LOCAL,
      )
      .toArray()

  return {
    async prepare(dims) {
      if (dims > MAX_DIMS) return 'none'
      if ((ready.get(dims) ?? 0) > performance.now()) return 'ready'
      const found = await indexOf(dims)
      if (found === null) return 'none'
      if (found === undefined) {
        const refusal = await createIndex(all, dims)
        if (refusal === null || (await indexOf(dims))) return 'building'
        if (isOneOf(NO_SEARCH, refusal)) return 'none'
        throw fail('unavailable', `MongoDB does not make the search index ${indexName(dims)}: ${refusal.message}`)
      }
      if (found.status === 'FAILED')
        throw fail(
          'unavailable',
          `The search index ${indexName(dims)} of MongoDB has failed: drop it, Weft makes it again`,
        )
      if (found.queryable !== true) return 'building'
      ready.set(dims, performance.now() + READY_MS)
      return 'ready'
    },

    async copy(app, dims) {
      const found = await all.items
        .find(
          { app, _indexed: true, _copied: { $ne: dims } },
          { projection: { path: 1, key: 1, updated_at: 1, _vectors: 1 }, limit: COPIED },
        )
        .toArray()
      if (found.length === 0) return false
      const writes = found.flatMap((doc): AnyBulkWriteOperation<Doc>[] => [
        {
          deleteMany: {
            filter: { of: doc._id, $or: [{ updated_at: { $lt: doc.updated_at } }, { dims: { $ne: dims } }] },
          },
        },
        ...copiesOf(app, dims, doc).map(({ _id, ...rest }) => ({
          replaceOne: { filter: { _id }, replacement: rest as Doc, upsert: true },
        })),
      ])
      await vectors.bulkWrite(writes, { ordered: false }).catch(ignoreTaken)
      // Not one that was written meanwhile: it is copied again.
      await all.items.bulkWrite(
        found.map(({ _id, updated_at }) => ({
          updateOne: { filter: { _id, updated_at }, update: { $set: { _copied: dims } } },
        })),
        { ordered: false },
      )
      return found.length === COPIED
    },

    async mark(dims) {
      const id = randomUUID()
      await vectors.deleteMany({ of: MARK, updated_at: { $lt: Date.now() - ABANDONED_MS } })
      await vectors.insertOne({
        _id: id,
        of: MARK,
        updated_at: Date.now(),
        scopes: [id],
        [fieldOf(dims)]: Binary.fromFloat32Array(someVector(dims)),
      })
      return id
    },

    async reached(dims, mark) {
      if ((await search(someVector(dims), mark, 1)).length === 0) return false
      await vectors.deleteOne({ _id: mark })
      return true
    },

    async find({ app, prefix, query, limit }) {
      const found = await search(query, scopeOf(app, prefix), limit)
      return found.map(({ path, key, updated_at, score }) => ({
        namespace: labelsOfPath(path),
        key: exact(key),
        updated_at,
        // The server turns the cosine into a number from 0 to 1.
        score: 2 * score - 1,
      }))
    },

    async drop(app, stale) {
      const ids = [...new Set(stale.map(item => idOfItem(app, item)))]
      const options = { projection: { updated_at: 1 } }
      const present = new Map(
        (await all.items.find({ _id: { $in: ids } }, options).toArray()).map(({ _id, updated_at }) => [
          _id,
          updated_at,
        ]),
      )
      for (const item of stale) {
        const of = idOfItem(app, item)
        // Never those of the present write: it may be hidden because it has expired.
        if (present.get(of) !== item.updated_at) await vectors.deleteMany({ of, updated_at: item.updated_at })
      }
    },
  }
}

const indexName = (dims: number): string => `vectors_${dims}`
const fieldOf = (dims: number): string => `v${dims}`

const isOneOf = (codes: readonly number[], error: unknown): boolean =>
  error instanceof MongoServerError && codes.includes(Number(error.code))

/** The refusal of the server, which may say that another worker was faster. */
async function createIndex(all: Collections, dims: number): Promise<MongoServerError | null> {
  const fields = [
    { type: 'vector', path: fieldOf(dims), numDimensions: dims, similarity: 'cosine' },
    { type: 'filter', path: 'scopes' },
  ]
  try {
    await all.item_vectors.createSearchIndex({ name: indexName(dims), type: 'vectorSearch', definition: { fields } })
    return null
  } catch (error) {
    if (error instanceof MongoServerError) return error
    throw error
  }
}

/** A document per vector. The server cannot index a vector without a direction; it is similar to nothing. */
function copiesOf(app: string, dims: number, { _id: of, path, key, updated_at, _vectors }: Doc): Doc[] {
  const all = new Float32Array(new Uint8Array(bytesOf(_vectors)).buffer)
  if (all.length % dims !== 0) return []
  const labels = labelsOfPath(path)
  const scopes = [[], ...labels.map((_, i) => labels.slice(0, i + 1))].map(prefix => scopeOf(app, prefix))
  const copies: Doc[] = []
  for (let at = 0; at < all.length; at += dims) {
    const vector = all.slice(at, at + dims)
    if (vector.every(number => number === 0)) continue
    const _id = idOf(of, updated_at, dims, at / dims)
    copies.push({ _id, of, dims, path, key, updated_at, scopes, [fieldOf(dims)]: Binary.fromFloat32Array(vector) })
  }
  return copies
}

/** The application and a prefix of labels, as a text of one length: filters of searches have a limit for texts. */
const scopeOf = (app: string, prefix: readonly string[]): string =>
  createHash('sha256')
    .update(idOf(app, pathOf(prefix)))
    .digest('base64url')

const someVector = (dims: number): Float32Array => new Float32Array(dims).fill(1)

/** Two workers that copy the same item write the same documents. */
function ignoreTaken(error: unknown): void {
  const errors = error instanceof MongoBulkWriteError ? [error.writeErrors].flat() : []
  if (errors.length === 0 || !errors.every(isTaken)) throw error
}
