import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import Libsql from 'libsql'
import t from 'tap'
import { itemConditions } from '../../schemas/items/keys.js'
import type { Store } from '../../store/port.js'
import type { ItemRow } from '../../store/rows/items.js'
import type { ThreadSort } from '../../store/rows/threads.js'
import { reads } from '../../store/sqlite/reads.js'
import { migrate } from '../../store/sqlite/schema.js'
import { answer, type Done } from '../../store/sqlite/serve.js'
import { statements } from '../../store/sqlite/statements.js'
import { Thread } from '../../store/sqlite/thread.js'
import { openSqlite } from '../../store/sqlite.js'
import type { Step } from '../../store/steps.js'
import { conformance } from './conformance.js'
import { APP, assistant, blob, checkpoint, record, run, save, thread, write } from './conformance-rows.js'

const newFolder = () => mkdtempSync(join(tmpdir(), 'weft-store-'))

conformance('SQLite', async () => {
  const folder = newFolder()
  let store: Store = await openSqlite({ folder })
  return {
    store,
    async reopen() {
      await store.close()
      store = await openSqlite({ folder })
      return store
    },
    async remove() {
      await store.close()
      rmSync(folder, { recursive: true })
    },
  }
})

/** A folder and a way to open it; what was opened is closed and removed after the test. */
function place(t: { teardown(undo: () => Promise<void>): void }) {
  const folder = newFolder()
  const opened: Store[] = []
  t.teardown(async () => {
    for (const store of opened) await store.close()
    rmSync(folder, { recursive: true })
  })
  const warnings: string[] = []
  const log = { info() {}, warn: (_: object, message: string) => warnings.push(message) }
  const open = async () => {
    const store = await openSqlite({ folder, log })
    opened.push(store)
    return store
  }
  return { folder, open, warnings }
}

t.test('a second owner of a folder is refused with a sentence that names the first', async t => {
  const { folder, open } = place(t)
  const store = await open()
  const sentence = `The data folder ${folder} is in use by another Weft (process ${process.pid})`
  await t.rejects(open(), { message: sentence })

  const script = fileURLToPath(new URL('./kill.child.js', import.meta.url))
  const child = spawn(process.execPath, [script, folder], { stdio: ['ignore', 'ignore', 'pipe'] })
  let said = ''
  child.stderr.on('data', data => (said += data))
  const [code] = await once(child, 'close')
  t.not(code, 0)
  t.match(said, sentence)

  await store.ping()
  await store.close()
  await (await open()).ping()
})

t.test('a clean close leaves neither lock nor log behind', async t => {
  const { folder, open, warnings } = place(t)
  const store = await open()
  t.equal(readFileSync(join(folder, 'weft.lock'), 'utf8'), `${process.pid}\n`)
  await store.apply([{ step: 'threads.insert', row: thread() }])
  await Promise.all([store.close(), store.close()])
  t.same(readdirSync(folder).sort(), ['weft.db', 'weft.owner'])
  await open()
  t.same(warnings, [])
})

t.test('the lock of a process that exited is taken over, even when its id is used again', async t => {
  const { folder, open, warnings } = place(t)
  // This process id is alive, but holds no lock.
  writeFileSync(join(folder, 'weft.lock'), `${process.ppid}\n`)
  const store = await open()
  await store.ping()
  t.equal(readFileSync(join(folder, 'weft.lock'), 'utf8'), `${process.pid}\n`)
  t.match(warnings, [/was checked and is sound/])
})

t.test('what was answered survives a kill', async t => {
  const { folder, open, warnings } = place(t)
  const script = fileURLToPath(new URL('./kill.child.js', import.meta.url))
  const child = spawn(process.execPath, [script, folder], { stdio: ['ignore', 'pipe', 'inherit'] })
  const ids: string[] = []
  for await (const line of createInterface({ input: child.stdout })) if (ids.push(line) === 500) child.kill('SIGKILL')
  t.ok(ids.length >= 500)
  t.ok(existsSync(join(folder, 'weft.lock')))
  const store = await open()
  t.match(warnings, [/was checked and is sound/])
  // The last line may be cut by the kill.
  const whole = ids.filter(id => id.length === 36)
  const found = await Promise.all(whole.map(id => store.threads.get(APP, id)))
  t.equal(found.filter(row => row === null).length, 0)
})

