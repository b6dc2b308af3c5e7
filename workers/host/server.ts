/** The host's end of the pipe: dispatches frames to runs and calls, and sends their requests. */
import type { Duplex } from 'node:stream'
import type { Call, StartHead } from '../../schemas/host.js'
import { unpack } from '../../schemas/packed.js'
import { TransientMap, TransientSet } from '../../schemas/transient.js'
import { ASK, FROM_HOST, type Frame, readFrames, START, STOP, TO_HOST } from '../pipe.js'
import { currentUser } from './app/loopback.js'
import type { Application } from './application.js'
import { answerCall } from './call.js'
import { sendBare } from './finish.js'
import { openAdmission } from './guards/admission.js'
import { LARGE_FRAME, openFrameLanes } from './guards/frame-lanes.js'
import { openNodeGates } from './guards/node-gate.js'
import type { Watchdog } from './guards/watchdog.js'
import { failure, type Host, Refused, Unanswered } from './port.js'
import { type Run, startRun } from './run.js'
import { turnEnd } from './streaming/stream.js'

/** The supervisor destroys the pipe of a host that sends a larger frame. */
const LARGEST = 250 * 1024 * 1024

const decoder = new TextDecoder()
const encoder = new TextEncoder()

export interface Served {
  /** True if the run in this slot has not ended and was not ordered to stop. */
  goesOn(slot: number): boolean
}

/** Sends hello and serves until the stream ends. */
export function serveHost(stream: Duplex, application: Application, watchdog: Watchdog): Served {
  const lanes = openFrameLanes(stream)
  const write = lanes.send
  const runs = new TransientMap<number, Run>()
  /** Slots that were ordered to stop. */
  const stopped = new TransientSet<number>()
  const questions = new TransientMap<number, { resolve(body: Uint8Array): void; reject(error: Error): void }>()
  let lastAsk = 0
  /**
   * Large saves are sent one after the other: the supervisor stops reading the pipe when too many bytes wait in it for
   * the store, and all other runs of the host would wait with them.
   */
  let largeSave: Promise<unknown> = Promise.resolve()
  const gates = openNodeGates(watchdog.slot)
  const question = (slot: number, flags: number, body: Uint8Array) =>
    new Promise<Uint8Array>((resolve, reject) => {
      const id = ++lastAsk
      host.send({ kind: FROM_HOST.ask, flags, slot, id, body })
      questions.set(id, { resolve, reject })
    })
  const host: Host = {
    application,
    gates,
    slot: watchdog.slot,
    send(frame) {
      if ((frame.body?.length ?? 0) > LARGEST)
        throw new RangeError(`${frame.body!.length} bytes in one piece are more than a run may send`)
      write(frame)
    },
    async ask(slot, flags, body) {
      // Nobody answers any more.
      if (flags === ASK.items && !runs.has(slot)) throw new Error('A graph has its store during runs only.')
      if (flags !== ASK.save || body.length < LARGE_FRAME) return question(slot, flags, body)
      const saved = largeSave.then(() => question(slot, flags, body))
      largeSave = saved.catch(() => {})
      return saved
    },
    later: turnEnd(),
    drained: lanes.drained,
  }
  let inUse = 0
  const count = (change: number) => watchdog.busy((inUse += change))
  const begin = ({ slot, flags, id, body }: Frame) => {
    const { head, rest } = unpack<StartHead>(body)
    const done = () => {
      runs.delete(slot)
      stopped.delete(slot)
      count(-1)
    }
    count(1)
    runs.set(
      slot,
      watchdog.enter(slot, () =>
        currentUser.run(head.user, () =>
          startRun(host, {
            slot,
            confirmed_at: id,
            recorded: flags === START.recorded,
            start: head,
            newest: rest,
            done,
          }),
        ),
      ),
    )
  }
  // A failure here costs its run, never the host, whose other runs go on.
  const admission = openAdmission(frame => {
    try {
      begin(frame)
    } catch (error) {
      console.error(error)
      sendBare(host, frame.slot, error)
    }
  })
  const handlers: { [kind: number]: (frame: Frame) => void } = {
    [TO_HOST.start]: frame => admission.add(frame),
    [TO_HOST.answer]({ id, flags, body }) {
      const question = questions.get(id)
      questions.delete(id)
      if (flags === 0) question?.resolve(body)
      else if (flags === 1) question?.reject(new Refused('A later attempt holds this run'))
      else question?.reject(new Unanswered(detailOf(body)))
    },
    [TO_HOST.cancel]({ slot, flags }) {
      admission.expedite(slot)
      const run = runs.get(slot)
      if (run === undefined) return
      stopped.add(slot)
      // The listeners of the signal run synchronously.
      watchdog.enter(slot, () => run.cancel(flags === STOP.timeout))
    },
    [TO_HOST.confirm]({ slot, id }) {
      if (!admission.confirm(slot, id)) gates.confirm(slot, id)
    },
    [TO_HOST.pause]: ({ slot }) => lanes.pause(slot),
    [TO_HOST.resume]: ({ slot }) => lanes.resume(slot),
    [TO_HOST.ping]() {
      // Measures one whole turn of the event loop: the current delay of a new event.
      const pinged_at = performance.now()
      setImmediate(() =>
        setImmediate(() => write({ kind: FROM_HOST.pong, count: Math.round(performance.now() - pinged_at) })),
      )
    },
    [TO_HOST.call]({ slot, id, body }) {
      count(1)
      watchdog
        .enter(slot, async () => answerCall(host, slot, readCall(body)))
        .then(
          body => write({ kind: FROM_HOST.called, slot, id, body }),
          error => write({ kind: FROM_HOST.called, flags: 1, slot, id, body: encoder.encode(JSON.stringify(error)) }),
        )
        .finally(() => count(-1))
    },
  }
  const body = encoder.encode(JSON.stringify(application.hello))
  write({ kind: FROM_HOST.hello, body })
  readFrames(stream, frame => {
    try {
      handlers[frame.kind]?.(frame)
    } catch (error) {
      console.error(error)
    }
  })
  return { goesOn: slot => runs.has(slot) && !stopped.has(slot) }
}

function detailOf(body: Uint8Array): string {
  try {
    return String(JSON.parse(decoder.decode(body)).detail)
  } catch {
    return 'The store did not answer'
  }
}

/** Throws a failure for what is no call. */
function readCall(body: Uint8Array): Call {
  try {
    return JSON.parse(decoder.decode(body)) as Call
  } catch (error) {
    throw failure('internal', String(error))
  }
}
