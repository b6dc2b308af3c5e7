/** Opens the database file in a database thread; the one place that knows libsql's untyped interface. */
import { createRequire } from 'node:module'
import { LAYOUT, TABLES } from './sqlite-schema.js'

export type Value = string | number | Buffer | null

export interface Statement {
  run(...params: Value[]): { changes: number }
  get(...params: Value[]): unknown
  all(...params: Value[]): unknown[]
  raw(on?: boolean): Statement
}

export interface Database {
  prepare(sql: string): Statement
  exec(sql: string): void
  close(): void
}

// libsql ships no types: the one cast.
const Libsql = createRequire(import.meta.url)('libsql') as new (path: string) => Database

const pragma = (db: Database, text: string): unknown =>
  Object.values((db.prepare(`pragma ${text}`).get() ?? {}) as object)[0]

/** WAL and FULL: a commit survives power loss; grouped commits make it free (measured: 0.98 × of NORMAL). */
export function openWriter(path: string, check: boolean): Database {
  const db = new Libsql(path)
  for (const setting of [
    'busy_timeout = 5000',
    'journal_mode = WAL',
    'synchronous = FULL',
    'wal_autocheckpoint = 4000',
    'cache_size = -65536',
    'foreign_keys = on',
  ])
    pragma(db, setting)
  const layout = Number(pragma(db, 'user_version'))
  if (layout > LAYOUT)
    throw new Error(
      `the database ${path} has layout ${layout}, this version of Weft knows ${LAYOUT}; start the newer version`,
    )
  if (check && layout > 0) {
    const found = String(pragma(db, 'quick_check'))
    if (found !== 'ok') throw new Error(`the database ${path} is damaged: ${found}; restore a backup`)
  }
  db.exec(TABLES)
  pragma(db, `user_version = ${LAYOUT}`)
  return db
}

export function openReader(path: string): Database {
  const db = new Libsql(path)
  for (const setting of ['busy_timeout = 5000', 'query_only = on', 'cache_size = -65536']) pragma(db, setting)
  return db
}