t.test('so does what was answered after another process has opened and closed the database', async t => {
  const { folder, open } = place(t)
  const script = fileURLToPath(new URL('./kill.child.js', import.meta.url))
  const child = spawn(process.execPath, [script, folder], { stdio: ['ignore', 'pipe', 'inherit'] })
  const ids: string[] = []
  let copied: number | null = null
  for await (const line of createInterface({ input: child.stdout })) {
    const count = ids.push(line)
    if (count === 100) {
      const weft = fileURLToPath(new URL('../../cli/weft.js', import.meta.url))
      const copy = spawn(process.execPath, [weft, 'backup', join(folder, 'copy'), '--data', folder], {
        stdio: 'ignore',
      })
      copy.once('close', code => {
        t.equal(code, 0)
        copied = ids.length
      })
    }
    if (copied !== null && count >= copied + 200) child.kill('SIGKILL')
  }
  t.ok(copied !== null)
  const store = await open()
  const whole = ids.filter(id => id.length === 36)
  const found = await Promise.all(whole.map(id => store.threads.get(APP, id)))
  t.equal(found.filter(row => row === null).length, 0)
})

t.test('a damaged database is refused with a sentence', async t => {
  const { folder, open } = place(t)
  const store = await open()
  await store.apply(Array.from({ length: 200 }, (): Step => ({ step: 'threads.insert', row: thread() })))
  await store.close()
  const file = join(folder, 'weft.db')
  const content = readFileSync(file)
  // Page 5 and on, so that the header and the schema stay readable.
  content.fill(0xa5, 4096 * 4)
  writeFileSync(file, content)
  writeFileSync(join(folder, 'weft.lock'), '1\n')
  await t.rejects(open(), { message: /is damaged .*restore it from a backup/ })
})

t.test('a newer schema is refused with a sentence', async t => {
  const { folder, open } = place(t)
  await (await open()).close()
  const db = new Libsql(join(folder, 'weft.db'))
  db.exec('PRAGMA user_version = 99')
  db.close()
  await t.rejects(open(), { message: /schema version 99.*start a newer Weft/ })
  t.notOk(existsSync(join(folder, 'weft.lock')), 'the folder is free again')
})

