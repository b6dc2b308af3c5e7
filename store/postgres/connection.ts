/**
 * The connections to PostgreSQL: their settings, what a row looks like on its way, and the errors which mean that the
 * database cannot be used at the moment.
 *
 * The URL is that of libpq (https://www.postgresql.org/docs/current/libpq-connect.html): several hosts are not supported,
 * `sslmode`, `sslrootcert`, `sslcert`, `sslkey`, PGPASSFILE and ~/.pgpass are. Two members are ours, with the names that
 * other libraries gave them: `pgbouncer=true` for a pooler in transaction mode, `connection_limit` for the size of the pool.
 */
import pg, { type ClientBase, type Pool, type PoolClient, type PoolConfig } from 'pg'

export type Param = string | number | boolean | Uint8Array | readonly (string | number | null)[] | null
export type Value = string | number | boolean | Uint8Array | null
export type Row = Value[]

export interface PostgresOptions {
  /** postgres://… or postgresql://… */
  url: string
  log?: { info(data: object, message: string): void; warn(data: object, message: string): void }
  /** Sees every statement; for tests. */
  onStatement?: (text: string, params: readonly Param[]) => void
}

/** Connections of one resource worker; a server has 100 by default. */
const CONNECTIONS = 10
/** Wait for a connection. A call that gets none fails. */
const CONNECT_MS = 2_000
/** A call without an answer for this long makes another connection ask whether the server answers at all. */
const SILENT_MS = 2_000
/** Wait for one answer: removing a long thread takes the longest. */
const ANSWER_MS = 30_000
/** Wait for a row that another transaction has changed, and the life of a transaction whose worker has gone. */
const LOCK_MS = 5_000
const IDLE_MS = 10_000

export interface Database {
  /** Rows of a query, and how many it has changed. `?` in the text stand for the parameters, in order. */
  query(text: string, params?: readonly Param[]): Promise<Result>
  /** Runs `work` with one connection. A connection on which it fails is closed. */
  with<T>(work: (query: Query) => Promise<T>): Promise<T>
  /** Runs `work` with a connection whose statements take the time that they need. */
  migrate(work: (client: ClientBase) => Promise<void>): Promise<void>
  end(): Promise<void>
}

export interface Result {
  rows: Row[]
  count: number
}
export type Query = (text: string, params?: readonly Param[]) => Promise<Result>

/** The host and the database of a URL, without credentials. */
export function placeOf(url: string): string {
  try {
    const { hostname, port, pathname, searchParams } = new URL(url)
    return `${hostname || searchParams.get('host') || 'localhost'}${port && `:${port}`}${pathname}`
  } catch {
    return 'DATABASE_URI'
  }
}

/** Opens no connection yet. Throws one sentence for a URL that is none. */
export function openDatabase({ url, log, onStatement }: PostgresOptions): Database {
  const { config, pooled } = configOf(url)
  const pool = new pg.Pool(config)
  const open = new Set<PoolClient>()
  pool.on('connect', client => {
    open.add(client)
    client.on('error', () => {})
  })
  pool.on('remove', client => open.delete(client))
  // Of a connection at rest, which the pool has dropped already.
  pool.on('error', error => log?.warn({ err: error }, 'a connection to the database was lost'))

  const on =
    (client: Pool | PoolClient): Query =>
    async (text, params = []) => {
      onStatement?.(text, params)
      const { name, numbered } = known(text)
      const result = await client.query({
        ...(pooled ? {} : { name }),
        text: numbered,
        values: params as unknown[],
        rowMode: 'array',
        types: TYPES,
      } as never)
      const { rows, rowCount } = result as unknown as { rows: Row[]; rowCount: number | null }
      return { rows, count: rowCount ?? 0 }
    }
  const watch = watchSilence(config, () => {
    log?.warn({ place: placeOf(url) }, 'the database server does not answer')
    for (const client of open) (client as unknown as Sockets).connection.stream.destroy()
  })

  return {
    query: (text, params) => watch(on(pool)(text, params)),
    with: work =>
      watch(
        (async () => {
          const client = await pool.connect()
          try {
            const value = await work(on(client))
            client.release()
            return value
          } catch (error) {
            client.release(true)
            throw error
          }
        })(),
      ),
    async migrate(work) {
      const { query_timeout: _, options: __, ...patient } = config
      const client = new pg.Client(patient)
      client.on('error', () => {})
      try {
        await client.connect()
        await work(client)
      } finally {
        await client.end().catch(() => {})
      }
    },
    end: () => pool.end(),
  }
}

interface Sockets {
  connection: { stream: { destroy(): void } }
}

export const poolConfig = (url: string): PoolConfig => configOf(url).config

