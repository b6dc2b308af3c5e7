/** The result of a run that has ended, as `wait` answers it. */
import type { Answer } from '../../bus/answer.js'
import { rpc } from '../../schemas/subjects.js'
import type { Edge } from '../context.js'

const NO_STATE = Buffer.from('{}')
const RETRY_MS = 500
const isRefused = ({ head: { status } }: Answer) => status >= 400 && status !== 404

/** Asks until a worker answers; null when `signal` aborts. A run that was removed has no state: `{}`. */
export async function fetchResult(
  { caller, link }: Edge,
  run_id: string,
  request_id: string,
  signal: AbortSignal,
): Promise<Uint8Array | null> {
  const head = { request_id, params: { run_id } }
  const onRetry = (last: Error | Answer) => {
    const why = last instanceof Error ? { err: last } : { status: last.head.status }
    link.log.debug({ run_id, ...why }, 'the result of a run is not available yet')
  }
  try {
    const options = { pause: RETRY_MS, signal, retryIf: isRefused, onRetry }
    const answer = await caller.callUntilAnswered(rpc('runs', 'result'), head, undefined, options)
    if (signal.aborted || isRefused(answer)) return null
    return answer.body.length === 0 || answer.head.status === 404 ? NO_STATE : answer.body
  } catch {
    // Aborted, or the edge stops.
    return null
  }
}