t.test('a database of an earlier schema is brought up to date', async t => {
  const { folder, open } = place(t)
  const row = thread({ latest_checkpoint_id: 'c1', next_position: 7, status: 'busy' })
  const queue = [{ run_id: 'r1', position: 6, due_at: 5 }]
  const base = JSON.stringify({ latest_checkpoint_id: 'c0', settled: 'idle', interrupts: '{"head":1}', error: null })
  const one = run(row.thread_id, { heartbeats: 4, base })
  const state = { latest_checkpoint_id: 'c1', values: null, rest: null }
  const helper = assistant()
  const first = await open()
  await first.apply([
    { step: 'threads.insert', row: { ...row, queue } },
    { step: 'threads.state', thread_id: row.thread_id, ...state },
    { step: 'runs.insert', row: one },
    { step: 'assistants.insert', row: helper },
  ])
  await first.close()
  const db = new Libsql(join(folder, 'weft.db'))
  db.exec(`
    DROP TABLE assistant_versions;
    DROP INDEX assistants_by_created;
    DROP INDEX assistants_by_updated;
    DROP INDEX assistants_by_name;
    DROP INDEX assistants_by_graph;
    DROP INDEX assistants_of_graph_by_created;
    DROP INDEX assistants_of_graph_by_updated;
    DROP INDEX assistants_of_graph_by_name;
    DROP INDEX runs_running;
    DROP INDEX runs_due_now;
    DROP INDEX runs_ready;
    ALTER TABLE runs DROP COLUMN tenant;
    ALTER TABLE runs DROP COLUMN priority;
    ALTER TABLE runs DROP COLUMN ready_at;
    CREATE INDEX runs_unsettled ON runs (created_at, run_id) WHERE status IN ('accepting', 'pending', 'running');
    ALTER TABLE runs RENAME COLUMN heartbeats TO hb;
    ALTER TABLE threads RENAME COLUMN latest_checkpoint_id TO head;
    ALTER TABLE threads RENAME COLUMN next_position TO next_no;
    ALTER TABLE states RENAME COLUMN latest_checkpoint_id TO head;
    UPDATE threads SET queue = replace(queue, '"position":', '"no":');
    UPDATE runs SET base = replace(base, 'latest_checkpoint_id', 'head');
    DROP TABLE health;
    DROP TRIGGER assistant_keys_made;
    DROP TRIGGER assistant_keys_changed;
    DROP TRIGGER assistant_keys_removed;
    DROP TABLE assistant_keys;
    ALTER TABLE assistants DROP COLUMN keys;
    DROP TRIGGER item_keys_made;
    DROP TRIGGER item_keys_changed;
    DROP TRIGGER item_keys_removed;
    DROP TABLE item_keys;
    ALTER TABLE items DROP COLUMN keys;
    DROP INDEX items_indexed;
    ALTER TABLE items DROP COLUMN vectors;
    ALTER TABLE payloads DROP COLUMN auth_user;
    ALTER TABLE payloads DROP COLUMN traceparent;
    DROP INDEX runs_of_key;
    DROP INDEX runs_by_created;
    DROP INDEX runs_by_status;
    DROP INDEX runs_by_graph;
    DROP INDEX runs_by_assistant;
    DROP INDEX runs_by_key;
    DROP INDEX runs_temporary;
    ALTER TABLE runs DROP COLUMN key_id;
    ALTER TABLE runs DROP COLUMN webhook_log;
    ALTER TABLE threads DROP COLUMN left_by;
    ALTER TABLE writes DROP COLUMN path;
    PRAGMA user_version = 6;
  `)
  db.close()
  const store = await open()
  t.match(await store.threads.get(APP, row.thread_id), { latest_checkpoint_id: 'c1', next_position: 7, queue })
  t.match(await store.threads.state(row.thread_id), state)
  t.match(await store.runs.get(one.run_id), { heartbeats: 4, base })
  t.match(await store.assistants.versions(APP, helper.assistant_id, 9), [{ version: 1, name: helper.name }])
})

t.test('calls to a locked database fail within 2 s, reads go on', async t => {
  const { folder, open } = place(t)
  const store = await open()
  const row = thread()
  await store.apply([{ step: 'threads.insert', row }])
  const db = new Libsql(join(folder, 'weft.db'))
  db.exec('BEGIN IMMEDIATE')
  const timed = async (work: Promise<unknown>) => {
    const started = Date.now()
    const code = await work.catch(error => error.code)
    return { code, ms: Date.now() - started }
  }
  const calls: ReturnType<typeof timed>[] = []
  for (let i = 0; i < 10; i++) {
    calls.push(timed(store.apply([{ step: 'threads.insert', row: thread() }])))
    if (i % 3 === 0) calls.push(timed(store.ping()))
    await new Promise(done => setTimeout(done, 150))
  }
  t.match(await store.threads.get(APP, row.thread_id), { thread_id: row.thread_id })
  for (const { code, ms } of await Promise.all(calls)) {
    t.equal(code, 'unavailable')
    // The promise of the API is 503 within 2 s.
    t.ok(ms < 2_000, `${ms} ms`)
  }
  db.exec('ROLLBACK')
  db.close()
  await store.ping()
})

t.test('calls that arrive while others wait for a lock fail with them', async t => {
  const { folder, open } = place(t)
  const store = await open()
  const db = new Libsql(join(folder, 'weft.db'))
  db.exec('BEGIN IMMEDIATE')
  const insert = () => store.apply([{ step: 'threads.insert', row: thread() }])
  const before = insert()
  // In messages of their own, more than a group takes, and one with a text that is sent for the first time.
  const after: Promise<unknown>[] = []
  const add = (call: Promise<unknown>) =>
    after.push(
      call.then(
        () => 'done',
        error => error.code,
      ),
    )
  for (let i = 0; i < 10; i++) {
    await new Promise(done => setTimeout(done, 10))
    for (let n = 0; n < 150; n++) add(insert())
  }
  add(store.ping())
  await t.rejects(before, { code: 'unavailable' })
  db.exec('ROLLBACK')
  db.close()
  t.same([...new Set(await Promise.all(after))], ['unavailable'], 'none of them tries again')
  t.equal(await insert(), -1)
  await store.ping()
})

