/** The store of a test that runs on several: the embedded one, or a server that ends with the test process. */
import { startMongo, type TestMongo } from './mongo-server.js'
import { startPostgres, type TestPostgres } from './postgres-server.js'

type Kind = 'sqlite' | 'mongo' | 'postgres'

/** The store of this run of the test. */
export const storeKind = (process.env.WEFT_TEST_STORE || 'sqlite') as Kind
/** Whether several resource workers can share it. */
export const isShared = storeKind !== 'sqlite'

let shared: Promise<TestMongo | TestPostgres> | null = null
const urls = new Map<string, string>()

export interface StoreSettings {
  database_uri: string
  mongodb_url: string
}

/**
 * The store settings of a test: with WEFT_TEST_STORE the URL of a new database, the same one for the same data folder; else
 * empty ones, which mean the embedded store.
 */
export async function storeOf(data: string): Promise<StoreSettings> {
  if (!isShared) return { database_uri: '', mongodb_url: '' }
  shared ??= startShared()
  const server = await shared
  if (!urls.has(data)) urls.set(data, await server.url())
  const url = urls.get(data)!
  return storeKind === 'mongo' ? { database_uri: '', mongodb_url: url } : { database_uri: url, mongodb_url: '' }
}

async function startShared(): Promise<TestMongo | TestPostgres> {
  // Not loaded by programs that are no test.
  const { default: t } = await import('tap')
  const server = await (storeKind === 'mongo' ? startMongo() : startPostgres())
  t.teardown(() => server.stop())
  return server
}

/** The same as environment variables. */
export async function storeEnv(data: string): Promise<{ DATABASE_URI: string; MONGODB_URL: string }> {
  const { database_uri, mongodb_url } = await storeOf(data)
  return { DATABASE_URI: database_uri, MONGODB_URL: mongodb_url }
}
