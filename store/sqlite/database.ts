/** A connection with the settings on which the promises of the store rest. */
import Libsql, { type Database } from 'libsql'

export type Param = string | number | Uint8Array | null
export type Row = Param[]

/** Opens the file; made when absent. Waits up to 5 s for another connection's lock. */
export function openDatabase(file: string): Database {
  const db = new Libsql(file)
  // FULL, not NORMAL: a commit that was answered survives a power cut; grouped, the two cost the same (measured 0.98 ×).
  for (const setting of [
    'busy_timeout = 5000',
    'journal_mode = WAL',
    'synchronous = FULL',
    'foreign_keys = ON',
    'wal_autocheckpoint = 4000',
    'cache_size = -65536',
    'temp_store = MEMORY',
  ])
    db.pragma(setting)
  return db
}