t.test('once the database is locked, no other call of the group waits for the lock', t => {
  const done: Done = { values: [], failures: null, locked: null }
  const busy = Object.assign(new Error('database is locked'), { code: 'SQLITE_BUSY' })
  const begun: number[] = []
  const add = (n: number, error?: Error) =>
    answer(done, () => {
      begun.push(n)
      if (error !== undefined) throw error
      return n
    })
  add(1)
  add(2, new Error('no such table'))
  add(3, busy)
  add(4)
  t.same(begun, [1, 2, 3])
  t.same(done.values, [1, null, null, null])
  t.match(
    [...done.failures!],
    [
      [1, { message: 'no such table' }],
      [2, { code: 'SQLITE_BUSY' }],
      [3, { code: 'SQLITE_BUSY' }],
    ],
  )
  t.end()
})

t.test('the calls of one turn are one commit', async t => {
  const { folder, open } = place(t)
  const store = await open()
  const before = commits(folder)
  const outcomes = await Promise.all(
    Array.from({ length: 400 }, () => store.apply([{ step: 'threads.insert', row: thread() }])),
  )
  t.ok(outcomes.every(failed => failed === -1))
  t.equal(commits(folder) - before, 1)

  const rows = Array.from({ length: 64 }, () => thread())
  let left = 2_000
  const beforeTurns = commits(folder)
  await Promise.all(
    rows.map(async () => {
      while (left-- > 0) await store.apply([{ step: 'threads.insert', row: thread() }])
    }),
  )
  t.ok(commits(folder) - beforeTurns < 200, 'callers that go on by themselves share commits, too')
})

t.test('a list that breaks the transaction is rejected alone', async t => {
  const { open } = place(t)
  const store = await open()
  const good = [thread(), thread()]
  const broken = { ...thread(), metadata: null as never }
  const outcomes = await Promise.allSettled(
    [good[0]!, broken, good[1]!].map(row => store.apply([{ step: 'threads.insert', row }])),
  )
  t.same(
    outcomes.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled'],
  )
  for (const { thread_id } of good) t.ok(await store.threads.get(APP, thread_id))
  await t.rejects(
    store.apply([{ step: 'threads.insert', row: { ...thread(), latest_checkpoint_id: {} as never } }]),
    TypeError,
  )
  await t.rejects(
    store.apply([{ step: 'threads.insert', row: { ...thread(), latest_checkpoint_id: true as never } }]),
    TypeError,
  )
  await store.ping()
})

t.test('a list that fails takes its earlier steps back', async t => {
  const { open } = place(t)
  const store = await open()
  const failing = (): [string, Step[]] => {
    const row = thread()
    const { thread_id } = row
    return [
      thread_id,
      [
        { step: 'threads.insert', row },
        { step: 'threads.patch', thread_id, where: { rev: 9 }, set: {} },
      ],
    ]
  }
  const [alone, steps] = failing()
  t.equal(await store.apply(steps), 1)
  t.equal(await store.threads.get(APP, alone), null)
  const many = Array.from({ length: 5 }, failing)
  t.same(await Promise.all(many.map(([, steps]) => store.apply(steps))), [1, 1, 1, 1, 1])
  for (const [thread_id] of many) t.equal(await store.threads.get(APP, thread_id), null)
})

t.test('when a database thread ends, every call is rejected', async t => {
  for (const way of ['throw', 'exit']) {
    const { thread } = await Thread.open(new URL('./ending.child.js', import.meta.url), way)
    const waiting = await Promise.allSettled([thread.call('one'), thread.call('two')])
    for (const outcome of waiting) t.match(outcome, { status: 'rejected', reason: { code: 'unavailable' } })
    await t.rejects(thread.call('later'), { code: 'unavailable' })
    await thread.close()
  }
})

