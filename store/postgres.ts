/**
 * The store in PostgreSQL (14 or newer), shared by any number of resource workers. `apply` is one transaction, and is on the
 * server's disk when it resolves, as far as its `synchronous_commit` says; a read issued after that sees it.
 */
import { openCalls } from './calls.js'
import type { Store } from './port.js'
import { isOutage, openDatabase, type PostgresOptions, type Query, sentenceOf } from './postgres/connection.js'
import { nearestVectors } from './postgres/nearest.js'
import { assistantReads, recordReads, runReads } from './postgres/reads.js'
import { checkpointReads } from './postgres/reads-checkpoints.js'
import { itemReads } from './postgres/reads-items.js'
import { threadReads } from './postgres/reads-threads.js'
import { migrate } from './postgres/schema.js'
import { placeOf } from './postgres/url.js'
import { openWriter } from './postgres/writes.js'

const OLDEST = 14

/**
 * Opens the store and makes its tables. Rejects with one sentence when no server answers, when it is too old, or when a newer
 * Weft has written the database.
 *
 * Calls of the store reject with `unavailable` when the database cannot be used now; whether a write was done is then
 * not known, and it can be repeated.
 */
export async function openPostgres(options: PostgresOptions): Promise<Store> {
  const { log, url } = options
  const database = openDatabase(options)
  try {
    await database.migrate(async client => {
      const { rows } = await client.query<{ version: number; synced: string }>(
        "SELECT current_setting('server_version_num')::int AS version, current_setting('synchronous_commit') AS synced",
      )
      const { version, synced } = rows[0]!
      if (version < OLDEST * 10_000)
        throw new Error(`PostgreSQL ${version / 10_000} is too old: expected ${OLDEST} or newer`)
      if (synced === 'off')
        log?.warn(
          { place: placeOf(url) },
          'synchronous_commit is off: what was answered may be lost when the server dies',
        )
      await migrate(client)
    })
  } catch (error) {
    await database.end().catch(() => {})
    if (!isOutage(error)) throw new Error(sentenceOf(error), { cause: error })
    throw new Error(`No PostgreSQL answers at ${placeOf(url)}: ${error.message}`)
  }

  const { call, close } = openCalls(isOutage, log)
  const query: Query = (text, params) => call(() => database.query(text, params))

  const write = openWriter(database)

  return {
    apply: steps => call(() => write(steps)),
    assistants: assistantReads(query),
    threads: threadReads(query),
    runs: runReads(query),
    checkpoints: checkpointReads(query),
    records: recordReads(query),
    items: itemReads(query),
    nearest: nearestVectors(query, log),
    async ping() {
      await query(
        `INSERT INTO weft.health (id, checked_at) VALUES (1, ?)
          ON CONFLICT (id) DO UPDATE SET checked_at = excluded.checked_at`,
        [Date.now()],
      )
    },
    async bytes() {
      const { rows } = await query(
        `SELECT coalesce(sum(pg_total_relation_size(pg_class.oid)), 0)::bigint FROM pg_class
          JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = 'weft' AND relkind = 'r'`,
      )
      return rows[0]![0] as number
    },
    reusable: async () => 0,
    close: () => close(() => database.end()),
  }
}
