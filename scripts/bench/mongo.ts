/**
 * A MongoDB server for a measured Weft: that of MONGODB_URL with a new database, else one that is started as for tests
 * (`scripts/mongo`). mongo-java-server speaks the protocol, but its speed is not that of mongod.
 */
import { randomBytes } from 'node:crypto'
import { startMongoProcess } from '../mongo/process.js'
import { findMongo } from '../mongo/server.js'

export interface BenchMongo {
  /** For every process of Weft. */
  env: { MONGODB_URL: string }
  /** None when it runs already. */
  pids(): number[]
  stop(): Promise<void>
}

/** Resolves when it accepts connections; throws an Error with one sentence when none is found. */
export async function benchMongo(): Promise<BenchMongo> {
  const way = await findMongo({ lasting: true })
  const database = `weft_bench_${randomBytes(4).toString('hex')}`
  if (way.kind === 'url') {
    const url = new URL(way.url)
    url.pathname = `/${database}`
    return { env: { MONGODB_URL: url.href }, pids: () => [], stop: async () => {} }
  }
  const mongo = await startMongoProcess(way)
  const pids = () => [mongo.pid()].filter(pid => pid !== null)
  return { env: { MONGODB_URL: mongo.url(database) }, pids, stop: mongo.stop }
}
