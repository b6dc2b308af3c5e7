/** The parts of the adapter for PostgreSQL alone: its schema, its errors, poolers, servers that die or hang, and its plans. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import t from 'tap'
import { freePort } from '../../cli/ports.js'
import { asServerUser, serverUser } from '../../scripts/postgres/server.js'
import { isOutage, openDatabase } from '../../store/postgres/connection.js'
import { describePostgres } from '../../store/postgres/describe.js'
import { MIGRATION_LOCK, SCHEMA_VERSION } from '../../store/postgres/schema.js'
import { placeOf, poolConfig } from '../../store/postgres/url.js'
import { openPostgres } from '../../store/postgres.js'
import { halt } from '../helpers/processes.js'
import { startOwnPostgres, startPostgres } from '../helpers/stores/postgres-server.js'
import { until } from '../helpers/until.js'
import { record, thread } from './conformance-rows.js'

t.setTimeout(240_000)
const server = await startPostgres()
t.teardown(() => server.stop())

async function ask(url: string, text: string, ...values: unknown[]): Promise<unknown[][]> {
  const client = new pg.Client(url)
  await client.connect()
  const { rows } = await client.query<unknown[]>({ text, values, rowMode: 'array' })
  await client.end()
  return rows
}
const insert = (id: string, set = {}) => ({
  step: 'records.insert' as const,
  row: record({ kind: 'k', id, name: null, ...set }),
})
const code = (call: Promise<unknown>) =>
  call.then(
    () => 'done',
    error => error.code,
  )

t.test('workers that start together make one schema, and an older Weft refuses a newer one', async t => {
  const url = await server.url()
  const stores = await Promise.all(Array.from({ length: 4 }, () => openPostgres({ url })))
  for (const store of stores) await store.ping()
  for (const store of stores) await store.close()
  t.same(await ask(url, 'SELECT version FROM weft.meta'), [[SCHEMA_VERSION]])
  await ask(url, 'UPDATE weft.meta SET version = $1', SCHEMA_VERSION + 1)
  await t.rejects(openPostgres({ url }), {
    message: /schema version \d+, this Weft knows up to \d+: start a newer Weft/,
  })
})

t.test('a worker waits for the migration of another one, longer than calls wait for locks', async _t => {
  const url = await server.url()
  const other = new pg.Client(url)
  await other.connect()
  await other.query(`SELECT pg_advisory_lock(${MIGRATION_LOCK})`)
  const opening = openPostgres({ url })
  const waiting = () => ask(url, "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
  await until(async () => (await waiting()).length === 1)
  // Beyond the limit for locks.
  await sleep(6_000)
  await other.end()
  const store = await opening
  await store.ping()
  await store.close()
})

t.test('tables of others in the same database are left alone', async t => {
  const url = await server.url()
  await ask(url, 'CREATE TABLE threads (id int)')
  const store = await openPostgres({ url })
  t.equal(await store.apply([{ step: 'threads.insert', row: thread() }]), -1)
  await store.close()
  t.same(await ask(url, 'SELECT count(*)::int FROM public.threads'), [[0]])
})

t.test('a URL that is wrong is refused with one sentence, without its password', async t => {
  await t.rejects(openPostgres({ url: 'mysql://u:secret@h/d' }), {
    message: /^DATABASE_URI must be a URL of PostgreSQL/,
  })
  const nobody = `postgres://u:secret@127.0.0.1:${await freePort()}/d`
  await t.rejects(openPostgres({ url: nobody }), {
    message: /^No PostgreSQL answers at 127\.0\.0\.1:\d+\/d: (?!.*secret)/,
  })
  await t.rejects(openPostgres({ url: `${await server.url()}?connection_limit=none` }), { message: /connection_limit/ })
  for (const [url, message] of [
    ['postgres://u:secret@h1:1,h2:2/d', /names several hosts: expected one/],
    ['postgres://u:secret@h1,h2/d', /names several hosts/],
    ['postgres:///d?host=h1,h2', /names several hosts/],
    ['postgres://u:secret@h/d?passfile=/f', /^passfile .* PGPASSFILE/],
    ['postgres://u:secret@h/d?sslmode=prefer', /^sslmode=prefer .* expected disable, require, verify-ca, verify-full$/],
    ['postgres://u:secret@h/d?sslmode=verify-ca', /needs sslrootcert/],
  ] as const) {
    await t.rejects(openPostgres({ url }), { message }, url)
    await t.rejects(describePostgres(url), { message }, url)
  }
  t.match(poolConfig('postgres://u:a,b@h/d?target_session_attrs=read-write'), { max: 10 }, 'a comma in a password')
  t.equal(placeOf('postgres://u:p@h:1/d?sslmode=require'), 'h:1/d')
})

t.test('a query is planned once, not for the values of each call', async t => {
  const database = openDatabase({ url: await server.url() })
  t.teardown(() => database.end())
  for (let i = 0; i < 10; i++)
    await database.query('SELECT relname FROM pg_class WHERE oid > ? ORDER BY oid LIMIT 1', [i])
  const { rows } = await database.query(
    "SELECT custom_plans, generic_plans FROM pg_prepared_statements WHERE statement LIKE 'SELECT relname%'",
  )
  t.same(rows, [[0, 10]])
})

t.test('what doctor says', async t => {
  t.match(await describePostgres(await server.url()), { version: /^\d+/, vectors: /pgvector/ })
  await t.rejects(describePostgres(`postgres://127.0.0.1:${await freePort()}/d`), { message: /^no PostgreSQL answers/ })
})

t.test('errors of the driver', t => {
  const of = (code: string) => Object.assign(new Error(code), { code })
  for (const one of [
    'ECONNREFUSED',
    'ECONNRESET',
    '57P01',
    '57P03',
    '53300',
    '53100',
    '25006',
    '08006',
    '55P03',
    '57014',
  ])
    t.ok(isOutage(of(one)), one)
  for (const one of ['42601', '42P01', '23505', '22P02']) t.notOk(isOutage(of(one)), one)
  t.notOk(isOutage(new TypeError('wrong')))
  t.end()
})

t.test('two transactions that wait for each other are both done', async t => {
  const store = await openPostgres({ url: await server.url() })
  t.teardown(() => store.close())
  const [a, b] = [thread(), thread()]
  await store.apply([
    { step: 'threads.insert', row: a },
    { step: 'threads.insert', row: b },
  ])
  const patch = ({ thread_id }: { thread_id: string }) => ({
    step: 'threads.patch' as const,
    thread_id,
    where: {},
    set: { error: 'e' },
  })
  const both = Array.from({ length: 30 }, (_, i) => store.apply(i % 2 ? [patch(a), patch(b)] : [patch(b), patch(a)]))
  t.same(new Set(await Promise.all(both)), new Set([-1]))
})

t.test('a server that dies or hangs makes calls unavailable, and is used again when it is back', async t => {
  const own = await startOwnPostgres()
  t.teardown(() => own.stop())
  const store = await openPostgres({ url: own.url('postgres') })
  t.teardown(() => store.close())
  t.equal(await store.apply([insert('before')]), -1)
  const isBack = () => code(store.ping()).then(one => one === 'done')

  await halt(own.pid()!)
  // The processes of the connections go on without the one that accepts them: all of them stop.
  for (const [pid] of await childrenOf(own.pid()!)) await halt(pid)
  const waiting = [
    ...Array.from({ length: 30 }, (_, i) => store.apply([insert(`h${i}`), insert(`i${i}`)])),
    store.ping(),
  ]
  t.same(new Set(await Promise.all(waiting.map(code))), new Set(['unavailable']), 'it hangs')
  for (const [pid] of await childrenOf(own.pid()!)) process.kill(pid, 'SIGCONT')
  process.kill(own.pid()!, 'SIGCONT')
  await until(isBack)

  const large = JSON.stringify('x'.repeat(32 * 1024 * 1024))
  const writes = [
    code(store.apply([insert('large', { body: large })])),
    code(store.apply([insert('small'), insert('other')])),
  ]
  await own.kill()
  for (const one of await Promise.all(writes)) t.ok(['done', 'unavailable'].includes(one), one)
  t.equal(await code(store.records.get('k', 'before')), 'unavailable', 'it is away')
  await own.restart()
  await until(isBack)
  t.match(await store.records.get('k', 'before'), { id: 'before' })
  const [small, other] = await Promise.all([store.records.get('k', 'small'), store.records.get('k', 'other')])
  t.equal(small === null, other === null, 'a transaction is done or not')
})

t.test('a transaction of a worker that has gone holds its rows for seconds only', async t => {
  const url = await server.url()
  const store = await openPostgres({ url })
  t.teardown(() => store.close())
  await store.apply([insert('held')])
  const gone = new pg.Client(url)
  gone.on('error', () => {})
  await gone.connect()
  await gone.query('BEGIN')
  await gone.query("UPDATE weft.records SET rev = rev WHERE id = 'held'")
  const patch = { step: 'records.patch' as const, kind: 'k', id: 'held', where: {}, set: { body: '{}' } }
  t.equal(await code(store.apply([patch])), 'unavailable', 'no call waits longer than the limit for locks')
  await gone.query('ROLLBACK')
  await gone.end()
  t.equal(await store.apply([patch]), -1)
})

const PGBOUNCER = '/usr/sbin/pgbouncer'
t.test(
  'pgbouncer in transaction mode',
  { skip: existsSync(PGBOUNCER) ? false : 'pgbouncer is not installed' },
  async t => {
    const direct = new URL(await server.url())
    const port = await freePort()
    // The pooler runs as another user, who may not reach the folder of the tests.
    const folder = mkdtempSync(join(tmpdir(), 'weft-pgbouncer-'))
    t.teardown(() => rmSync(folder, { recursive: true, force: true }))
    const file = join(folder, 'pgbouncer.ini')
    writeFileSync(
      file,
      `[databases]\n* = host=${direct.hostname} port=${direct.port} user=${direct.username}\n[pgbouncer]\nlisten_addr=127.0.0.1\nlisten_port=${port}\n` +
        `auth_type=any\npool_mode=transaction\ndefault_pool_size=3\nunix_socket_dir=\n`,
    )
    const user = serverUser()
    if (user !== null) for (const one of [folder, file]) chownSync(one, user.uid, user.gid)
    const [program, ...args] = asServerUser([PGBOUNCER, '-q', file])
    const pooler = spawn(program!, args, { stdio: 'ignore' })
    t.teardown(async () => {
      pooler.kill('SIGTERM')
      if (pooler.exitCode === null) await once(pooler, 'exit')
    })
    const url = new URL(direct)
    url.port = `${port}`
    url.username = direct.username
    url.searchParams.set('pgbouncer', 'true')
    const open = () => openPostgres({ url: url.href })
    await until(async () => (await code(open().then(store => store.close()))) === 'done')
    const store = await open()
    t.teardown(() => store.close())
    const ids = Array.from({ length: 60 }, (_, i) => `r${i}`)
    t.same(new Set(await Promise.all(ids.map(id => store.apply([insert(id), insert(`${id}-2`)])))), new Set([-1]))
    const found = await Promise.all(ids.map(id => store.records.get('k', id)))
    t.same(
      found.map(row => row?.id),
      ids,
    )
  },
)

/** The processes that a process has started. */
async function childrenOf(pid: number): Promise<[number][]> {
  const { readdir, readFile } = await import('node:fs/promises')
  const all = (await readdir('/proc')).filter(name => /^\d+$/.test(name)).map(Number)
  const found: [number][] = []
  for (const one of all) {
    const stat = await readFile(`/proc/${one}/stat`, 'utf8').catch(() => '')
    if (Number(stat.split(') ')[1]?.split(' ')[1]) === pid) found.push([one])
  }
  return found
}