function configOf(url: string): { config: PoolConfig; pooled: boolean } {
  if (!/^postgres(ql)?:\/\//.test(url) || !URL.canParse(url))
    throw new Error('DATABASE_URI must be a URL of PostgreSQL, as postgres://user:password@host:5432/database')
  const at = new URL(url)
  const pooled = at.searchParams.get('pgbouncer') === 'true'
  const most = Number(at.searchParams.get('connection_limit') ?? CONNECTIONS)
  if (!Number.isSafeInteger(most) || most < 1)
    throw new Error('connection_limit of DATABASE_URI must be a whole number')
  for (const own of ['pgbouncer', 'connection_limit']) at.searchParams.delete(own)
  // As libpq: `require` without a certificate of an authority checks none.
  if (at.searchParams.has('sslmode')) at.searchParams.set('uselibpqcompat', 'true')
  const config: PoolConfig = {
    connectionString: at.href,
    max: most,
    connectionTimeoutMillis: CONNECT_MS,
    query_timeout: ANSWER_MS,
    keepAlive: true,
    // Statements of a transaction travel together.
    pipeline: true,
    application_name: 'weft',
  }
  // A pooler passes no settings of a session on.
  if (pooled) return { config, pooled }
  const options = [
    `lock_timeout=${LOCK_MS}`,
    `statement_timeout=${ANSWER_MS}`,
    `idle_in_transaction_session_timeout=${IDLE_MS}`,
    // Every query has its index; statistics of a table that has just grown say otherwise.
    'enable_seqscan=off',
    'enable_bitmapscan=off',
    'jit=off',
  ]
  return { config: { ...config, options: options.map(option => `-c ${option}`).join(' ') }, pooled }
}

/** Each text has a name of its own, under which each connection prepares it once. */
const texts = new Map<string, { name: string; numbered: string }>()
function known(text: string): { name: string; numbered: string } {
  let found = texts.get(text)
  if (found === undefined) {
    let n = 0
    found = { name: `weft_${texts.size}`, numbered: text.replaceAll('?', () => `$${++n}`) }
    texts.set(text, found)
  }
  return found
}

/** Values from the texts of their types (their numbers: pg_type.dat). Others are texts. */
const TYPES = { getTypeParser: (type: number) => PARSERS[type] ?? String }
const PARSERS: { readonly [type: number]: (text: string) => Value } = {
  16: text => text === 't',
  // \x and two digits for each byte. Of its own buffer, never of the pool that small buffers share.
  17: text => new Uint8Array(Buffer.from(text.slice(2), 'hex')),
  20: Number,
  21: Number,
  23: Number,
  701: Number,
}

/**
 * A server that is stopped or cut off answers nothing, and closes no connection. When a call has waited for SILENT_MS, a new
 * connection asks; when that gets no answer either, `onSilent` closes the connections, and the calls fail.
 */
function watchSilence(config: PoolConfig, onSilent: () => void): <T>(call: Promise<T>) => Promise<T> {
  let isAsking = false
  async function ask(): Promise<void> {
    if (isAsking) return
    isAsking = true
    const client = new pg.Client({ ...config, query_timeout: CONNECT_MS })
    client.on('error', () => {})
    try {
      await client.connect()
      await client.query('SELECT 1')
      void client.end().catch(() => {})
    } catch (error) {
      ;(client as unknown as Sockets).connection.stream.destroy()
      // Another error is an answer.
      if (isSilence(error)) onSilent()
    } finally {
      isAsking = false
    }
  }
  return async call => {
    const timer = setInterval(() => void ask(), SILENT_MS)
    timer.unref()
    try {
      return await call
    } finally {
      clearInterval(timer)
    }
  }
}

const isSilence = (error: unknown): boolean => /timeout|timed? ?out/i.test((error as Error).message)

/**
 * Classes of SQLSTATE (https://www.postgresql.org/docs/current/errcodes-appendix.html) after which a call can be repeated:
 * no connection, no resources (memory, disk, connections), an operator's intervention, an error of the system; and codes:
 * a server that takes no writes, a lock that was not given in time.
 */
const OUTAGES = /^(08|53|57|58|25006|55P03|XX001|XX002)/
const SYSTEM = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENOENT',
])
const LOST =
  /Connection terminated|timeout exceeded when trying to connect|Query read timeout|Client has encountered a connection error|not queryable|Cannot use a pool after|timeout expired/

/** Whether the database cannot be used now: what became of the call is not known, and it can be repeated. */
export function isOutage(error: unknown): error is Error {
  if (!(error instanceof Error)) return false
  const { code = '' } = error as { code?: string }
  return SYSTEM.has(code) || OUTAGES.test(code) || LOST.test(error.message) || code.startsWith('ERR_STREAM')
}

/** Two transactions waited for each other, and this one was taken back: it can be done again at once. */
export const isCollision = (error: unknown): boolean =>
  ['40001', '40P01'].includes((error as { code?: string } | null)?.code ?? '')

/** A name is taken. */
export const isTaken = (error: unknown): boolean => (error as { code?: string } | null)?.code === '23505'
