/** The reader thread. The calls that wait share one read transaction, which sees all that was committed before. */
import { workerData } from 'node:worker_threads'
import { failFast, openDatabase } from './database.js'
import type { Read } from './query.js'
import { reads } from './reads.js'
import { answer, type Done, type Failure, serve } from './serve.js'

export interface ReaderData {
  file: string
}

serve(() => {
  const { file } = workerData as ReaderData
  const db = openDatabase(file)
  db.pragma('query_only = ON')
  failFast(db)
  const ways: { [name: string]: Read } = reads(db)
  const begin = db.prepare('BEGIN')
  const commit = db.prepare('COMMIT')

  function run(calls: [name: string, ...args: never[]][], transfer: ArrayBuffer[], locked: Failure | null): Done {
    const done: Done = { values: [], failures: null, locked }
    begin.run([])
    for (const [name, ...args] of calls) answer(done, () => ways[name]!(transfer, ...args))
    if (db.inTransaction) commit.run([])
    return done
  }

  return { started: null, run, close: () => db.close() }
})
