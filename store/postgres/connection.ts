/**
 * The connections to PostgreSQL: what a row looks like on its way, a server that falls silent, and the errors which mean that
 * the database cannot be used at the moment.
 */
import pg, { type ClientBase, type Pool, type PoolClient, type PoolConfig } from 'pg'
import { CONNECT_MS, configOf, placeOf } from './url.js'

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

/** A call without an answer for this long makes another connection ask whether the server answers at all. */
const SILENT_MS = 2_000

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
  // The error of a connection at rest, which the pool has dropped already.
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

/** Why no connection can be made, as one sentence. */
export const sentenceOf = (error: unknown): string => {
  const { message } = error as Error
  return message.includes('client password must be a string')
    ? 'the server asks for a password: write it into DATABASE_URI, or into the file that PGPASSFILE names (with mode 0600)'
    : message
}

/** Two transactions waited for each other, and this one was taken back: it can be done again at once. */
export const isCollision = (error: unknown): boolean =>
  ['40001', '40P01'].includes((error as { code?: string } | null)?.code ?? '')

/** A name is taken. */
export const isTaken = (error: unknown): boolean => (error as { code?: string } | null)?.code === '23505'
