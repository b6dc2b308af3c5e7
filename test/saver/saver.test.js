// The published suite for checkpointers, run against ours on both stores (`npm run suite`); on the embedded one alone
// with WEFT_TEST_EMBEDDED_ONLY=1.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import * as library from '@langchain/langgraph'
import { deltaChannelHistoryTests, specTest } from '@langchain/langgraph-checkpoint-validation'

const dist = resolve(import.meta.dirname, process.env.WEFT_DIST ?? '../../dist')
const load = file => import(pathToFileURL(join(dist, file)).href)
const { createSaver } = await load('workers/host/storage/saver.js')
const { packTuples, rowsOf } = await load('workers/resources/rows/checkpoint.js')
const { newThread } = await load('workers/resources/rows/thread.js')
const { openSqlite } = await load('store/sqlite.js')
const { openMongo } = await load('store/mongo.js')
const { startMongo } = await load('test/helpers/stores/mongo-server.js')

/** What a resource worker does with a saver's questions, without a run. */
function transportTo(store) {
  const threads = new Set()
  const known = async thread_id => {
    if (threads.has(thread_id)) return
    threads.add(thread_id)
    await store.apply([{ step: 'threads.insert', row: newThread({ app: 'built-in', thread_id }) }])
  }
  return {
    async save(thread_id, body) {
      await known(thread_id)
      const rows = rowsOf(body)
      const steps = [{ step: 'checkpoints.insert', thread_id, run_id: null, attempt: 0, ...rows }]
      const head = rows.checkpoints.filter(row => row.ns === '').at(-1)
      if (head !== undefined) steps.push({ step: 'threads.patch', thread_id, where: {}, set: { latest_checkpoint_id: head.id } })
      const failed = await store.apply(steps)
      if (failed !== -1) throw new Error(`step ${failed} failed`)
    },
    async get(query) {
      const tuple = await store.checkpoints.get(query)
      return packTuples(tuple === null ? [] : [tuple])
    },
    list: async query => packTuples(await store.checkpoints.list(query)),
    async remove(thread_id) {
      threads.delete(thread_id)
      await store.apply([{ step: 'threads.remove', thread_id }])
    },
    threads: async () => [...threads],
  }
}

/** How each store is opened and put away. */
const STORES = {
  weft: () => {
    const folder = mkdtempSync(join(tmpdir(), 'weft-saver-'))
    return {
      open: () => openSqlite({ folder }),
      remove: async () => rmSync(folder, { recursive: true, force: true }),
    }
  },
  'weft on MongoDB': () => {
    const server = startMongo()
    return {
      open: async () => openMongo({ url: (await server).url() }),
      remove: async () => (await server).stop(),
    }
  },
}

for (const [checkpointerName, place] of Object.entries(STORES)) {
  if (checkpointerName !== 'weft' && process.env.WEFT_TEST_EMBEDDED_ONLY === '1') continue
  const { open, remove } = place()
  let store
  let seq = 0
  const initializer = {
    checkpointerName,
    beforeAllTimeout: 120_000,
    async beforeAll() {
      store = await open()
    },
    async afterAll() {
      await store?.close()
      await remove()
    },
    createCheckpointer: async () =>
      createSaver(library, { transport: transportTo(store), durability: 'sync', nextSeq: () => ++seq }),
    /** Tests use the same thread ids again. */
    async destroyCheckpointer(saver) {
      for (const thread_id of await saver.options.transport.threads()) await saver.deleteThread(thread_id)
    },
  }
  describe(checkpointerName, () => {
    specTest(initializer)
    deltaChannelHistoryTests(initializer)
  })
}
