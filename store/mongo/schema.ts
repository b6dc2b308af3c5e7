/** The version of what is kept: one document, so that an older Weft does not write into what it does not know. */
import type { Db } from 'mongodb'
import { isTaken } from './documents.js'

/** Grows when documents of an older Weft have to be changed before this one can read them. */
const VERSION = 1

/** Throws one sentence when a newer Weft has written the database. */
export async function ensureVersion(db: Db): Promise<void> {
  const meta = db.collection<{ _id: string; version: number }>('meta')
  try {
    await meta.insertOne({ _id: 'schema', version: VERSION })
  } catch (error) {
    if (!isTaken(error)) throw error
  }
  const found = await meta.findOne({ _id: 'schema' })
  if (found !== null && found.version > VERSION)
    throw new Error(
      `The database ${db.databaseName} has schema version ${found.version}, this Weft knows up to ${VERSION}: start a newer Weft`,
    )
}
