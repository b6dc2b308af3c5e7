/** Reads by id and inserts of one turn are one command each, and every call has its own answer. */
import t from 'tap'
import { INLINE_BYTES } from '../../store/mongo/parts.js'
import { openMongo } from '../../store/mongo.js'
import type { ThreadRow } from '../../store/rows/threads.js'
import { startMongo } from '../helpers/mongo-server.js'
import { APP, record, thread } from './conformance-rows.js'

const mongo = await startMongo()
t.teardown(() => mongo.stop())
const sent: string[] = []
const store = await openMongo({
  url: mongo.url(),
  onCommand: (name, command) => void sent.push(`${name} ${command[name]}`),
})
t.teardown(() => store.close())
const insert = (row: ThreadRow) => store.apply([{ step: 'threads.insert', row }])
/** The commands of these calls. */
async function commands<T>(calls: () => Promise<T>): Promise<{ answers: T; names: string[] }> {
  sent.length = 0
  return { answers: await calls(), names: [...sent] }
}

const rows = Array.from({ length: 100 }, () => thread())

t.test('inserts', async t => {
  const { answers, names } = await commands(() => Promise.all(rows.map(insert)))
  t.same(new Set(answers), new Set([-1]))
  t.same(names, ['insert threads', 'insert threads'], 'at most 64 documents each')
  const others = [thread(), rows[7]!, thread(), rows[9]!]
  t.same(await Promise.all(others.map(insert)), [-1, 0, -1, 0], 'a taken id is refused alone')
  t.match(await store.threads.get(APP, others[2]!.thread_id), { thread_id: others[2]!.thread_id })
})

t.test('a unique name that two calls of one turn want is given once', async t => {
  const [first, second] = ['a', 'b'].map(id => record({ kind: 'named', id, app: APP, name: 'same' }))
  const both = await Promise.all([first!, second!].map(row => store.apply([{ step: 'records.insert', row }])))
  t.same(both.sort(), [-1, 0])
})

t.test('reads', async t => {
  const ids = [rows[3]!.thread_id, 'missing', rows[1]!.thread_id, rows[3]!.thread_id]
  const { answers, names } = await commands(() => Promise.all(ids.map(id => store.threads.get(APP, id))))
  t.same(names, ['find threads'])
  t.same(
    answers.map(found => found?.thread_id ?? null),
    [ids[0], null, ids[2], ids[3]],
  )
  t.equal(await store.threads.get('another', ids[0]!), null)
})

t.test('a large document delays no small one', async t => {
  const large = thread({ metadata: JSON.stringify({ text: 'x'.repeat(20_000) }) })
  const { answers, names } = await commands(() => Promise.all([large, thread(), thread()].map(insert)))
  t.same(answers, [-1, -1, -1])
  t.same(names, ['insert threads', 'insert threads'])
  const huge = thread({ metadata: JSON.stringify({ text: 'x'.repeat(INLINE_BYTES) }) })
  t.equal(await insert(huge), -1)
  const [small, found] = await Promise.all([rows[0]!, huge].map(row => store.threads.get(APP, row.thread_id)))
  t.equal(small!.thread_id, rows[0]!.thread_id)
  t.equal(found!.metadata, huge.metadata, 'its parts are read, too')
})
