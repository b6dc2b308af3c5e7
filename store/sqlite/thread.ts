/**
 * The caller's side of a database thread. Calls of one event-loop turn travel as one message and are answered in
 * order. Nothing hangs: when the thread ends, every waiting call and every later one is rejected as unavailable.
 */
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { StoreOutage } from '../../schemas/errors.js'
import type { Answers, Failure } from './serve.js'

interface Waiting {
  resolve: (value: never) => void
  reject: (error: Error) => void
}

export class Thread {
  #worker: Worker
  #calls: unknown[] = []
  #transfer: ArrayBuffer[] = []
  #waiting: Waiting[] = []
  #ended: Error | null = null
  #exit: Promise<unknown>

  private constructor(worker: Worker) {
    this.#worker = worker
    this.#exit = new Promise(resolve => worker.once('exit', resolve))
    worker.on('message', (answers: Answers) => this.#answer(answers))
    worker.on('error', error => this.#end(error.message))
    worker.on('messageerror', error => this.#kill(error.message))
    worker.on('exit', () => this.#end('it has ended'))
  }

  /**
   * Starts the file as a thread with this data and waits until it serves.
   * `started` is the thread's report of its start. Rejects with the thread's sentence when it cannot start.
   */
  static async open<Started>(file: URL, data: unknown): Promise<{ thread: Thread; started: Started }> {
    const worker = new Worker(file, { workerData: data })
    // A thread that ends at once may report both at once: listen before waiting.
    const exit = new Promise(resolve => worker.once('exit', resolve))
    const [first] = (await once(worker, 'message')) as [{ started: Started } | { failure: Failure }]
    if ('started' in first) return { thread: new Thread(worker), started: first.started }
    await exit
    throw errorOf(first.failure)
  }

  /** One call; the buffers in `transfer` are given away. */
  call<Answer>(call: unknown, transfer?: readonly ArrayBuffer[]): Promise<Answer> {
    if (this.#ended) return Promise.reject(this.#ended)
    if (this.#calls.push(call) === 1) setImmediate(() => this.#flush())
    if (transfer) for (const buffer of transfer) this.#transfer.push(buffer)
    return new Promise<Answer>((resolve, reject) => this.#waiting.push({ resolve, reject }))
  }

  /** Takes nothing new, lets what was accepted finish, resolves when the thread has let go of its files. */
  async close(): Promise<void> {
    if (!this.#ended) {
      this.#flush()
      this.#ended = new StoreOutage('The store is closed')
      this.#worker.postMessage(null)
    }
    await this.#exit
  }

  #flush(): void {
    const calls = this.#calls
    const transfer = this.#transfer
    if (calls.length === 0 || this.#ended) return
    this.#calls = []
    this.#transfer = []
    try {
      this.#worker.postMessage(calls, transfer)
    } catch (error) {
      // Some calls of the turn cannot travel, and the thread counts on seeing each one: do not go on half.
      this.#kill((error as Error).message)
    }
  }

  #answer({ values, failures }: Answers): void {
    const answered = this.#waiting.splice(0, values.length)
    for (let i = 0; i < values.length; i++) {
      const failure = failures?.get(i)
      if (failure) answered[i]!.reject(errorOf(failure))
      else answered[i]!.resolve(values[i] as never)
    }
  }

  #kill(reason: string): void {
    this.#end(reason)
    void this.#worker.terminate()
  }

  #end(reason: string): void {
    this.#ended ??= new StoreOutage(`The database thread does not answer: ${reason}`)
    for (const { reject } of this.#waiting.splice(0)) reject(this.#ended)
  }
}

/** Trouble with the file, the disk or a lock is for the operator and may pass; anything else is a bug. */
const UNAVAILABLE = /^SQLITE_(BUSY|LOCKED|FULL|IOERR|CANTOPEN|READONLY|NOMEM)/

function errorOf({ message, code, stack }: Failure): Error {
  if (code && UNAVAILABLE.test(code)) return new StoreOutage(`The database cannot be used: ${message} (${code})`)
  const error = new Error(message)
  if (stack) error.stack = stack
  return error
}
