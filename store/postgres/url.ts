/**
 * The URL of a PostgreSQL server and the settings of a connection. It is that of libpq
 * (https://www.postgresql.org/docs/current/libpq-connect.html): `sslmode`, `sslrootcert`, `sslcert`, `sslkey`, PGPASSFILE and
 * ~/.pgpass are supported; several hosts, service files and other members that the driver would pass over are refused. Two
 * members are ours, with the names that other libraries gave them: `pgbouncer=true` for a pooler in transaction mode,
 * `connection_limit` for the size of the pool.
 */
import type { PoolConfig } from 'pg'

/** Connections of one resource worker; a server has 100 by default. */
const CONNECTIONS = 10
/** Wait for a connection. A call that gets none fails. */
export const CONNECT_MS = 2_000
/** Wait for one answer: removing a long thread takes the longest. */
const ANSWER_MS = 30_000
/** Wait for a row that another transaction has changed, and the life of a transaction whose worker has gone. */
const LOCK_MS = 5_000
const IDLE_MS = 10_000

/** The host and the database of a URL, without credentials. */
export function placeOf(url: string): string {
  try {
    const { hostname, port, pathname, searchParams } = new URL(url)
    return `${hostname || searchParams.get('host') || 'localhost'}${port && `:${port}`}${pathname}`
  } catch {
    return 'DATABASE_URI'
  }
}

export const poolConfig = (url: string): PoolConfig => configOf(url).config

/** Throws one sentence for a URL that is none, or that asks for what is not supported. */
export function configOf(url: string): { config: PoolConfig; pooled: boolean } {
  const [, authority] = /^postgres(?:ql)?:\/\/([^/?]*)/.exec(url) ?? []
  const host = authority?.slice(authority.lastIndexOf('@') + 1)
  if (host?.includes(',') || /[?&]host=[^&]*(,|%2C)/i.test(url)) throw new Error(SEVERAL_HOSTS)
  if (host === undefined || !URL.canParse(url))
    throw new Error('DATABASE_URI must be a URL of PostgreSQL, as postgres://user:password@host:5432/database')
  const at = new URL(url)
  refuse(at)
  const pooled = at.searchParams.get('pgbouncer') === 'true'
  const most = Number(at.searchParams.get('connection_limit') ?? CONNECTIONS)
  if (!Number.isSafeInteger(most) || most < 1)
    throw new Error('connection_limit of DATABASE_URI must be a whole number')
  for (const own of ['pgbouncer', 'connection_limit']) at.searchParams.delete(own)
  // Like in libpq, `require` without a certificate of an authority checks none.
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
    // A plan for the values is made again for each call, which takes as long as the query.
    'plan_cache_mode=force_generic_plan',
  ]
  return { config: { ...config, options: options.map(option => `-c ${option}`).join(' ') }, pooled }
}

/** Weft does not look for the server that takes writes. */
const SEVERAL_HOSTS =
  'DATABASE_URI names several hosts: expected one, as the address of a pooler or a name that follows the primary'

/** Members of a URL of libpq that the driver would pass over, and what does their work. */
const REFUSED: { readonly [member: string]: string } = {
  passfile: 'set PGPASSFILE to the file of passwords',
  service: 'write the members of the service into the URL',
  sslcrl: 'the driver reads no list of revoked certificates',
  sslpassword: 'give a key without a password',
  hostaddr: 'write the address as the host',
}
const SSL_MODES = ['disable', 'require', 'verify-ca', 'verify-full']

function refuse({ searchParams }: URL): void {
  for (const [member, instead] of Object.entries(REFUSED))
    if (searchParams.has(member)) throw new Error(`${member} in DATABASE_URI is not supported: ${instead}`)
  const mode = searchParams.get('sslmode')
  if (mode !== null && !SSL_MODES.includes(mode))
    throw new Error(`sslmode=${mode} in DATABASE_URI is not supported: expected ${SSL_MODES.join(', ')}`)
  if (mode === 'verify-ca' && !searchParams.has('sslrootcert'))
    throw new Error(
      'sslmode=verify-ca in DATABASE_URI needs sslrootcert, the file with the certificate of the authority',
    )
}
