/**
 * Collects garbage after large values have passed. V8 collects while memory is allocated, so a process, or a database
 * thread, that becomes idle after large values would keep the last of them for good (measured: 250 MB after states of
 * 20 MB). A busy thread collects its heap by itself, so only what the heap does not count is looked at there; an idle one
 * gives back its heap, too. The collection takes about 30 ms.
 */
import { performance } from 'node:perf_hooks'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

const LOOK_MS = 5_000
const LARGE = 16 * 1024 * 1024
/** Share of the time in which the event loop of an idle thread works. */
const IDLE = 0.05

/** Looks at this thread every 5 s, until the returned function is called. */
export function collectLargeGarbage(): () => void {
  let collect: (() => void) | null = null
  /** What the last collection left: it is in use. */
  let kept = 0
  let keptHeap = 0
  let loop = performance.eventLoopUtilization()
  const look = () => {
    const { external, arrayBuffers, heapTotal } = process.memoryUsage()
    const bytes = external + arrayBuffers
    const { utilization } = performance.eventLoopUtilization(loop)
    loop = performance.eventLoopUtilization()
    kept = Math.min(kept, bytes)
    keptHeap = Math.min(keptHeap, heapTotal)
    if (bytes - kept < LARGE && (utilization > IDLE || heapTotal - keptHeap < 2 * LARGE)) return
    if (collect === null) {
      setFlagsFromString('--expose-gc')
      collect = runInNewContext('gc') as () => void
    }
    collect()
    const after = process.memoryUsage()
    kept = after.external + after.arrayBuffers
    keptHeap = after.heapTotal
  }
  const timer = setInterval(look, LOOK_MS)
  timer.unref()
  return () => clearInterval(timer)
}
