/**
 * A database server for a measured Weft: that of MONGODB_URL or DATABASE_URI with a new database, else one that is started as
 * for tests (`scripts/mongo`, `scripts/postgres`). mongo-java-server speaks the protocol, but its speed is not that of mongod.
 */
import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { startMongoProcess } from '../mongo/process.js'
import { findMongo } from '../mongo/server.js'
import { startPostgresProcess } from '../postgres/process.js'
import { findPostgres } from '../postgres/server.js'

export const DATABASES = ['mongo', 'postgres'] as const
export type DatabaseKind = (typeof DATABASES)[number]

export interface BenchDatabase {
  /** For every process of Weft. */
  env: { [name: string]: string }
  /** None when it runs already. */
  pids(): number[]
  stop(): Promise<void>
}

/** Resolves when it accepts connections; throws an Error with one sentence when none is found. */
export function benchDatabase(kind: DatabaseKind): Promise<BenchDatabase> {
  const database = `weft_bench_${randomBytes(4).toString('hex')}`
  return kind === 'mongo' ? mongo(database) : postgres(database)
}

async function mongo(database: string): Promise<BenchDatabase> {
  const way = await findMongo({ lasting: true })
  if (way.kind === 'url') return given('MONGODB_URL', way.url, database)
  const server = await startMongoProcess(way)
  const pids = () => [server.pid()].filter(pid => pid !== null)
  return { env: { MONGODB_URL: server.url(database) }, pids, stop: server.stop }
}

async function postgres(database: string): Promise<BenchDatabase> {
  const url = process.env.DATABASE_URI
  const way = findPostgres(url ? { env: { ...process.env, WEFT_TEST_DATABASE_URI: url } } : {})
  if (way.kind === 'url') {
    const client = new pg.Client(way.url)
    await client.connect()
    await client.query(`CREATE DATABASE ${database}`)
    await client.end()
    return given('DATABASE_URI', way.url, database)
  }
  const server = await startPostgresProcess(way)
  await server.create(database)
  // Its processes share most of their memory.
  const pids = () => [server.pid()].filter(pid => pid !== null)
  return { env: { DATABASE_URI: server.url(database) }, pids, stop: server.stop }
}

function given(variable: string, server: string, database: string): BenchDatabase {
  const url = new URL(server)
  url.pathname = `/${database}`
  return { env: { [variable]: url.href }, pids: () => [], stop: async () => {} }
}