/** The columns that a SELECT of a statement compares with two lower or two upper bounds. */
const doubleBounds = (sql: string): string[] =>
  sql.split(/\b(?:SELECT|UNION|OR)\b/).flatMap(part => {
    const bounds = [...part.matchAll(/([\w.]+) ([<>])=? \?/g)].map(([, column, way]) => `${column} ${way}`)
    return bounds.filter((bound, i) => bounds.indexOf(bound) < i)
  })

t.test('every statement uses an index', async t => {
  const db = new Libsql(':memory:')
  migrate(db)
  const plan = (sql: string) =>
    (db.prepare(`EXPLAIN QUERY PLAN ${sql}`).raw().all([]) as [number, number, number, string][]).map(row => row[3])
  const isScan = (line: string) =>
    /^SCAN/.test(line) && !/VIRTUAL TABLE|CONSTANT ROW|USING (COVERING )?INDEX/.test(line)

  /** When two indexes are merged, each half is bounded; `few` are the rows of a rare key. */
  const isUnbounded = (line: string) => isScan(line) && !/^SCAN (\(subquery|found|few)/.test(line)

  const row = thread()
  const { thread_id } = row
  const runRow = run(thread_id)
  const at = { created_at: 1, updated_at: 1, ttl: null, expires_at: null }
  const item = { app: APP, namespace: ['a'], key: 'k', value: '{"a":1}', ...at }
  const written = statements([
    { step: 'assistants.insert', row: assistant() },
    { step: 'threads.insert', row },
    { step: 'threads.insert', row, keys: ['k'] },
    {
      step: 'threads.patch',
      thread_id,
      where: { rev: 0, token: 't' },
      set: { latest_checkpoint_id: 'h' },
      keys: ['k'],
    },
    { step: 'checkpoints.remove', thread_id, checkpoints: [] },
    { step: 'blobs.remove', thread_id, blobs: [] },
    { step: 'threads.state', thread_id, latest_checkpoint_id: null, values: null, rest: null },
    { step: 'runs.insert', row: runRow },
    { step: 'runs.patch', run_id: 'r', where: { status: ['pending'], attempt: 1, token: 't' }, set: { result: null } },
    { step: 'runs.remove', run_id: 'r', where: { status: ['accepting'] } },
    { step: 'runs.beat', runs: [{ run_id: 'r', token: 't' }] },
    { step: 'checkpoints.rollback', thread_id, run_id: 'r' },
    save(thread_id, {
      checkpoints: [checkpoint('c', 1)],
      blobs: [blob('m', '1', new Uint8Array(1))],
      writes: [write('c', 't', 0, ''), write('c', 't', -1, '')],
    }),
    { step: 'records.insert', row: record() },
    { step: 'records.patch', kind: 'cron', id: 'i', where: { rev: 1 }, set: { name: 'n' } },
    { step: 'records.remove', kind: 'cron', id: 'i', where: { rev: 1 } },
    { step: 'records.clear', kind: 'cron', parent: 'p' },
    { step: 'threads.remove', thread_id },
    { step: 'assistants.patch', app: APP, assistant_id: 'a', where: { updated_at: 1 }, set: { metadata: '{"a":1}' } },
    { step: 'assistants.remove', app: APP, assistant_id: 'a' },
    { step: 'items.put', row: item },
    { step: 'items.touch', app: APP, items: [{ ...item, expires_at: 1 }] },
    { step: 'items.remove', ...item, expired_at: 1 },
  ])
  for (const [sql] of written) t.same(plan(sql).filter(isScan), [], sql)

  const asked: string[] = []
  const watched = Object.create(db, {
    prepare: {
      value: (sql: string) => {
        asked.push(sql)
        return db.prepare(sql)
      },
    },
  })
  const ways = reads(watched)
  await withRows(db)
  ways['assistants.get']([], APP, 'a')
  ways['threads.get']([], APP, 'x')
  ways['threads.state']([], 'x')
  ways['records.get']([], 'cron', 'i')
  ways['records.named']([], 'cron', APP, 'n')
  ways['records.due']([], 'cron', 0, 1)
  for (const sort of ['id', 'created_at', 'updated_at'] as const) {
    ways['records.list']([], { kind: 'cron', sort, limit: 1 })
    ways['records.list']([], { kind: 'cron', app: APP, parent: 'p', keys: ['k'], sort, after: record(), limit: 1 })
  }
  ways['runs.get']([], 'r')
  ways['runs.summary']([], ['r'])
  ways['runs.unsettled']([], 1)
  ways['runs.unsettled']([], 1, runRow)
  ways['runs.running']([], 1, 'r')
  ways['runs.counts']()
  ways['threads.busy']([], 1, 1, row)
  const place = { created_at: 1, run_id: 'r' }
  ways['runs.list']([], { thread_id: 'x', limit: 1 })
  ways['runs.list']([], { thread_id: 'x', status: ['error'], after: place, skip: 1, limit: 1 })
  ways['runs.active']([], APP, ['pending', 'running'], 1)
  ways['runs.active']([], APP, ['pending'], 1, place)
  ways['runs.startsDue']([], 1, 1)
  ways['runs.cancelsDue']([], 1, 1)
  ways['runs.webhooksDue']([], 1, 1)
  ways['threads.busy']([], 1, 1)
  ways['runs.expired']([], 1, 1, 1)
  for (const query of [
    {},
    { ns: 'n' },
    { ns: '' },
    { checkpoint_id: 'c' },
    { before: 'c', limit: 1 },
    { without_run: 'r' },
  ]) {
    ways['checkpoints.get']([], { thread_id: 'x', ...query })
    ways['checkpoints.list']([], { thread_id: 'x', ...query })
  }
  ways['threads.count']([], APP, null)
  ways['threads.count']([], APP, 'busy')
  ways['threads.expired']([], 1, 1)
  ways['threads.states']([], ['x'], 1)
  for (const bare of [true, false]) {
    const page = { thread_id: 'x', limit: 1, bytes: 1, bare }
    ways['checkpoints.rows']([], { ...page, after: { seq: 0 } })
    ways['checkpoints.blobs']([], { ...page, after: { ns: '', channel: '', version: '' } })
    ways['checkpoints.writes']([], { ...page, after: { ns: '', checkpoint_id: '', task_id: '', idx: 0 } })
  }
  t.ok(asked.length > 12)
  const ordered = asked.length
  ways['checkpoints.storage']([], 'x')
  // Found by a key of the metadata or of the value, however many rows there are.
  for (const sort of ['assistant_id', 'graph_id', 'name', 'created_at', 'updated_at'] as const) {
    const query = { app: APP, sort, order: 'desc', limit: 1 } as const
    const from = asked.length
    ways['assistants.list']([], { ...query, after: assistant() })
    t.notMatch(
      asked.slice(from).flatMap(plan).join(),
      /TEMP B-TREE/,
      `assistants by ${sort} come from an index in order`,
    )
    const ofGraph = asked.length
    ways['assistants.list']([], { ...query, graph_id: 'g', after: assistant() })
    const plans = asked.slice(ofGraph).flatMap(plan).join()
    t.notMatch(plans, /TEMP B-TREE/)
    t.match(plans, /app=\? AND graph_id=\?/, `those of a graph by ${sort}: no other is read`)
    ways['assistants.list']([], { ...query, keys: ['k'] })
    t.match(asked.slice(from).flatMap(plan).join(), /assistant_keys USING PRIMARY KEY/)
  }
  const items = { app: APP, now: 1, limit: 1, prefix: [] }
  for (const query of [items, { ...items, prefix: ['a'] }, { ...items, prefix: ['a'], after: item }]) {
    ways['items.list']([], query)
    const from = asked.length
    const conditions = [[{ from: 'a', to: 'b' }], [{ from: 'c', to: 'c' }]]
    ways['items.list']([], { ...query, conditions })
    t.match(asked.slice(from).flatMap(plan).join(), /item_keys USING PRIMARY KEY \(app=\? AND key>\? AND key<\?\)/)
    ways['items.namespaces']([], { ...items, prefix: query.prefix })
    ways['items.namespaces']([], { ...items, prefix: query.prefix, after: ['a', 'b'] })
  }
  ways['items.get']([], APP, item, 1)
  ways['items.many']([], APP, [item], 1)
  ways['items.indexed']([], APP, item, 1)
  ways['items.vectors']([], APP, [item])
  ways['items.expired']([], 1, 1)
  const expected: { [sort: string]: RegExp } = {
    thread_id: /USING INDEX sqlite_autoindex_threads/,
    status: /threads_by_status/,
    created_at: /threads_by_created.*threads_fresh/,
    updated_at: /threads_by_updated.*threads_fresh/,
    state_updated_at: /threads_by_state.*threads_fresh/,
  }
  for (const [sort, index] of Object.entries(expected) as [ThreadSort, RegExp][]) {
    const query = { app: APP, sort, order: 'desc', limit: 1 } as const
    const from = asked.length
    ways['threads.list']([], query)
    t.match(asked.slice(from).flatMap(plan).join(), index, `a list by ${sort}`)
    ways['threads.list']([], { ...query, after: { value: 1, thread_id: 'y' } })
    ways['threads.list']([], { ...query, ids: ['x'] })
    ways['threads.list']([], { ...query, status: 'busy', keys: ['k'] })
    ways['threads.list']([], { ...query, status: 'idle' })
  }
  for (const sql of asked.slice(ordered)) t.same(plan(sql).filter(isUnbounded), [], sql)
  // SQLite begins at one bound of a column and compares the other one with every row in between.
  for (const sql of [...asked, ...written.map(([sql]) => sql)]) t.same(doubleBounds(sql), [], sql)
  for (const sql of asked.slice(0, ordered)) {
    const lines = plan(sql)
    t.same(lines.filter(isScan), [], sql)
    // Order comes from an index, too; only the few writes of one checkpoint may be sorted.
    if (!sql.includes('DISTINCT')) t.notMatch(lines.join(), /TEMP B-TREE/, sql)
  }
  db.close()

  async function withRows(db: Libsql.Database) {
    const steps: Step[] = [
      { step: 'threads.insert', row: thread({ thread_id: 'x', latest_checkpoint_id: 'c' }) },
      save('x', { checkpoints: [checkpoint('c', 1, { refs: { m: '1' } })], blobs: [], writes: [] }),
    ]
    for (const [sql, , params] of statements(steps)) db.prepare(sql).run(params.map(value => value ?? null))
  }
})

t.test('old items that meet a condition are found behind many newer ones', async t => {
  const store = await openSqlite({ folder: t.testdir() })
  t.teardown(() => store.close())
  // The oldest 2,600 have n below 0.
  const rows = Array.from({ length: 25_000 }, (_, i) => ({ key: `k${i}`, n: i - 2_600 }))
  for (let at = 0; at < rows.length; at += 500)
    await store.apply(
      rows.slice(at, at + 500).map(({ key, n }) => ({
        step: 'items.put',
        row: {
          ...{ app: APP, namespace: [n % 2 === 0 ? 'even' : 'odd'], key, value: JSON.stringify({ n }) },
          ...{ created_at: 1, updated_at: n + 5_000, ttl: null, expires_at: null },
        },
      })),
    )
  const list = async (prefix: string[], limit: number) => {
    const found: ItemRow[] = []
    for (;;) {
      const after = found.at(-1)
      const query = { app: APP, prefix, now: 1, limit, conditions: itemConditions({ n: { $lt: -0.5 } }) }
      const page = await store.items.list({ ...query, ...(after === undefined ? {} : { after }) })
      found.push(...page)
      if (page.length < limit) return found.map(({ key }) => key)
    }
  }
  const old = rows.slice(0, 2_600).reverse()
  t.same(
    await list([], 700),
    old.map(({ key }) => key),
  )
  const even = old.filter(({ n }) => n % 2 === 0)
  t.same(
    await list(['even'], 900),
    even.map(({ key }) => key),
  )
})

/** Commits since the log began: its frames that carry the size of the database. */
function commits(folder: string): number {
  const log = readFileSync(join(folder, 'weft.db-wal'))
  let count = 0
  for (let at = 32; at + 24 + 4096 <= log.length; at += 24 + 4096) if (log.readUInt32BE(at + 4) > 0) count++
  return count
}
