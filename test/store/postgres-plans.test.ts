/**
 * Every query of the port among 100,000 threads, runs, items and crons: it goes through an index, and the rows and pages that
 * it reads are bounded, whatever the planner knows about the tables.
 */
import pg, { type ClientBase } from 'pg'
import t, { type Test } from 'tap'
import { itemConditions, itemKeys } from '../../schemas/items/keys.js'
import { copies, keysOfCopies } from '../../scripts/postgres/fill.js'
import type { Store } from '../../store/port.js'
import type { Param } from '../../store/postgres/connection.js'
import { lockFor, statements } from '../../store/postgres/statements.js'
import { openPostgres } from '../../store/postgres.js'
import type { RunSearchQuery } from '../../store/rows/runs.js'
import type { ThreadSort } from '../../store/rows/threads.js'
import type { Step } from '../../store/steps.js'
import { startOwnPostgres } from '../helpers/stores/postgres-server.js'
import { APP, assistant, record, run, thread } from './conformance-rows.js'

t.setTimeout(300_000)
const MANY = 100_000
/** Rows that a search looks at in one call (run-search.ts, reads-threads.ts), and a little more for what it answers. */
const SLICE = 2_000
/** Items that a list of items looks at in one call (reads-items.ts). */
const WALKED = 20_000
const ONE = 1
const PAGE = 10

interface Ask {
  name: string
  /** Rows that one statement of it reads at most; null: it counts the entries of an index. */
  most: number | null
  call(store: Store): Promise<unknown>
}
interface Statement {
  text: string
  params: readonly Param[]
}

const server = await startOwnPostgres({ autovacuum: 'off', fsync: 'off', max_wal_size: '4GB' })
t.teardown(() => server.stop())
const url = server.url('postgres')
interface Asked {
  name: string
  most: number | null
  statements: readonly Statement[]
}

let seen: Statement[] = []
const store = await openPostgres({ url, onStatement: (text, params) => seen.push({ text, params }) })
t.teardown(() => store.close())
const client = new pg.Client(url)
await client.connect()
t.teardown(() => client.end())

const tag = (value: string) => itemKeys({ tag: value })[0]!
const item = { app: APP, namespace: ['model'], key: 'model', value: '{}', created_at: 1, updated_at: 1 }
await store.apply([
  { step: 'assistants.insert', row: assistant({ assistant_id: 'model' }) },
  { step: 'threads.insert', row: thread({ thread_id: 'model' }), keys: ['model'] },
  { step: 'runs.insert', row: run('model', { run_id: 'model', status: 'success' }) },
  { step: 'records.insert', row: record({ id: 'model', name: null, due_at: 1 }) },
  { step: 'items.put', row: { ...item, ttl: null, expires_at: null } },
])
const TIME = '1700000000000 + n'
const keyed = (key: string) => `ARRAY[${key}, 'seventh=' || n % 7]`

