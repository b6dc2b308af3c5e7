/** The lines of `weft doctor` about a MongoDB server. */
import type { MongoClient } from 'mongodb'
import { clientOf, hostsOf } from './connection.js'

/** Rejects with one sentence when no server answers within 5 s. */
export async function describeMongo(url: string): Promise<{ version: string; isReplicated: boolean }> {
  let client: MongoClient | null = null
  try {
    client = clientOf(url, { serverSelectionTimeoutMS: 5_000 })
    const hello = await client.db().command({ hello: 1 })
    const { version } = (await client.db().command({ buildInfo: 1 })) as unknown as { version: string }
    return { version, isReplicated: 'setName' in hello || hello.msg === 'isdbgrid' }
  } catch (error) {
    throw new Error(`no MongoDB answers at ${hostsOf(url)}: ${(error as Error).message}`)
  } finally {
    await client?.close()
  }
}
