/** Calls to graph code: state, history and updates of a thread. A call lends a slot, whose host may read and not save. */
import { ERRORS, type ErrorCode, fail } from '../../schemas/errors.js'
import { type Frame, TO_HOST } from '../pipe.js'
import type { GraphHost } from './host-process.js'
import type { RunTable } from './run-table.js'

const CALL_MS = 30_000

export interface HostCalls {
  /** Passes a call to graph code, and its answer back. `host` is null when none is ready. */
  call(host: GraphHost | null, body: Uint8Array): Promise<{ body: Uint8Array }>
  /** A `called` frame of this host. */
  onAnswer(host: GraphHost, frame: Frame): void
  /** Fails the calls that wait for a host that has ended. */
  onHostEnd(host: GraphHost): void
}

interface PendingCall {
  host: GraphHost
  answer(frame: Frame): void
  fail(detail: string): void
}

export function openHostCalls(table: RunTable): HostCalls {
  const pending = new Map<number, PendingCall>()
  let lastId = 0

  function call(host: GraphHost | null, body: Uint8Array): Promise<{ body: Uint8Array }> {
    if (host === null) return Promise.reject(fail('unavailable', 'No graph host is up at the moment'))
    const id = ++lastId
    const { slot, giveBack } = table.lend(host)
    return new Promise((resolve, reject) => {
      const settle = () => {
        clearTimeout(timer)
        pending.delete(id)
        giveBack()
      }
      const call: PendingCall = {
        host,
        answer({ flags, body }) {
          settle()
          if (flags === 0) return resolve({ body })
          const { code, detail } = JSON.parse(Buffer.from(body).toString()) as { code: string; detail: string }
          reject(fail(code in ERRORS ? (code as ErrorCode) : 'internal', detail))
        },
        fail(detail) {
          settle()
          reject(fail('unavailable', detail))
        },
      }
      const timer = setTimeout(() => call.fail('The graph did not answer in time'), CALL_MS)
      pending.set(id, call)
      host.send({ kind: TO_HOST.call, id, slot, body })
    })
  }

  return {
    call,
    onAnswer: (_host, frame) => pending.get(frame.id)?.answer(frame),
    onHostEnd(host) {
      for (const call of pending.values()) if (call.host === host) call.fail('The graph host ended before it answered')
    },
  }
}
