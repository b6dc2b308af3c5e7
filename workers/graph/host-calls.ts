/** Calls to graph code: state, history and updates of a thread. A call lends a slot, whose host may read and not save. */
import { ERRORS, type ErrorCode, fail } from '../../schemas/errors.js'
import { type Call, validateCallFailure } from '../../schemas/host.js'
import { TransientMap } from '../../schemas/transient.js'
import { type Frame, MalformedFrame, readJson, TO_HOST } from '../pipe.js'
import { isStuck } from './host-choice.js'
import type { GraphHost } from './host-process.js'
import type { RunTable } from './run-table.js'

const CALL_MS = 30_000
/** After this time a call leaves a host that another slot blocks, for another host. */
const STUCK_MS = 2_000
const CHECK_MS = 250

type PickForCall = (graph_id: string, tried: ReadonlySet<GraphHost>) => GraphHost | null

export interface HostCalls {
  /** Passes a call to graph code, and its answer back. `host` is null when none is ready. */
  call(host: GraphHost | null, body: Uint8Array): Promise<{ body: Uint8Array }>
  /**
   * Like `call`, to a host that `pick` returns. Another host is asked when the code of another slot blocks this one; throws
   * unavailable without a ready host.
   */
  callAny(pick: PickForCall, body: Uint8Array): Promise<{ body: Uint8Array }>
  /** A `called` frame of this host. The answer to a call of another host is malformed. */
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
  const pending = new TransientMap<number, PendingCall>()
  let lastId = 0

  function call(host: GraphHost | null, body: Uint8Array, onStuck?: () => void): Promise<{ body: Uint8Array }> {
    if (host === null) return Promise.reject(fail('unavailable', 'No graph host is ready at the moment'))
    const id = ++lastId
    // The slot may read the checkpoints of its thread only.
    const { thread_id } = callIn(body)
    const { slot, giveBack } = table.lend(host, thread_id)
    return new Promise((resolve, reject) => {
      const settle = () => {
        clearTimeout(timer)
        clearInterval(checks)
        pending.delete(id)
        giveBack()
      }
      const call: PendingCall = {
        host,
        answer({ flags, body }) {
          const failure = flags === 0 ? null : readJson(body, validateCallFailure)
          settle()
          if (failure === null) return resolve({ body })
          const { code, detail } = failure
          reject(fail(Object.hasOwn(ERRORS, code) ? (code as ErrorCode) : 'internal', detail))
        },
        fail(detail) {
          settle()
          reject(fail('unavailable', detail))
        },
      }
      const timer = setTimeout(() => call.fail('The graph did not answer in time'), CALL_MS)
      const since = performance.now()
      const checks = setInterval(() => {
        if (onStuck === undefined || performance.now() - since < STUCK_MS) return
        if (!isStuck(host) || host.holder === slot) return
        onStuck()
        call.fail('The graph host is blocked by a run')
      }, CHECK_MS)
      pending.set(id, call)
      host.send({ kind: TO_HOST.call, id, slot, body })
    })
  }

  async function callAny(pick: PickForCall, body: Uint8Array) {
    const { graph_id } = callIn(body)
    const tried = new Set<GraphHost>()
    for (;;) {
      const host = pick(graph_id, tried)
      let isLeft = false
      try {
        return await call(host, body, () => (isLeft = true))
      } catch (error) {
        if (!isLeft || host === null || pick(graph_id, tried.add(host)) === null) throw error
      }
    }
  }

  return {
    call,
    callAny,
    onAnswer(host, frame) {
      const call = pending.get(frame.id)
      // A call that took too long is no longer pending.
      if (call === undefined) return
      if (call.host !== host) throw new MalformedFrame('it answers a call that another host was asked')
      call.answer(frame)
    },
    onHostEnd(host) {
      for (const call of pending.values()) if (call.host === host) call.fail('The graph host ended before it answered')
    },
  }
}

/** The resource worker has written it. */
export const callIn = (body: Uint8Array): Call => JSON.parse(Buffer.from(body).toString()) as Call
