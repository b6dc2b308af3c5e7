/**
 * The writer thread. All calls that wait make one transaction: one commit, one fsync, then all are answered. A call
 * whose condition fails is undone alone.
 *
 * Claims, heartbeats and saves have no lane before other calls here: the group is one commit, so the order within it
 * changes no waiting time.
 */
import { workerData } from 'node:worker_threads'
import type { Statement as Prepared } from 'libsql'
import { failFast, openDatabase, type Param } from './database.js'
import { claimFolder } from './owner.js'
import { migrate } from './schema.js'
import { answer, type Done, type Failure, failureOf, isBusy, refuse, serve } from './serve.js'

export interface WriterData {
  folder: string
  file: string
}
export interface WriterStarted {
  /** Duration of the database check, which is needed when the last owner did not close; else null. */
  checked_ms: number | null
}

/**
 * Text or number of the SQL, index of the step that fails when no row changes (or −1), parameters.
 * A text is numbered when it comes for the first time; later calls send its number.
 */
export type Sent = [sql: string | number, step: number, params: Param[]]

serve<WriterStarted>(() => {
  const { folder, file } = workerData as WriterData
  const owner = claimFolder(folder, file)
  try {
    const db = openDatabase(file)
    const checked_ms = owner.unclean ? check() : null
    migrate(db)
    failFast(db)

    const known: { sql: string; prepared?: Prepared<unknown[]> }[] = []
    const [begin, commit, rollback] = ['BEGIN IMMEDIATE', 'COMMIT', 'ROLLBACK'].map(sql => db.prepare(sql)) as Three
    const [save, undo, keep] = ['SAVEPOINT one', 'ROLLBACK TO one', 'RELEASE one'].map(sql => db.prepare(sql)) as Three

    return { started: { checked_ms }, run, close }

    function run(calls: Sent[][], _: ArrayBuffer[], locked: Failure | null): Done {
      number(calls)
      const done: Done = { values: [], failures: null, locked }
      try {
        if (locked === null) done.values = together(calls)
      } catch (error) {
        const failure = failureOf(error)
        if (isBusy(failure)) done.locked = failure
        else if (calls.length === 1) refuse(done, failure)
      }
      // Locked, or one of them broke the transaction: each for itself, so that the others are done.
      for (const call of calls.slice(done.values.length)) answer(done, () => together([call])[0]!)
      return done
    }

    function together(calls: Sent[][]): number[] {
      begin.run([])
      try {
        const values = calls.length === 1 ? [steps(calls[0]!)] : calls.map(one)
        // A single call that failed half-way takes the whole transaction back; it needs no savepoint.
        if (calls.length === 1 && values[0]! >= 0) rollback.run([])
        else commit.run([])
        return values
      } catch (error) {
        if (db.inTransaction) rollback.run([])
        throw error
      }
    }

    function one(call: Sent[]): number {
      // Without a condition after the first statement nothing is ever half done: no savepoint (saves 2 µs).
      if (!call.some(([, step], i) => i > 0 && step >= 0)) return steps(call)
      save.run([])
      const failed = steps(call)
      if (failed >= 0) undo.run([])
      keep.run([])
      return failed
    }

    function steps(call: Sent[]): number {
      for (const [sql, step, params] of call) {
        const statement = known[sql as number]!
        statement.prepared ??= db.prepare(statement.sql)
        const { changes } = statement.prepared.run(params)
        if (step >= 0 && changes === 0) return step
      }
      return -1
    }

    function number(calls: Sent[][]): void {
      for (const call of calls)
        for (const statement of call)
          if (typeof statement[0] === 'string') statement[0] = known.push({ sql: statement[0] }) - 1
    }

    function check(): number {
      const started = performance.now()
      const [answer] = db.prepare('PRAGMA quick_check(1)').raw().get([]) as [string]
      if (answer !== 'ok') throw new Error(`The database ${file} is damaged (${answer}): restore it from a backup`)
      return Math.round(performance.now() - started)
    }

    function close(): void {
      db.prepare('PRAGMA wal_checkpoint(TRUNCATE)').raw().all([])
      db.close()
      owner.release()
    }
  } catch (error) {
    owner.release()
    if (/malformed|not a database/.test((error as Error).message))
      throw new Error(`The database ${file} is damaged (${(error as Error).message}): restore it from a backup`)
    throw error
  }
})

type Three = [Prepared<unknown[]>, Prepared<unknown[]>, Prepared<unknown[]>]
