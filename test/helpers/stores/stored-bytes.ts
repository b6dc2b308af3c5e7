/** The bytes that a cluster with this data folder has stored: the files of its store and its broker, and the documents of MongoDB. */
import { readFileSync } from 'node:fs'
import { BSON, MongoClient } from 'mongodb'
import { filesBelow } from '../byte-search.js'
import { storeKind, storeOf } from './store.js'

export async function* storedBytes(data: string): AsyncGenerator<[name: string, bytes: Uint8Array]> {
  for (const file of filesBelow(data)) {
    let bytes: Uint8Array
    try {
      bytes = readFileSync(file)
    } catch {
      // The broker removes a block whose messages are acknowledged.
      continue
    }
    yield [file, bytes]
  }
  if (storeKind !== 'mongo') return
  const client = await MongoClient.connect((await storeOf(data)).mongodb_url)
  for (const { name } of await client.db().listCollections().toArray())
    for await (const document of client.db().collection(name).find()) yield [name, BSON.serialize(document)]
  await client.close()
}
