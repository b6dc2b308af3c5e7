/** The store of a test that runs on both stores. */
import { startMongo, type TestMongo } from './mongo-server.js'

/** Whether this run of the test is the one on MongoDB. */
export const onMongo = process.env.WEFT_TEST_STORE === 'mongo'

let shared: Promise<TestMongo> | null = null
const urls = new Map<string, string>()

/**
 * The store settings of a test that runs on both stores: with WEFT_TEST_STORE=mongo the URL of a new database, the same
 * one for the same data folder; else empty, which means the embedded store. The server ends with the test process.
 */
export async function storeOf(data: string): Promise<{ mongodb_url: string }> {
  if (!onMongo) return { mongodb_url: '' }
  shared ??= startShared()
  const { url } = await shared
  if (!urls.has(data)) urls.set(data, url())
  return { mongodb_url: urls.get(data)! }
}

async function startShared(): Promise<TestMongo> {
  // Not loaded by programs that are no test.
  const { default: t } = await import('tap')
  const mongo = await startMongo()
  t.teardown(() => mongo.stop())
  return mongo
}

/** The same as environment variables. */
export const storeEnv = async (data: string): Promise<{ MONGODB_URL: string }> => ({
  MONGODB_URL: (await storeOf(data)).mongodb_url,
})
