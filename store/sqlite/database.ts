/** A connection with the settings on which the promises of the store rest. */
import { chmodSync, closeSync, existsSync, openSync } from 'node:fs'
import Libsql, { type Database } from 'libsql'

export type Param = string | number | Uint8Array | null
export type Row = Param[]

/** Wait for another connection's lock at the start, when a schema may have to be changed. */
const OPEN_MS = 5_000
/** Wait for another connection's lock by one group of calls; those that arrive meanwhile fail with it. So a call fails within 2 s. */
const LOCK_MS = 800

/** From now on a locked database fails soon: the caller is answered `unavailable` instead of waiting. */
export const failFast = (db: Database): void => void db.pragma(`busy_timeout = ${LOCK_MS}`)

/**
 * Opens the file, readable by its owner only; made when absent. The files beside it get its mode from SQLite.
 *
 * An existing file is never opened here besides: closing any descriptor of a file drops the POSIX locks that this process has
 * on it, also those of the other threads' connections. Without them a program that opens and closes the database, such as
 * a backup, takes itself for the last user and removes the WAL under this process, with all later commits.
 */
export function openDatabase(file: string): Database {
  if (!existsSync(file)) closeSync(openSync(file, 'a', 0o600))
  for (const one of [file, `${file}-wal`, `${file}-shm`]) if (existsSync(one)) chmodSync(one, 0o600)
  const db = new Libsql(file)
  // FULL, not NORMAL: a commit that was answered survives a power cut; grouped, the two cost the same (measured 0.98 ×).
  // 8 MB of cache for each connection: with 64 a get of 200,000 rows costs the same 9 µs, as the system has the pages, too.
  for (const setting of [
    `busy_timeout = ${OPEN_MS}`,
    'journal_mode = WAL',
    'synchronous = FULL',
    'foreign_keys = ON',
    'wal_autocheckpoint = 4000',
    'cache_size = -8192',
    'temp_store = MEMORY',
  ])
    db.pragma(setting)
  return db
}
