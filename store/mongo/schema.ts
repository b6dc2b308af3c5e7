/** The version of the stored documents: one document, so that an older Weft does not write what it does not know. */
import type { Db, Document } from 'mongodb'
import { ANY_KEY } from '../../schemas/contains.js'
import { isTaken } from './documents.js'

/** Changes that documents of an older Weft need before this one can read them. Each may be repeated. */
const UPGRADES: ((db: Db) => Promise<void>)[] = [
  async db => {
    await db.collection('runs').updateMany({ hb: { $exists: true } }, { $rename: { hb: 'heartbeats' } })
    await db
      .collection('threads')
      .updateMany({ head: { $exists: true } }, { $rename: { head: 'latest_checkpoint_id', next_no: 'next_position' } })
    await db.collection('states').updateMany({ head: { $exists: true } }, { $rename: { head: 'latest_checkpoint_id' } })
    await rewrite(db, 'threads', { 'queue.no': { $exists: true } }, ({ queue }) => ({
      queue: (queue as Document[]).map(({ no, ...rest }) => ({ ...rest, position: no })),
    }))
    await rewrite(db, 'runs', { base: { $regex: '^."head":' } }, ({ base }) => ({
      base: (base as string).replace('{"head":', '{"latest_checkpoint_id":'),
    }))
  },
  // They match every filter, as documents with too many keys do.
  async db => {
    for (const on of ['assistants', 'items'])
      await db.collection(on).updateMany({ _keys: { $exists: false } }, { $set: { _keys: [ANY_KEY] } })
  },
  // Keys of items are in the order of their values.
  async db => {
    await db.collection('items').updateMany({}, { $set: { _keys: [ANY_KEY] } })
  },
]

const VERSION = UPGRADES.length + 1

/** Brings the documents to this version; throws one sentence when a newer Weft has written the database. */
export async function ensureVersion(db: Db): Promise<void> {
  const meta = db.collection<{ _id: string; version: number }>('meta')
  try {
    await meta.insertOne({ _id: 'schema', version: VERSION })
  } catch (error) {
    if (!isTaken(error)) throw error
  }
  const found = (await meta.findOne({ _id: 'schema' }))?.version ?? VERSION
  if (found > VERSION)
    throw new Error(
      `The database ${db.databaseName} has schema version ${found}, this Weft knows up to ${VERSION}: start a newer Weft, or restore the backup from before its upgrade`,
    )
  for (let version = found; version < VERSION; version++) {
    await UPGRADES[version - 1]!(db)
    await meta.updateOne({ _id: 'schema', version }, { $set: { version: version + 1 } })
  }
}

async function rewrite(db: Db, on: string, filter: Document, change: (doc: Document) => Document): Promise<void> {
  for await (const doc of db.collection(on).find(filter))
    await db.collection(on).updateOne({ _id: doc._id }, { $set: change(doc) })
}