/** `n` from 1: the newest are those that are not ended, and the rarest. */
async function fill(count: number): Promise<void> {
  const times = { created_at: TIME, updated_at: `${TIME} + n % 3`, state_updated_at: TIME }
  await copies(client, 'threads', "thread_id = 'model'", count, {
    ...times,
    thread_id: `'t' || n || '-${count}'`,
    status: "CASE WHEN n % 2 = 0 THEN 'idle' WHEN n % 100 = 1 THEN 'busy' ELSE 'interrupted' END",
    expires_at: `CASE WHEN n % 2 = 0 THEN ${TIME} END`,
    keys: keyed("'n=' || n"),
  })
  await copies(client, 'runs', "run_id = 'model'", count, {
    ...times,
    run_id: `'r' || n || '-${count}'`,
    thread_id: `'t' || n / 20 || '-${count}'`,
    status:
      "CASE WHEN n % 2 = 0 THEN 'success' WHEN n % 100 = 1 THEN 'running' WHEN n % 1000 = 3 THEN 'error' ELSE 'pending' END",
    // Most of the runs that wait are due later.
    due_at: `CASE WHEN n % 2 = 0 OR n % 10 = 1 THEN 0 ELSE ${TIME} END`,
    graph_id: "CASE WHEN n % 5000 = 7 THEN 'rare' ELSE 'agent' END",
    assistant_id: "CASE WHEN n % 5000 = 7 THEN 'rare' ELSE 'agent' END",
    key_id: "CASE WHEN n % 3 = 0 THEN 'key' END",
    temporary: 'n % 4 = 0',
    ended_at: `CASE WHEN n % 2 = 0 THEN ${TIME} END`,
    claim_no: 'n',
    cancel_due_at: `CASE WHEN n % 100 = 1 THEN ${TIME} END`,
    webhook_due_at: `CASE WHEN n % 100 = 2 THEN ${TIME} END`,
  })
  await copies(client, 'items', "key = 'model'", count, {
    ...times,
    path: "'users.' || n % 1000 || '.'",
    key: `n || '-${count}'`,
    expires_at: `CASE WHEN n % 2 = 0 THEN ${TIME} END`,
    keys: keyed(`'${tag('#').replace('#', "' || n || '")}'`),
  })
  // Old items: 1,800 in one namespace, of which the first statistics know nothing, and 3,600 in another one.
  await copies(client, 'items', "key = 'model'", 1_800, { path: "'large.'", key: `n || '-${count}'` })
  if (count === MANY) await copies(client, 'items', "key = 'model'", 1_800, { path: "'some.'", key: 'n' })
  await copies(client, 'assistants', "assistant_id = 'model'", count, {
    ...times,
    assistant_id: `n || '-${count}'`,
    graph_id: "CASE WHEN n % 5000 = 7 THEN 'rare' ELSE 'agent' END",
    keys: keyed("'n=' || n"),
  })
  await copies(client, 'records', "id = 'model'", count, {
    ...times,
    id: `n || '-${count}'`,
    parent: `'t' || n || '-${count}'`,
    due_at: TIME,
    keys: `'["n=' || n || '"]'`,
  })
  for (const table of ['thread', 'assistant', 'item'] as const) await keysOfCopies(client, table)
}

const at = { created_at: 1_700_000_050_000, run_id: 'r' }
const threads = { app: APP, sort: 'updated_at', order: 'desc', limit: PAGE } as const
const runs = { app: APP, order: 'desc', limit: PAGE } as const
const items = { app: APP, prefix: [], now: 1, limit: PAGE }
const thread_id = `t500-${MANY}`
const conditions: { readonly [name: string]: Omit<RunSearchQuery, 'app' | 'order' | 'limit'> } = {
  'no condition': {},
  'a common status': { status: ['success'] },
  'a rare status': { status: ['error'] },
  'two statuses': { status: ['error', 'running'] },
  'a graph': { graph_id: 'rare' },
  'an assistant': { assistant_id: 'rare' },
  'a thread': { thread_id },
  'a key': { key_id: 'key' },
  'stateless runs': { temporary: true },
  'runs of threads': { temporary: false },
  'a time': { from: at.created_at, until: at.created_at + 100 },
  'a rare key of the thread': { thread_keys: ['n=500'] },
  'a common key of the thread': { thread_keys: ['seventh=3'] },
  'two keys of the thread and a rare status': { thread_keys: ['seventh=3', 'n=3'], status: ['error'] },
  'a status and a graph': { status: ['success'], graph_id: 'rare' },
  'a status that no run of the graph has': { status: ['timeout'], graph_id: 'agent' },
  'a place': { after: at },
}

