/** Calls that are repeated until a worker answers, and answers whose error status is thrown. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { CallHead } from '../schemas/calls.js'
import { ERRORS, type ErrorCode, fail } from '../schemas/errors.js'
import type { Answer, CallOptions, RetryOptions } from './call.js'

type Call = (subject: string, head: CallHead, body?: Uint8Array, options?: CallOptions) => Promise<Answer>

const TIMEOUT_MS = 10_000
const PAUSE_MS = 250

/** `Caller.callUntilAnswered` for this way to call. */
export const callUntilAnswered =
  (call: Call, isClosed: () => boolean) =>
  async (subject: string, head: CallHead, body?: Uint8Array, options: RetryOptions = {}): Promise<Answer> => {
    const { until = Infinity, pause = PAUSE_MS, signal, retryIf, onRetry, timeout = TIMEOUT_MS, ...others } = options
    for (;;) {
      const left = Math.max(1, Math.min(timeout, until - Date.now()))
      const last = await call(subject, head, body, { ...others, timeout: left, repeat: true }).catch(
        (error: Error) => error,
      )
      if (!(last instanceof Error) && !retryIf?.(last)) return last
      const tryAgain = () => !isClosed() && !signal?.aborted
      if (tryAgain() && Date.now() + pause < until) {
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
  if (status >= 400) throw fail(code !== undefined && code in ERRORS ? (code as ErrorCode) : 'internal', detail)
  return answer
}
