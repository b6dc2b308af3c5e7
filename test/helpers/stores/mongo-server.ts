/** A MongoDB server (scripts/mongo/server.ts) with a database per use. It ends with the test process. */
import { randomUUID } from 'node:crypto'
import { type MongoProcess, startMongoProcess } from '../../../scripts/mongo/process.js'
import { findMongo } from '../../../scripts/mongo/server.js'

export interface TestMongo {
  /** The name of the server, with its version. */
  name: string
  /** The URL of a new database; `stop` removes it. */
  url(): string
  stop(): Promise<void>
}

/** The server of MONGODB_URL when it is set, else one that is started. `lasting`: it serves a long load. */
export async function startMongo({ lasting = false } = {}): Promise<TestMongo> {
  const way = await findMongo({ lasting })
  const server = way.kind === 'url' ? null : await startMongoProcess(way)
  const urls: string[] = []
  return {
    name: way.kind === 'url' ? await nameOf(way.url) : way.name,
    url() {
      const database = `weft-test-${randomUUID()}`
      const url = way.kind === 'url' ? inDatabase(way.url, database) : server!.url(database)
      urls.push(url)
      return url
    },
    async stop() {
      if (server !== null) return server.stop()
      // Not loaded by files on the embedded store: 0.09 s of CPU each.
      const { MongoClient } = await import('mongodb')
      for (const url of urls) {
        const client = await new MongoClient(url).connect()
        await client.db().dropDatabase()
        await client.close()
      }
    },
  }
}

/**
 * Switches vector search on in a database of the test server (test/mongo/VectorSearch.java). `queryable`: its indexes
 * are ready; `follows`: they see what is written from now on; `lists`, `makes`: the error codes with which it refuses to
 * list and to make indexes. False: the server has no such switch.
 */
export async function switchSearch(
  url: string,
  set: { queryable?: boolean; follows?: boolean; lists?: number; makes?: number } = {},
): Promise<boolean> {
  const { MongoClient } = await import('mongodb')
  const client = await new MongoClient(url).connect()
  try {
    await client.db().command({ weftSearch: 1, ...set })
    return true
  } catch (error) {
    if ((error as { codeName?: string }).codeName === 'CommandNotFound') return false
    throw error
  } finally {
    await client.close()
  }
}

/** A server that the test may kill. */
export async function startOwnMongo(): Promise<MongoProcess> {
  const way = await findMongo({ own: true })
  if (way.kind === 'url') throw new Error('a server that is not ours cannot be killed')
  return startMongoProcess(way)
}

/** The name by which the server introduces itself. */
async function nameOf(url: string): Promise<string> {
  const { MongoClient } = await import('mongodb')
  const client = await new MongoClient(url).connect()
  try {
    const { version, ferretdb } = await client.db('admin').command({ buildInfo: 1 })
    return ferretdb === undefined ? `MongoDB ${version}` : `FerretDB ${ferretdb.version ?? ''}`.trim()
  } finally {
    await client.close()
  }
}

/** The same URL with another database. */
const inDatabase = (url: string, database: string): string =>
  url.replace(/^(mongodb(?:\+srv)?:\/\/[^/?]+)(?:\/[^?]*)?/, `$1/${database}`)
