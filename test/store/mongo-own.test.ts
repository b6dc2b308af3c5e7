/** The store in MongoDB beside the promises of every store. */
import { type Db, MongoClient } from 'mongodb'
import t, { type Test } from 'tap'
import { databaseOf, hostsOf } from '../../store/mongo/connection.js'
import { INLINE_BYTES, PART_BYTES } from '../../store/mongo/parts.js'
import { openMongo } from '../../store/mongo.js'
import type { Store } from '../../store/port.js'
import type { Step } from '../../store/steps.js'
import { startMongo } from '../helpers/stores/mongo-server.js'
import { APP, blob, bytes, checkpoint, record, run, save, thread, write } from './conformance-rows.js'

t.setTimeout(300_000)
const mongo = await startMongo()
t.teardown(() => mongo.stop())

/** A store for one test, and the content of its database. */
async function place(t: Test) {
  const url = mongo.url()
  const warnings: string[] = []
  const log = { info() {}, warn: (_: object, message: string) => warnings.push(message) }
  const opened: Store[] = []
  const client = await new MongoClient(url).connect()
  t.teardown(async () => {
    for (const store of opened) await store.close()
    await client.close()
  })
  const open = async () => {
    const store = await openMongo({ url, log })
    opened.push(store)
    return store
  }
  const db: Db = client.db()
  const parts = () => db.collection('parts').countDocuments()
  return { url, db, open, warnings, parts }
}

const done = async (store: Store, ...steps: Step[]) => {
  const failed = await store.apply(steps)
  if (failed !== -1) throw new Error(`step ${failed} (${steps[failed]?.step}) failed`)
}

t.test('a single server is said to be one, once', async t => {
  const { open, warnings, db } = await place(t)
  const { setName, msg } = await db.command({ isMaster: 1 })
  await open()
  const single = setName === undefined && msg !== 'isdbgrid'
  t.equal(warnings.filter(text => /single server without a replica set/.test(text)).length, single ? 1 : 0)
})

t.test('values over the limit go in parts, which leave with what they belong to', async t => {
  const { open, parts, db } = await place(t)
  const store = await open()
  const large = Buffer.alloc(2 * PART_BYTES + 17, 'weft')
  const small = bytes('small')
  const text = JSON.stringify({ input: 'é'.repeat(INLINE_BYTES) })
  const { thread_id } = thread()
  const { run_id } = run(thread_id)

  await done(store, { step: 'threads.insert', row: thread({ thread_id, latest_checkpoint_id: 'c' }) })
  await done(store, { step: 'runs.insert', row: run(thread_id, { run_id, kwargs: text, result: large }) })
  t.equal((await store.runs.get(run_id))?.kwargs, text)
  t.ok(large.equals((await store.runs.get(run_id))!.result!))
  t.notOk('kwargs' in (await store.runs.summary([run_id]))[0]!)
  t.equal(await parts(), 5, 'two of text, three of bytes')
  const again: Step = { step: 'runs.insert', row: run('another', { run_id, kwargs: text }) }
  t.equal(await store.apply([again]), 0)
  t.equal(await parts(), 5, 'what was not inserted left none')

  const patch = (set: object): Step => ({ step: 'runs.patch', run_id, where: {}, set })
  await done(store, patch({ status: 'running' }))
  t.equal(await parts(), 5)
  await done(store, patch({ result: small }))
  t.same(Buffer.from((await store.runs.get(run_id))!.result!), Buffer.from(small))
  t.equal((await store.runs.get(run_id))?.kwargs, text, 'the other one stays')
  await done(store, patch({ result: large, kwargs: '{}' }))
  t.ok(large.equals((await store.runs.get(run_id))!.result!))
  t.equal(await parts(), 3)
  const stale: Step = { step: 'runs.patch', run_id, where: { token: 'no' }, set: { result: large } }
  t.equal(await store.apply([stale]), 0)
  t.equal(await parts(), 3, 'what did not match left none')

  for (const [values, count] of [
    [large, 6],
    [Buffer.from(large).fill('x'), 6],
    [small, 3],
  ] as const) {
    await done(store, { step: 'threads.state', thread_id, latest_checkpoint_id: 'c', values, rest: small })
    t.ok(Buffer.from((await store.threads.state(thread_id))!.values!).equals(Buffer.from(values)))
    t.equal(await parts(), count)
  }

  const saved = (run_id: string | null, id: string, value: Uint8Array): Step =>
    ({
      ...save(thread_id, {
        checkpoints: [checkpoint(id, 1, { value, refs: { m: '1' } })],
        blobs: [blob('m', '1', large)],
        writes: [
          { ...write(id, 't', 0, ''), value: large },
          { ...write(id, 't', -1, ''), value: large },
        ],
      }),
      run_id,
    }) as Step
  await done(store, saved(null, 'c', large))
  t.equal(await parts(), 3 + 12)
  await done(store, saved(null, 'c', large))
  t.equal(await parts(), 3 + 12, 'nothing is left of what was replaced or known')
  await done(store, saved('other', 'd', large))
  t.equal(await parts(), 3 + 12 + 9)
  const tuple = (await store.checkpoints.get({ thread_id }))!
  for (const { value } of [tuple, ...tuple.blobs, ...tuple.writes]) t.ok(large.equals(value))
  await done(store, { step: 'checkpoints.rollback', thread_id, run_id: 'other' })
  t.equal(await parts(), 3 + 12, 'a rollback takes its parts along, but no blobs')
  await done(store, { step: 'checkpoints.remove', thread_id, checkpoints: [{ ns: '', id: 'c' }] })
  t.equal(await parts(), 3 + 3)
  await done(store, { step: 'blobs.remove', thread_id, blobs: [{ ns: '', channel: 'm', version: '1' }] })
  await done(store, { step: 'runs.remove', run_id, where: {} })
  t.equal(await parts(), 0)

  await done(store, { step: 'records.insert', row: record({ kind: 'k', id: 'r', parent: 'p', body: text }) })
  t.equal((await store.records.get('k', 'r'))?.body, text)
  await done(store, { step: 'records.patch', kind: 'k', id: 'r', where: {}, set: { body: `${text} ` } })
  t.equal((await store.records.list({ kind: 'k', limit: 1 }))[0]?.body, `${text} `)
  t.equal(await parts(), 2)
  await done(store, { step: 'records.clear', kind: 'k', parent: 'p' })
  t.equal(await parts(), 0)

  await done(store, saved('other', 'd', large), { step: 'threads.remove', thread_id })
  for (const name of ['parts', 'blobs', 'writes', 'checkpoints', 'states', 'runs', 'threads'])
    t.equal(await db.collection(name).countDocuments(), 0, name)
})

