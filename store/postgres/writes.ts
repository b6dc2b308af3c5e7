/**
 * Writes. Those that wait at the same moment share a transaction: its statements travel together, and it is one commit. When
 * the condition of one fails, the transaction is taken back, that one is answered, and the others are done again. So no write
 * sees another one that is not done, and none waits for a row that its own transaction holds.
 */
import { StoreOutage } from '../../schemas/errors.js'
import type { Step } from '../steps.js'
import { type Database, isCollision, isOutage, isTaken, type Query } from './connection.js'
import { lockFor, rowsOf, type Statement, statements } from './statements.js'

/** Transactions at the same time, and writes and bytes of one. */
const LANES = 3
const MOST = 64
const MOST_BYTES = 4 * 1024 * 1024
/** A transaction that collided with that of another worker is done again so often. */
const TRIES = 10
/** The lock of those that collided, so that they do not collide with each other again. */
const COLLIDED = 0x77656675

interface Write {
  steps: readonly Step[]
  list: Statement[]
  rows: string[]
  bytes: number
  done(failed: number): void
  failed(error: unknown): void
}

/** Resolves to the index of the step that failed, or −1. */
export function openWriter(database: Database): (steps: readonly Step[]) => Promise<number> {
  let waiting: Write[] = []
  let lanes = 0
  let isScheduled = false
  /** Rows of the transactions that are under way. */
  const held = new Set<string>()

  function schedule(): void {
    if (isScheduled || lanes === LANES) return
    isScheduled = true
    setImmediate(() => {
      isScheduled = false
      while (lanes < LANES) {
        const batch = takeBatch()
        if (batch.length === 0) return
        lanes++
        void together(batch)
      }
    })
  }

  /** The next writes that change different rows; those of one row stay in order. */
  function takeBatch(): Write[] {
    const batch: Write[] = []
    const left: Write[] = []
    const taken = new Set<string>()
    let bytes = 0
    for (const [i, write] of waiting.entries()) {
      if (batch.length === MOST || (bytes > 0 && bytes + write.bytes > MOST_BYTES)) {
        left.push(...waiting.slice(i))
        break
      }
      const isFree = write.rows.every(row => !taken.has(row) && !held.has(row))
      for (const row of write.rows) taken.add(row)
      if (!isFree) {
        left.push(write)
        continue
      }
      batch.push(write)
      bytes += write.bytes
    }
    waiting = left
    for (const { rows } of batch) for (const row of rows) held.add(row)
    return batch
  }

  async function together(batch: readonly Write[]): Promise<void> {
    let again: readonly Write[] = []
    try {
      again = await attempt(batch)
    } catch (error) {
      // One of them breaks the transaction, or it collided: each for itself.
      if (isOutage(error) || batch.length === 1) for (const write of batch) write.failed(error)
      else await Promise.all(batch.map(write => alone(write.steps).then(write.done, write.failed)))
    }
    for (const { rows } of batch) for (const row of rows) held.delete(row)
    waiting = [...again, ...waiting]
    lanes--
    if (waiting.length > 0) schedule()
  }

  /** Answers the writes that are done or whose condition failed, and returns those that must be done again. */
  async function attempt(batch: readonly Write[]): Promise<Write[]> {
    const [one, ...others] = batch
    if (others.length === 0) {
      one!.done(await alone(one!.steps))
      return []
    }
    const failed = await database.with(async query => {
      const lock = lockFor(batch.flatMap(({ steps }) => steps))
      const counts = await send(query, [...(lock === null ? [] : [lock]), ...batch.flatMap(({ list }) => list)], false)
      if (lock !== null) counts.shift()
      const found = batch.map(({ list }) => failedIn(list, counts.splice(0, list.length)))
      await query(found.every(step => step < 0) ? 'COMMIT' : 'ROLLBACK')
      return found
    })
    const isDone = failed.every(step => step < 0)
    const again: Write[] = []
    for (const [i, write] of batch.entries())
      if (isDone || failed[i]! >= 0) write.done(failed[i]!)
      else again.push(write)
    return again
  }

  /** A write in a transaction of its own. */
  async function alone(steps: readonly Step[]): Promise<number> {
    const list = statements(steps)
    const [first] = list
    if (first === undefined) return -1
    if (list.length === 1) {
      const [text, step, params] = first
      const { count } = await database.query(text, params).catch(takenAsNone(step))
      return failedIn(list, [count])
    }
    const lock = lockFor(steps)
    for (let tries = 0; tries < TRIES; tries++) {
      const failed = await database.with(async query => {
        const before: Statement[] = [
          ...(tries === 0 ? [] : [[`SELECT pg_advisory_xact_lock(${COLLIDED})`, -1, []] satisfies Statement]),
          ...(lock === null ? [] : [lock]),
        ]
        try {
          const counts = await send(query, [...before, ...list], true)
          const failed = failedIn(list, counts.slice(before.length))
          await query(failed < 0 ? 'COMMIT' : 'ROLLBACK')
          return failed
        } catch (error) {
          if (!isCollision(error)) throw error
          await query('ROLLBACK')
          return null
        }
      })
      if (failed !== null) return failed
    }
    throw new StoreOutage('The database is too busy at the moment')
  }

  return steps => {
    const rows = rowsOf(steps)
    if (rows === null || new Set(rows).size === 0) return alone(steps)
    return new Promise((done, failed) => {
      const list = statements(steps)
      waiting.push({ steps, list, rows: [...new Set(rows)], bytes: bytesOf(list), done, failed })
      schedule()
    })
  }
}

/**
 * Begins a transaction and sends its statements in one flight; resolves to the rows that each has changed. `isAlone`: a name
 * that is taken fails the step of its statement, and what follows is of the same write.
 */
async function send(query: Query, list: readonly Statement[], isAlone: boolean): Promise<number[]> {
  const begun = query('BEGIN')
  const all = await Promise.allSettled([begun, ...list.map(([text, , params]) => query(text, params))])
  const counts: number[] = []
  let isOver = false
  for (const [i, one] of all.entries()) {
    // After the first error each statement fails.
    if (one.status === 'rejected' && !isOver) {
      if (!isAlone || i === 0 || list[i - 1]![1] < 0 || !isTaken(one.reason)) throw one.reason
      isOver = true
    }
    if (i > 0) counts.push(one.status === 'fulfilled' ? one.value.count : 0)
  }
  return counts
}

/** A name that is taken: the step has changed no row. */
const takenAsNone = (step: number) => (error: unknown) => {
  if (step < 0 || !isTaken(error)) throw error
  return { count: 0 }
}

/** The step of the first statement with a condition that has changed no row; −1: none. */
function failedIn(list: readonly Statement[], counts: readonly number[]): number {
  const at = list.findIndex(([, step], i) => step >= 0 && counts[i] === 0)
  return at < 0 ? -1 : list[at]![1]
}

function bytesOf(list: readonly Statement[]): number {
  let bytes = 0
  for (const [, , params] of list)
    for (const value of params) if (typeof value === 'string' || value instanceof Uint8Array) bytes += value.length
  return bytes
}
