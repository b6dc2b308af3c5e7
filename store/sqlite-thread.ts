/**
 * A database thread: the writer or the reader. Everything the owner sent in one event-loop turn comes as one message;
 * the writer commits it as one transaction (3.3 × the creates of a commit each), so there is no lane for urgent calls:
 * all of a turn become durable together.
 */
import { parentPort, workerData } from 'node:worker_threads'
import type { Step } from './port.js'
import { openReader, openWriter } from './sqlite-open.js'
import { reads } from './sqlite-reads.js'
import { applier } from './sqlite-steps.js'

export interface ThreadData {
  role: 'writer' | 'reader'
  path: string
  /** The last owner did not close: look the file over. */
  check: boolean
}
/** One call: steps for the writer, name and arguments for the reader. */
export type Request = { id: number; steps: readonly Step[] } | { id: number; read: string; args: unknown[] }
export interface Response {
  id: number
  value?: unknown
  error?: { message: string; code: string | undefined }
}

const port = parentPort!
const { role, path, check } = workerData as ThreadData

if (role === 'writer') writer()
else reader()
port.postMessage('open')

const failed = (id: number, error: unknown): Response => ({
  id,
  error: { message: (error as Error).message, code: (error as { code?: string }).code },
})

function writer(): void {
  const db = openWriter(path, check)
  const apply = applier(db)

  /** All steps of a list or none. The index of the one that failed, or −1. */
  function all(steps: readonly Step[]): number {
    if (steps.length === 1) return apply(steps[0]!) ? -1 : 0
    db.exec('savepoint list')
    const undo = () => db.exec('rollback to list; release list')
    try {
      const at = steps.findIndex(step => !apply(step))
      if (at === -1) db.exec('release list')
      else undo()
      return at
    } catch (error) {
      undo()
      throw error
    }
  }

  function transaction(requests: { id: number; steps: readonly Step[] }[]): Response[] {
    const responses: Response[] = []
    db.exec('begin immediate')
    try {
      for (const { id, steps } of requests) {
        try {
          responses.push({ id, value: all(steps) })
        } catch (error) {
          responses.push(failed(id, error))
        }
      }
      db.exec('commit')
      return responses
    } catch (error) {
      db.exec('rollback')
      throw error
    }
  }

  port.on('message', (requests: { id: number; steps: readonly Step[] }[] | 'close') => {
    if (requests === 'close') {
      db.exec('pragma wal_checkpoint(truncate)')
      db.close()
      port.postMessage('closed')
      return port.close()
    }
    try {
      port.postMessage(transaction(requests))
    } catch (error) {
      port.postMessage(requests.map(({ id }) => failed(id, error)))
    }
  })
}

function reader(): void {
  const db = openReader(path)
  const read = reads(db) as unknown as { [name: string]: (...args: unknown[]) => unknown }
  port.on('message', (requests: { id: number; read: string; args: unknown[] }[] | 'close') => {
    if (requests === 'close') {
      db.close()
      port.postMessage('closed')
      return port.close()
    }
    port.postMessage(
      requests.map(({ id, read: name, args }): Response => {
        try {
          return { id, value: read[name]!(...args) }
        } catch (error) {
          return failed(id, error)
        }
      }),
    )
  })
}
