/** Reads by id and writes of one turn are one command each, and every call has its own answer. */
import { MongoClient } from 'mongodb'
import t from 'tap'
import { databaseOf } from '../../store/mongo/connection.js'
import type { Doc } from '../../store/mongo/documents.js'
import { updateDoc } from '../../store/mongo/groups.js'
import { INLINE_BYTES } from '../../store/mongo/parts.js'
import { openMongo } from '../../store/mongo.js'
import type { ThreadRow } from '../../store/rows/threads.js'
import { startMongo } from '../helpers/stores/mongo-server.js'
import { APP, blob, bytes, checkpoint, record, save, thread, write } from './conformance-rows.js'

const mongo = await startMongo()
t.teardown(() => mongo.stop())
const sent: string[] = []
const url = mongo.url()
const store = await openMongo({
  url,
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

t.test('newest checkpoints of several threads, with their blobs and writes', async t => {
  const threads = rows.slice(20, 25).map(row => row.thread_id)
  for (const [n, thread_id] of threads.entries()) {
    const refs = { a: '1', b: '1' }
    const blobs = Object.keys(refs).map(channel => blob(channel, '1', bytes(`${channel} of ${n}`)))
    const checkpoints = [checkpoint('c1', 1), checkpoint('c2', 2, { refs })]
    const writes = [write('c1', 't', 0, 'old'), write('c2', 't', 0, `write of ${n}`), write('c2', 't', 1, 'second')]
    const set = { latest_checkpoint_id: 'c2' }
    await store.apply([
      save(thread_id, { checkpoints, blobs, writes }),
      { step: 'threads.patch', thread_id, where: {}, set },
    ])
  }
  const text = (value: Uint8Array) => Buffer.from(value).toString()
  const { answers, names } = await commands(() =>
    Promise.all(threads.map(id => store.checkpoints.get({ thread_id: id }))),
  )
  t.same(names, ['find threads', 'find checkpoints', 'find blobs', 'find writes'])
  t.same(
    answers.map(tuple => [
      tuple!.id,
      tuple!.blobs.map(one => text(one.value)),
      tuple!.writes.map(one => text(one.value)),
    ]),
    threads.map((_, n) => ['c2', [`a of ${n}`, `b of ${n}`], [`write of ${n}`, 'second']]),
  )
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

t.test('updates', async t => {
  const some = rows.slice(0, 10)
  const rename = (thread_id: string, rev: number, status: 'idle' | 'busy' = 'busy') =>
    store.apply([{ step: 'threads.patch', thread_id, where: { rev }, set: { status } }])
  const rev = some[0]!.rev
  const all = await commands(() => Promise.all(some.map(row => rename(row.thread_id, rev))))
  t.same(new Set(all.answers), new Set([-1]))
  t.same(all.names, ['update threads'])
  const ids = [...some.map(row => row.thread_id), 'missing']
  const stale = await commands(() => Promise.all(ids.map((id, i) => rename(id, i % 2 ? rev : rev + 1, 'idle'))))
  t.same(stale.answers, [-1, 0, -1, 0, -1, 0, -1, 0, -1, 0, 0], 'those whose condition does not hold fail alone')
  t.same(stale.names, ['update threads', 'find threads'])
  t.match(await store.threads.get(APP, ids[0]!), { status: 'idle', rev: rev + 2 })
  t.match(await store.threads.get(APP, ids[1]!), { status: 'busy', rev: rev + 1 })
  const none = await commands(() => Promise.all(ids.map(id => rename(id, rev))))
  t.same([new Set(none.answers), none.names], [new Set([0]), ['update threads']])
  const twice = await Promise.all([rev + 2, rev + 2, rev + 3].map(from => rename(ids[0]!, from)))
  t.same(twice.sort(), [-1, -1, 0], 'several calls about one row')
})

t.test('an update whose outcome others have hidden is not known', async t => {
  const client = new MongoClient(url)
  t.teardown(() => client.close())
  const docs = client.db(databaseOf(url)).collection<Doc>('sums')
  await docs.insertMany(['a', 'b', 'c'].map(_id => ({ _id, n: 0 })))
  const busy = Object.create(docs, {
    find: {
      value: (...query: Parameters<typeof docs.find>) => ({
        toArray: async () => {
          await docs.updateOne({ _id: 'a' }, { $set: { _marks: Array(8).fill('another') } })
          return docs.find(...query).toArray()
        },
      }),
    },
  })
  const outcomes = await Promise.allSettled(
    ['a', 'b', 'c'].map(_id => updateDoc(busy, { _id, n: _id === 'c' ? 1 : 0 }, { $set: { n: 5 } })),
  )
  t.match(outcomes, [
    { status: 'rejected', reason: { code: 'unavailable' } },
    { status: 'fulfilled', value: true },
    { status: 'rejected', reason: { code: 'unavailable' } },
  ])
  t.same(
    (await docs.find().toArray()).map(({ n }) => n),
    [5, 5, 0],
  )
})

t.test('a unique name that two updates want is given once', async t => {
  const named = ['c', 'd'].map(id => record({ kind: 'renamed', id, app: APP, name: id }))
  await Promise.all(named.map(row => store.apply([{ step: 'records.insert', row }])))
  const set = { name: 'one' }
  const both = await commands(() =>
    Promise.all(
      named.map(({ kind, id, rev }) => store.apply([{ step: 'records.patch', kind, id, where: { rev }, set }])),
    ),
  )
  t.same(both.answers.sort(), [-1, 0])
})

t.test('states', async t => {
  const some = rows.slice(20, 24)
  const put = (text: string) =>
    commands(() =>
      Promise.all(
        some.map(({ thread_id }, i) =>
          store.apply([
            {
              step: 'threads.state',
              thread_id,
              latest_checkpoint_id: 'a',
              values: Buffer.from(`${text}${i}`),
              rest: null,
            },
          ]),
        ),
      ),
    )
  for (const text of ['new', 'next']) t.same((await put(text)).names, ['update states'], text)
  const read = await Promise.all(some.map(({ thread_id }) => store.threads.state(thread_id)))
  t.same(
    read.map(found => `${found?.values}`),
    ['next0', 'next1', 'next2', 'next3'],
  )
})
