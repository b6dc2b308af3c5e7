/**
 * The thread's side: takes the calls of all messages that are waiting at once, and answers them in one message. Calls that
 * arrived while a group waited in vain for the lock of another connection fail with it: they would wait as long again.
 */
import { parentPort, receiveMessageOnPort } from 'node:worker_threads'
import { collectLargeGarbage } from '../garbage.js'

/** An error as a thread reports it; `code` is SQLite's. */
export interface Failure {
  message: string
  code?: string
  stack?: string
}

/** One value for each call, in order; `failures` by their index. */
export interface Answers {
  values: unknown[]
  failures: Map<number, Failure> | null
}

/** The answers of a group. `locked`: another connection has kept its lock for longer than this one waits. */
export interface Done extends Answers {
  locked: Failure | null
}

interface Served {
  /**
   * Answers all calls, in order; puts buffers that it gives away into `transfer`. `locked` is that of the group before, with
   * which these calls waited for the lock: they fail with it.
   */
  run: (calls: never[], transfer: ArrayBuffer[], locked: Failure | null) => Done
  /** After the last call. */
  close: () => void
}

/** Bounds how long the first of a group waits for the others. */
const MOST = 1_000

/** Starts, reports `started` or the failure to the opener, then serves until the caller closes. */
export function serve<Started>(start: () => Served & { started: Started }): void {
  const port = parentPort!
  let served: Served & { started: Started }
  try {
    served = start()
  } catch (error) {
    port.postMessage({ failure: failureOf(error) })
    return
  }
  port.on('message', (first: never[] | null) => {
    const calls = first ?? []
    let closed = first === null
    const takeUpTo = (most: number) => {
      while (!closed && calls.length < most) {
        const next = receiveMessageOnPort(port) as { message: never[] | null } | undefined
        if (!next) break
        if (next.message === null) closed = true
        else calls.push(...next.message)
      }
    }
    const run = (locked: Failure | null): Failure | null => {
      if (calls.length === 0) return null
      const transfer: ArrayBuffer[] = []
      const done = served.run(calls.splice(0), transfer, locked)
      port.postMessage({ values: done.values, failures: done.failures } satisfies Answers, transfer)
      return done.locked
    }
    takeUpTo(MOST)
    const locked = run(null)
    if (locked !== null) {
      takeUpTo(Number.POSITIVE_INFINITY)
      run(locked)
    }
    if (!closed) return
    stopCollecting()
    served.close()
    port.close()
  })
  const stopCollecting = collectLargeGarbage()
  port.postMessage({ started: served.started })
}

/** Adds the answer of a call: what `work` returns, or the failure. Once the database is locked, no other work is begun. */
export function answer(done: Done, work: () => unknown): void {
  if (done.locked !== null) return refuse(done, done.locked)
  try {
    done.values.push(work())
  } catch (error) {
    const failure = failureOf(error)
    if (isBusy(failure)) done.locked = failure
    refuse(done, failure)
  }
}

export function refuse(answers: Answers, failure: Failure): void {
  answers.failures ??= new Map()
  answers.failures.set(answers.values.push(null) - 1, failure)
}

export const isBusy = ({ code }: Failure): boolean => code?.startsWith('SQLITE_BUSY') === true

export function failureOf(error: unknown): Failure {
  const { message, code, stack } = error as Partial<Failure>
  return { message: message ?? String(error), code, stack }
}
