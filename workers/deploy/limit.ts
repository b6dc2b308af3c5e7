import PQueue from 'p-queue'
import { Stopped } from './fault.js'

/**
 * At most `concurrency` pieces of work at once; the others wait in order. A signal takes waiting work out of the queue:
 * it throws Stopped. Work that has started ends by itself: p-queue would reject while it is still cleaning up.
 */
export function openLimit(concurrency: number): <T>(work: () => Promise<T>, signal: AbortSignal) => Promise<T> {
  const queue = new PQueue({ concurrency })
  return (work, signal) => {
    const waiting = new AbortController()
    const leave = () => waiting.abort(new Stopped('the task was stopped'))
    if (signal.aborted) leave()
    signal.addEventListener('abort', leave, { once: true })
    const start = () => {
      signal.removeEventListener('abort', leave)
      return work()
    }
    return queue.add(start, { signal: waiting.signal })
  }
}
