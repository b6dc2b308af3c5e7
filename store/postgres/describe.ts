/** The report of `weft doctor` about a PostgreSQL server. */
import pg from 'pg'
import { sentenceOf } from './connection.js'
import { placeOf, poolConfig } from './url.js'

/** Rejects with one sentence when no server answers. `isDurable`: a commit is on the disk when it is answered. */
export async function describePostgres(url: string): Promise<{ version: string; isDurable: boolean }> {
  const client = new pg.Client(poolConfig(url))
  client.on('error', () => {})
  try {
    await client.connect()
    const { rows } = await client.query<{ version: string; synced: string; fsync: string }>(
      "SELECT current_setting('server_version') AS version, current_setting('synchronous_commit') AS synced, current_setting('fsync') AS fsync",
    )
    const { version, synced, fsync } = rows[0]!
    return { version, isDurable: synced !== 'off' && fsync === 'on' }
  } catch (error) {
    throw new Error(`no PostgreSQL answers at ${placeOf(url)}: ${sentenceOf(error)}`)
  } finally {
    await client.end().catch(() => {})
  }
}
