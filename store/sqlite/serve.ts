/** The thread's side: takes the calls of all messages that are waiting at once, and answers them in one message. */
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

interface Served {
  /** Answers all calls, in order; puts buffers that it gives away into `transfer`. */
  run: (calls: never[], transfer: ArrayBuffer[]) => Answers
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
    while (!closed && calls.length < MOST) {
      const next = receiveMessageOnPort(port) as { message: never[] | null } | undefined
      if (!next) break
      if (next.message === null) closed = true
      else calls.push(...next.message)
    }
    if (calls.length > 0) {
      const transfer: ArrayBuffer[] = []
      port.postMessage(served.run(calls, transfer), transfer)
    }
    if (!closed) return
    stopCollecting()
    served.close()
    port.close()
  })
  const stopCollecting = collectLargeGarbage()
  port.postMessage({ started: served.started })
}

export function failureOf(error: unknown): Failure {
  const { message, code, stack } = error as Partial<Failure>
  return { message: message ?? String(error), code, stack }
}