const asks: Ask[] = []
const ask = (name: string, most: number | null, call: Ask['call']) => asks.push({ name, most, call })
ask('assistants.get', ONE, ({ assistants }) => assistants.get(APP, `5-${MANY}`))
for (const sort of ['assistant_id', 'name', 'created_at', 'updated_at', 'graph_id'] as const) {
  const query = { app: APP, sort, order: 'desc', limit: PAGE } as const
  ask(`assistants by ${sort}`, PAGE, ({ assistants }) => assistants.list(query))
  ask(`assistants of a graph by ${sort}`, PAGE, ({ assistants }) => assistants.list({ ...query, graph_id: 'rare' }))
  ask(`assistants by ${sort} with a rare and a common key`, SLICE, ({ assistants }) =>
    assistants.list({ ...query, keys: ['n=5', 'seventh=5'] }),
  )
  ask(`assistants by ${sort} with a common key`, SLICE + 1, ({ assistants }) =>
    assistants.list({ ...query, keys: ['seventh=5'] }),
  )
  ask(`assistants by ${sort} with a rare key`, 40, ({ assistants }) => assistants.list({ ...query, keys: ['n=5'] }))
}
ask('assistants.count', null, ({ assistants }) => assistants.count({ app: APP }))
ask('assistants.versions', PAGE, ({ assistants }) => assistants.versions(APP, `5-${MANY}`, PAGE))
ask('threads.get', ONE, ({ threads }) => threads.get(APP, thread_id))
ask('threads.state', ONE, ({ threads }) => threads.state(thread_id))
ask('threads.busy', PAGE, ({ threads }) => threads.busy(Number.MAX_SAFE_INTEGER, PAGE))
ask('threads.expired', PAGE, ({ threads }) => threads.expired(Number.MAX_SAFE_INTEGER, PAGE))
ask('threads.states', PAGE, ({ threads }) => threads.states([thread_id, `t1-${MANY}`], 1_000))
for (const sort of ['thread_id', 'status', 'created_at', 'updated_at', 'state_updated_at'] as ThreadSort[])
  for (const order of ['asc', 'desc'] as const) {
    const query = { ...threads, sort, order }
    const after = { value: sort === 'status' ? 'idle' : sort === 'thread_id' ? 't5' : at.created_at, thread_id: 't5' }
    ask(`threads by ${sort} ${order}`, 2 * PAGE, ({ threads }) => threads.list(query))
    ask(`threads by ${sort} ${order} after a place`, 3 * PAGE, ({ threads }) => threads.list({ ...query, after }))
    for (const status of ['idle', 'interrupted', 'error'] as const)
      ask(`${status} threads by ${sort} ${order}`, 2 * SLICE, ({ threads }) => threads.list({ ...query, status }))
    for (const key of ['n=5', 'seventh=3', 'none'])
      ask(`threads with ${key} by ${sort} ${order}`, 3 * SLICE, ({ threads }) =>
        threads.list({ ...query, keys: [key] }),
      )
    ask(`threads with a status and two keys by ${sort} ${order}`, 3 * SLICE, ({ threads }) =>
      threads.list({ ...query, status: 'interrupted', keys: ['n=5', 'seventh=5'] }),
    )
  }
ask('a thousand threads with a rare key', 40, ({ threads: of }) =>
  of.list({ ...threads, sort: 'thread_id', order: 'asc', limit: 1_000, keys: ['n=5'] }),
)
ask('threads by ids', 4, ({ threads: of }) => of.list({ ...threads, ids: [thread_id, 'none'] }))
ask('threads.count', null, ({ threads }) => threads.count(APP))
ask('threads.count of a status', null, ({ threads }) => threads.count(APP, 'interrupted'))
ask('runs.get', 2, ({ runs }) => runs.get(`r5-${MANY}`))
ask('runs.summary', 2, ({ runs }) => runs.summary([`r5-${MANY}`, `r6-${MANY}`]))
ask('runs.webhookLog', ONE, ({ runs }) => runs.webhookLog(`r5-${MANY}`))
ask('runs.unsettled', PAGE, ({ runs }) => runs.unsettled(PAGE))
ask('runs.unsettled after a place', PAGE, ({ runs }) => runs.unsettled(PAGE, at))
ask('runs.counts', null, ({ runs }) => runs.counts())
ask('runs.running', PAGE, ({ runs }) => runs.running(PAGE, 'r5'))
ask('runs.list', PAGE, ({ runs }) => runs.list({ thread_id, limit: PAGE }))
ask('runs.list of a status', 20, ({ runs }) => runs.list({ thread_id, status: ['error'], limit: PAGE }))
ask('runs.active', 2 * PAGE, ({ runs }) => runs.active(APP, ['pending', 'running'], PAGE))
ask('runs.active of a status', PAGE, ({ runs }) => runs.active(APP, ['running'], PAGE))
ask('runs.active after a place', 2 * PAGE, ({ runs }) => runs.active(APP, ['pending', 'running'], PAGE, at))
ask('runs.countOpen', PAGE, ({ runs }) => runs.countOpen('key', PAGE))
ask('runs.claimed', PAGE, ({ runs }) => runs.claimed(thread_id, 10_005, PAGE))
ask('runs.startsDue', PAGE, ({ runs }) => runs.startsDue(Number.MAX_SAFE_INTEGER, PAGE))
ask('runs.cancelsDue', PAGE, ({ runs }) => runs.cancelsDue(Number.MAX_SAFE_INTEGER, PAGE))
ask('runs.webhooksDue', PAGE, ({ runs }) => runs.webhooksDue(Number.MAX_SAFE_INTEGER, PAGE))
ask('runs.expired', 2 * PAGE, ({ runs }) => runs.expired(Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER, PAGE))
for (const [name, condition] of Object.entries(conditions)) {
  for (const order of ['asc', 'desc'] as const)
    ask(`runs.search by ${name} ${order}`, SLICE + PAGE, ({ runs: of }) => of.search({ ...runs, order, ...condition }))
  const { after: _, ...counted } = condition
  if (Object.keys(counted).length < 2)
    ask(`runs.count by ${name}`, null, ({ runs }) => runs.count({ app: APP, ...counted }))
}
for (const [name, query] of Object.entries({
  all: {},
  'with a prefix': { prefix: ['users', '5'] },
  'after a place': { after: { namespace: ['users'], key: 'k', updated_at: at.created_at } },
  'of some old': { prefix: ['some'] },
  'of an unknown prefix': { prefix: ['none'] },
}))
  for (const [by, found] of Object.entries({ '': undefined, 'by a rare value': '500', 'by no value': 'none' }))
    ask(`items ${name} ${by}`, 2 * SLICE, ({ items: of }) =>
      of.list({ ...items, ...query, ...(found === undefined ? {} : { conditions: itemConditions({ tag: found }) }) }),
    )
