/**
 * Waits that end by time. `AbortSignal.any` with `AbortSignal.timeout` does not: Node.js may collect a timeout that only a
 * combined signal refers to, and then it never fires.
 */
import type { EventEmitter } from 'node:events'

/** Resolves at the next `change`, after `ms`, or when the signal is aborted. */
export function nextChange(changes: EventEmitter, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    const done = () => {
      clearTimeout(timer)
      changes.off('change', done)
      signal.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, ms)
    changes.on('change', done)
    signal.addEventListener('abort', done)
    if (signal.aborted) done()
  })
}

/** A signal that is aborted with `signal`, or after `ms`. `clear` ends the wait. */
export function abortedWithin(ms: number, signal: AbortSignal): { signal: AbortSignal; clear(): void } {
  const controller = new AbortController()
  const abort = () => controller.abort(signal.reason)
  const timer = setTimeout(() => controller.abort(), ms)
  if (signal.aborted) abort()
  signal.addEventListener('abort', abort)
  return {
    signal: controller.signal,
    clear() {
      clearTimeout(timer)
      signal.removeEventListener('abort', abort)
    },
  }
}
