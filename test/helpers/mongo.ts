/** The store of a test that runs on both. */
import t from 'tap'
import { startMongo, type TestMongo } from './mongo-server.js'

/** Whether this run of a test that runs on both is the one on MongoDB. */
export const onMongo = process.env.WEFT_TEST_STORE === 'mongo'

let shared: Promise<TestMongo> | null = null
const urls = new Map<string, string>()

/**
 * The settings of a store for a test that runs on both: with WEFT_TEST_STORE=mongo a database of its own, the same one
 * for the same data folder; else none, and the store is embedded. The server ends with the test process.
 */
export async function storeOf(data: string): Promise<{ mongodb_url: string }> {
  if (!onMongo) return { mongodb_url: '' }
  if (shared === null) {
    shared = startMongo()
    t.teardown(async () => (await shared!).stop())
  }
  const { url } = await shared
  if (!urls.has(data)) urls.set(data, url())
  return { mongodb_url: urls.get(data)! }
}

/** The same as variables of a process. */
export const storeEnv = async (data: string): Promise<{ MONGODB_URL: string }> => ({
  MONGODB_URL: (await storeOf(data)).mongodb_url,
})