t.test('a reader of a value that is being replaced gets the one or the other', async t => {
  const { open } = await place(t)
  const store = await open()
  const { thread_id } = thread()
  await done(store, { step: 'threads.insert', row: thread({ thread_id }) })
  const values = ['a', 'b'].map(letter => Buffer.alloc(PART_BYTES + 1, letter))
  const put = (i: number) =>
    done(store, { step: 'threads.state', thread_id, latest_checkpoint_id: `${i}`, values: values[i % 2]!, rest: null })
  await put(0)
  let writing = true
  const writer = (async () => {
    for (let i = 1; i < 12; i++) await put(i)
    writing = false
  })()
  let reads = 0
  while (writing) {
    const { latest_checkpoint_id: head, values: found } = (await store.threads.state(thread_id))!
    if (!values[Number(head) % 2]!.equals(found!)) t.fail('a mixture', { head })
    reads++
  }
  await writer
  t.ok(reads > 0)
})

t.test('the checkpoints and writes of a stale attempt are taken back', async t => {
  const { open } = await place(t)
  const store = await open()
  const { thread_id } = thread()
  await done(store, {
    step: 'threads.insert',
    row: thread({ thread_id, latest_checkpoint_id: 'c', active: { run_id: 'r', attempt: 2, token: 'two' } }),
  })
  await done(store, save(thread_id, { checkpoints: [checkpoint('c', 1)], writes: [write('c', 'mine', 0, 'kept')] }))
  const late = save(thread_id, {
    checkpoints: [checkpoint('late', 9), checkpoint('c', 1)],
    blobs: [blob('m', '1', bytes('x'))],
    writes: [write('c', 'late', 0, 'x'), write('c', 'mine', 0, 'other')],
  })
  const stale: Step = {
    step: 'threads.patch',
    thread_id,
    where: { token: 'one' },
    set: { latest_checkpoint_id: 'late' },
  }
  t.equal(await store.apply([late, stale]), 1)
  const tuples = await store.checkpoints.list({ thread_id })
  t.same(
    tuples.map(({ id, writes }) => [id, writes.map(({ task_id, value }) => [task_id, Buffer.from(value).toString()])]),
    [['c', [['mine', 'kept']]]],
  )
})

t.test('a removal that was cut short reads as done, frees its id, and is finished later', async t => {
  const { open, db } = await place(t)
  const store = await open()
  const rows = [thread({ status: 'busy', updated_at: 1 }), thread({ status: 'busy', updated_at: 1 })] as const
  for (const row of rows) {
    await done(store, { step: 'threads.insert', row }, { step: 'runs.insert', row: run(row.thread_id) })
    await db
      .collection<{ _id: string }>('threads')
      .updateOne({ _id: row.thread_id }, { $set: { _removing: 1, temporary: true } })
  }
  const [{ thread_id }, other] = rows
  t.equal(await store.threads.get(APP, thread_id), null)
  t.same(await store.threads.busy(1_000, 10), [])
  t.equal(await store.threads.count(APP), 0)
  await done(store, { step: 'threads.insert', row: thread({ thread_id, latest_checkpoint_id: 'new' }) })
  t.equal((await store.threads.get(APP, thread_id))?.latest_checkpoint_id, 'new')
  t.same(await store.runs.list({ thread_id, limit: 10 }), [], 'nothing of the old one')
  t.equal(await db.collection('runs').countDocuments({ thread_id: other.thread_id }), 1)
  await open()
  t.equal(await db.collection('runs').countDocuments({ thread_id: other.thread_id }), 0)
  t.equal(await db.collection('threads').countDocuments(), 1)
})

