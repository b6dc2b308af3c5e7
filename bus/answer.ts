/** The answer to a call, and how a call is repeated until one comes. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { AnswerHead, CallHead } from '../schemas/calls.js'
import { ERRORS, type ErrorCode, fail } from '../schemas/errors.js'

export interface Answer {
  head: AnswerHead
  body: Uint8Array
}

export interface CallOptions {
  /** Milliseconds until the call rejects; 10,000 when absent. */
  timeout?: number
  /** Milliseconds to repeat the call while no worker serves the subject; 1,500 when absent. */
  patience?: number
  /** Milliseconds without a sign of the worker after which it counts as dead; 5,000 when absent. */
  silence?: number
  /** The call may be carried out twice: when its worker is silent, or the broker was away, it is sent to another one. */
  repeat?: boolean
  /** The call is offered to all workers from the start: only one that can take it now gets it. */
  offered?: boolean
}

export interface RetryOptions extends Omit<CallOptions, 'repeat'> {
  /** `performance.now()` after which no further try is made; no end when absent. */
  until?: number
  /** Milliseconds between two tries; 250 when absent. */
  pause?: number
  /** Ends the pause and allows no further try. A try in progress is not interrupted. */
  signal?: AbortSignal
  /** Answers that count as no answer. */
  retryIf?: (answer: Answer) => boolean
  /** Called before each pause: the error of the last try, or its refused answer. */
  onRetry?: (last: Error | Answer) => void
  /** Whether another try makes sense; asked before each pause. It always does when absent. */
  mayRetry?: () => Promise<boolean>
}

type Call = (subject: string, head: CallHead, body?: Uint8Array, options?: CallOptions) => Promise<Answer>

const TIMEOUT_MS = 10_000
const PAUSE_MS = 250

/** `Caller.callUntilAnswered` for this way to call. */
export const callUntilAnswered =
  (call: Call, isClosed: () => boolean) =>
  async (subject: string, head: CallHead, body?: Uint8Array, options: RetryOptions = {}): Promise<Answer> => {
    const {
      until = Infinity,
      pause = PAUSE_MS,
      signal,
      retryIf,
      onRetry,
      mayRetry,
      timeout = TIMEOUT_MS,
      ...others
    } = options
    for (;;) {
      const left = Math.max(1, Math.min(timeout, until - performance.now()))
      const last = await call(subject, head, body, { ...others, timeout: left, repeat: true }).catch(
        (error: Error) => error,
      )
      if (!(last instanceof Error) && !retryIf?.(last)) return last
      const tryAgain = () => !isClosed() && !signal?.aborted
      if (tryAgain() && performance.now() + pause < until && (mayRetry === undefined || (await mayRetry()))) {
        onRetry?.(last)
        await sleep(pause, undefined, { signal }).catch(() => {})
        if (tryAgain()) continue
      }
      if (last instanceof Error) throw last
      return last
    }
  }

export const isUnavailable = ({ head }: Answer) => head.code === 'unavailable'

/** The answer; throws a WeftError when its status is an error. */
export function succeed(answer: Answer): Answer {
  const { status, code, detail } = answer.head
  if (status >= 400)
    throw fail(code !== undefined && Object.hasOwn(ERRORS, code) ? (code as ErrorCode) : 'internal', detail)
  return answer
}
