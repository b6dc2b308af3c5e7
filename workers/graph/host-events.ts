/** The frames of runs that are no questions: their events, and the errors of graph code. */
import type { Log } from '../../bus/log.js'
import { validateRunFailure } from '../../schemas/host.js'
import { attemptOf } from '../../schemas/subjects.js'
import { TransientMap } from '../../schemas/transient.js'
import { CHUNK, type Frame, MalformedFrame, readJson } from '../pipe.js'
import { limitFlow } from './flow.js'
import { type ActiveRun, isMuted } from './run-table.js'

/** `id: 0`, `event: x` and `data: 0`, with their line ends. */
const MIN_EVENT_BYTES = 22

/**
 * Publishes a frame of events. False: it was dropped, because its ids are of another attempt or not greater than the
 * last. Throws a MalformedFrame when the events cannot fit into the frame.
 */
export function publishEvents(run: ActiveRun, { id, count, body, flags }: Frame): boolean {
  if (isMuted(run)) return true
  if (count * MIN_EVENT_BYTES > body.length) throw new MalformedFrame(`${count} events do not fit into its body`)
  const lastId = id + count - 1
  const { attempt } = run.lease
  if (attemptOf(id) !== attempt || attemptOf(lastId) !== attempt || id <= run.last_event_id || count === 0) return false
  run.last_event_id = lastId
  run.publisher.send(id, count, body, flags === CHUNK.v2)
  limitFlow(run, body.length)
  return true
}

/** Clients ask for checkpoints that they have just read as the newest of the thread. */
const MAX_CHECKPOINTS = 64
const MAX_ID_BYTES = 64

/** Remembers between which events of the run a checkpoint was made. False: it was dropped, because it is of another attempt. */
export function noteCheckpoint(run: ActiveRun, { id, body }: Frame): boolean {
  if (body.length > MAX_ID_BYTES) throw new MalformedFrame(`the id of a checkpoint has ${body.length} bytes`)
  if (attemptOf(id) !== run.lease.attempt) return false
  run.checkpoints ??= new TransientMap()
  run.checkpoints.set(Buffer.from(body).toString(), id)
  if (run.checkpoints.size > MAX_CHECKPOINTS) run.checkpoints.delete(run.checkpoints.keys().next().value!)
  return true
}

/** One entry for the error of graph code. The error itself is in the finish of the run. False: it was dropped. */
export function logFailure(log: Log, run: ActiveRun, { body }: Frame): boolean {
  if (isMuted(run)) return true
  if (run.isFailureLogged) return false
  run.isFailureLogged = true
  const { error, message, stack, ...where } = readJson(body, validateRunFailure)
  const { run_id, thread_id, attempt } = run.lease
  log.error({ run_id, thread_id, attempt, ...where, err: errorFrom(error, message, stack) }, 'run failed')
  return true
}

/** An error as the logger serialises it: its `type` is the name where there is no constructor. */
function errorFrom(name: string, message: string, stack: string | null): Error {
  const error = new Error(message)
  error.stack = stack ?? `${name}: ${message}`
  return Object.defineProperties(error, { name: { value: name }, constructor: { value: null } })
}