t.test('what a user writes is never an operator or a path', async t => {
  const { open } = await place(t)
  const store = await open()
  const { thread_id } = thread()
  await done(store, { step: 'threads.insert', row: thread({ thread_id, metadata: '{"$where":"1"}' }) })
  for (const odd of ['$ne', 'a.b', '', '\u0000', '/.*/', '{"$gt":""}']) {
    t.equal(await store.threads.get(APP, odd), null)
    t.equal(await store.runs.get(odd), null)
    t.equal(await store.assistants.get(odd, odd), null)
    t.same(await store.checkpoints.list({ thread_id, ns: odd, checkpoint_id: odd, before: odd }), [])
  }
  const path = { step: 'threads.patch', thread_id, where: {}, set: { 'active.token': 'x' } } as never as Step
  const operator = { step: 'threads.patch', thread_id, where: {}, set: { $set: 'x' } } as never as Step
  for (const step of [path, operator]) await t.rejects(store.apply([step]), TypeError)
})

t.test('a newer schema, a foreign index, an unknown server: one sentence each, without the password', async t => {
  const { open, db, url } = await place(t)
  await (await open()).close()
  const runs = db.collection('runs')
  await runs.dropIndex('open_by_created')
  await runs.createIndex({ pool: 1 }, { name: 'open_by_created' })
  for (let i = 0; i < 5; i++) await t.rejects(open(), { message: /^The index open_by_created of .* drop it/ })
  const named = async () => (await runs.listIndexes().toArray()).filter(({ name }) => name === 'open_by_created')
  t.same(
    (await named()).map(({ key }) => key),
    [{ pool: 1 }],
    'none was made beside it',
  )
  await runs.dropIndex('open_by_created')
  await (await open()).close()
  t.same(
    (await named()).map(({ key }) => key),
    [{ _open: 1, created_at: 1, _id: 1 }],
    'it was made again',
  )
  const meta = db.collection<{ _id: string }>('meta')
  const old = thread({
    queue: [{ run_id: 'r1', position: 6, due_at: 5 }],
    latest_checkpoint_id: 'c1',
    next_position: 7,
  })
  const base = JSON.stringify({ latest_checkpoint_id: 'c0', settled: 'idle', interrupts: '{}', error: null })
  const first = await open()
  await done(first, { step: 'threads.insert', row: old }, { step: 'runs.insert', row: run(old.thread_id, { base }) })
  await first.close()
  const names = { latest_checkpoint_id: 'head', next_position: 'next_no' }
  const queue = [{ run_id: 'r1', no: 6, due_at: 5 }]
  await db.collection('threads').updateMany({}, { $rename: names, $set: { queue } })
  await runs.updateMany(
    {},
    { $rename: { heartbeats: 'hb' }, $set: { base: base.replace('latest_checkpoint_id', 'head') } },
  )
  await meta.updateOne({ _id: 'schema' }, { $set: { version: 1 } })
  const upgraded = await open()
  t.match(await upgraded.threads.get(APP, old.thread_id), old, 'documents of an earlier version are brought up to date')
  t.match(await upgraded.runs.list({ thread_id: old.thread_id, limit: 9 }), [{ heartbeats: 0, base }])
  await upgraded.close()
  await meta.updateOne({ _id: 'schema' }, { $set: { version: 99 } })
  await t.rejects(open(), { message: /schema version 99.*start a newer Weft/ })
  const nobody = 'mongodb://user:secret@127.0.0.1:1/weft'
  const error = await openMongo({ url: nobody }).catch(error => error)
  t.match(error.message, /^No MongoDB answers at 127\.0\.0\.1:1: /)
  t.notMatch(error.message, /secret/)
  await t.rejects(openMongo({ url: 'http://x' }), { message: /^MONGODB_URL cannot be used: / })
  t.ok(url)
})

t.test('the parts of a URL', t => {
  const urls = [
    ['mongodb://a:1', 'weft', 'a:1'],
    ['mongodb://a:1/', 'weft', 'a:1'],
    ['mongodb://a:1/?replicaSet=x', 'weft', 'a:1'],
    ['mongodb://u:p%40@a:1,b:2/mine?w=1', 'mine', 'a:1,b:2'],
    ['mongodb+srv://u:p@cluster.example.com/my%20db', 'my db', 'cluster.example.com'],
  ] as const
  for (const [url, database, hosts] of urls) t.same([databaseOf(url), hostsOf(url)], [database, hosts])
  t.end()
})