ask('items of many old', WALKED + 1, ({ items: of }) => of.list({ ...items, prefix: ['large'] }))
ask('items.get', ONE, ({ items }) => items.get(APP, { namespace: ['users', '5'], key: `5-${MANY}` }, 1))
ask('items.many', 2, ({ items }) => items.many(APP, [{ namespace: ['users', '5'], key: `5-${MANY}` }, item], 1))
ask('items.namespaces', 2 * PAGE, ({ items: of }) => of.namespaces(items))
ask('items.namespaces of a prefix', 2 * PAGE, ({ items: of }) => of.namespaces({ ...items, prefix: ['users', '5'] }))
ask('items.indexed', PAGE, ({ items: of }) => of.indexed(APP, item, PAGE))
ask('items.vectors', ONE, ({ items }) => items.vectors(APP, [item]))
ask('items.expired', PAGE, ({ items }) => items.expired(Number.MAX_SAFE_INTEGER, PAGE))
for (const sort of ['id', 'created_at', 'updated_at'] as const) {
  const query = { kind: 'cron', sort, limit: PAGE }
  ask(`records by ${sort}`, PAGE, ({ records }) => records.list(query))
  ask(`records of an application by ${sort}`, PAGE, ({ records }) => records.list({ ...query, app: APP }))
  ask(`records of a parent by ${sort}`, PAGE, ({ records }) => records.list({ ...query, parent: `t5-${MANY}` }))
}
ask('records.get', ONE, ({ records }) => records.get('cron', `5-${MANY}`))
ask('records.named', ONE, ({ records }) => records.named('cron', APP, 'none'))
ask('records.due', PAGE, ({ records }) => records.due('cron', Number.MAX_SAFE_INTEGER, PAGE))
ask('checkpoints.get', PAGE, ({ checkpoints }) => checkpoints.get({ thread_id }))
ask('checkpoints.list', PAGE, ({ checkpoints }) => checkpoints.list({ thread_id, limit: PAGE }))

const patch = { where: {}, set: { updated_at: 1 } }
const writes: readonly { name: string; most: number; steps: Step[] }[] = [
  { name: 'threads.patch', most: 2, steps: [{ step: 'threads.patch', thread_id, ...patch }] },
  { name: 'threads.remove', most: 60, steps: [{ step: 'threads.remove', thread_id }] },
  { name: 'runs.patch', most: 2, steps: [{ step: 'runs.patch', run_id: `r5-${MANY}`, ...patch }] },
  { name: 'runs.remove', most: 2, steps: [{ step: 'runs.remove', run_id: `r5-${MANY}`, where: {} }] },
  { name: 'runs.beat', most: 2, steps: [{ step: 'runs.beat', runs: [{ run_id: `r5-${MANY}`, token: 't' }] }] },
  { name: 'records.patch', most: 2, steps: [{ step: 'records.patch', kind: 'cron', id: `5-${MANY}`, ...patch }] },
  { name: 'records.clear', most: 4, steps: [{ step: 'records.clear', kind: 'cron', parent: `t5-${MANY}` }] },
  { name: 'checkpoints.rollback', most: 2, steps: [{ step: 'checkpoints.rollback', thread_id, run_id: 'r' }] },
  { name: 'items.remove', most: 2, steps: [{ step: 'items.remove', ...item }] },
]

