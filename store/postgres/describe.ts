/** The report of `weft doctor` about a PostgreSQL server. */
import pg from 'pg'
import { sentenceOf } from './connection.js'
import { isSince, mostDims, VECTOR_SINCE } from './nearest.js'
import { placeOf, poolConfig } from './url.js'

export interface PostgresReport {
  version: string
  /** A commit is on the disk when it is answered. */
  isDurable: boolean
  /** Whether vectors can be searched by pgvector, as part of a sentence. */
  vectors: string
  /** The database has it, and this user may not make it. */
  needsExtension: boolean
}

/** Rejects with one sentence when no server answers. */
export async function describePostgres(url: string): Promise<PostgresReport> {
  const client = new pg.Client(poolConfig(url))
  client.on('error', () => {})
  try {
    await client.connect()
    const { rows } = await client.query<Answer>(
      `SELECT current_setting('server_version') AS version, current_setting('synchronous_commit') AS synced,
        current_setting('fsync') AS fsync, (SELECT extversion FROM pg_extension WHERE extname = 'vector') AS made,
        (SELECT default_version FROM pg_available_extensions WHERE name = 'vector') AS offered,
        (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)
          OR (has_database_privilege(current_database(), 'CREATE') AND coalesce((SELECT bool_or(trusted)
            FROM pg_available_extension_versions WHERE name = 'vector'), false)) AS may`,
    )
    const { version, synced, fsync, ...vector } = rows[0]!
    const isUseful = vector.offered !== null && isSince(vector.offered, VECTOR_SINCE)
    const needsExtension = vector.made === null && isUseful && !vector.may
    return { version, isDurable: synced !== 'off' && fsync === 'on', vectors: vectorsOf(vector), needsExtension }
  } catch (error) {
    throw new Error(`no PostgreSQL answers at ${placeOf(url)}: ${sentenceOf(error)}`)
  } finally {
    await client.end().catch(() => {})
  }
}

interface Vector {
  /** The version that this database has. */
  made: string | null
  /** The version that the server can make. */
  offered: string | null
  /** This user may make it. */
  may: boolean
}

interface Answer extends Vector {
  version: string
  synced: string
  fsync: string
}

function vectorsOf({ made, offered, may }: Vector): string {
  const version = made ?? offered
  if (version === null) return 'no pgvector'
  if (!isSince(version, VECTOR_SINCE)) return `pgvector ${version}, which is older than ${VECTOR_SINCE}`
  const known = `pgvector ${version} for vectors of up to ${mostDims(version).toLocaleString('en')} numbers`
  if (made !== null) return known
  return may ? `${known}, made when it is needed` : `${known}, which this user may not make`
}