/** Rows of tables that a plan reads, and whether it reads a whole table without an index. */
interface Plan {
  'Node Type': string
  'Relation Name'?: string
  'Actual Rows': number
  'Actual Loops': number
  'Rows Removed by Filter'?: number
  'Rows Removed by Index Recheck'?: number
  'Shared Hit Blocks': number
  'Shared Read Blocks': number
  Plans?: Plan[]
}
function readBy(plan: Plan): { rows: number; scans: string[] } {
  const inner = (plan.Plans ?? []).map(readBy)
  const isRead = plan['Relation Name'] !== undefined && plan['Node Type'] !== 'ModifyTable'
  const each =
    plan['Actual Rows'] + (plan['Rows Removed by Filter'] ?? 0) + (plan['Rows Removed by Index Recheck'] ?? 0)
  const own = isRead ? each * plan['Actual Loops'] : 0
  return {
    rows: inner.reduce((sum, { rows }) => sum + rows, own),
    scans: [
      ...inner.flatMap(({ scans }) => scans),
      ...(plan['Node Type'] === 'Seq Scan' ? [plan['Relation Name']!] : []),
    ],
  }
}

const literal = (value: Param): string => {
  if (value === null) return 'NULL'
  if (typeof value === 'number' || typeof value === 'boolean') return `${value}`
  if (typeof value === 'string') return pg.escapeLiteral(value)
  return pg.escapeLiteral(`{${[...(value as string[])].map(one => JSON.stringify(one))}}`)
}

async function explain(on: ClientBase, { text, params }: Statement): Promise<{ plan: Plan; blocks: number }> {
  let n = 0
  await on.query(`PREPARE asked AS ${text.replaceAll('?', () => `$${++n}`)}`)
  const values = params.length === 0 ? '' : `(${params.map(literal)})`
  await on.query('BEGIN')
  const { rows } = await on.query(`EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) EXECUTE asked${values}`)
  await on.query('ROLLBACK')
  await on.query('DEALLOCATE asked')
  const plan: Plan = rows[0]['QUERY PLAN'][0].Plan
  return { plan, blocks: plan['Shared Hit Blocks'] + plan['Shared Read Blocks'] }
}

/** The question of each call of the table. */
async function statementsOf(): Promise<Asked[]> {
  const all: Asked[] = []
  for (const { name, most, call } of asks) {
    seen = []
    await call(store)
    all.push({ name, most, statements: seen })
  }
  for (const { name, most, steps } of writes) {
    const lock = lockFor(steps)
    const list = [...(lock === null ? [] : [lock]), ...statements(steps)]
    all.push({ name, most, statements: list.map(([text, , params]) => ({ text, params })) })
  }
  return all
}

const OURS = ['enable_seqscan=off', 'enable_bitmapscan=off', 'jit=off']

await fill(500)
await client.query('ANALYZE')
await fill(MANY)
const all = await statementsOf()

async function check(t: Test, settings: readonly string[], isHinted = true): Promise<void> {
  for (const setting of settings) await client.query(`SET ${setting}`)
  for (const { name, most, statements } of all)
    for (const statement of statements) {
      const { plan, blocks } = await explain(client, statement)
      const { rows, scans } = readBy(plan)
      const isBounded = most === null || (rows <= most && blocks <= 8 * most + 60)
      const found = `${name}: ${rows} rows, ${blocks} pages, whole tables: ${scans.join() || 'none'}`
      t.ok(isBounded && (scans.length === 0 || !isHinted), found, { text: statement.text, plan })
    }
  await client.query('RESET ALL')
}

for (const mode of ['force_custom_plan', 'force_generic_plan']) {
  t.test(`statistics of a table that has just grown, ${mode}`, t => check(t, [...OURS, `plan_cache_mode=${mode}`]))
}
t.test('statistics of now', async t => {
  await client.query('VACUUM ANALYZE')
  for (const mode of ['force_custom_plan', 'force_generic_plan'])
    await t.test(mode, t => check(t, [...OURS, `plan_cache_mode=${mode}`]))
  await t.test('the planner by itself, as behind a pooler', t => check(t, ['plan_cache_mode=force_custom_plan'], false))
})
