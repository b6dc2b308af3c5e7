/**
 * Collects garbage after large values have passed. V8 collects while memory is allocated, so a process, or a database
 * thread, that becomes idle after large values would keep the last of them for good (measured: 250 MB after states of
 * 20 MB). A busy thread collects its heap by itself, so only what the heap does not count is looked at there; an idle one
 * gives back its heap, too. What a collection leaves was in use then and may be garbage later, when nothing is allocated
 * any more: it is collected again after a pause, which doubles as long as little is freed. The collection takes about
 * 30 ms.
 */
import { performance } from 'node:perf_hooks'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

const LOOK_MS = 5_000
const LARGE = 16 * 1024 * 1024
/** In a thread that works: there the pause of a collection delays every stream, by 250 ms on a full machine. */
const BUSY_LARGE = 4 * LARGE
/** Share of the time in which the event loop of an idle thread works. */
const IDLE = 0.05
/** The same share of a thread that a collection of its heap does not disturb. */
const QUIET = 0.25
/** Looks until what a collection has left is collected again. */
const SOON = 2
const SELDOM = 12

/** Looks at this thread every 5 s, until the returned function is called. */
export function collectLargeGarbage(look_ms = LOOK_MS): () => void {
  let collect: (() => void) | null = null
  /** The memory that the last collection left: it is in use. */
  let kept = 0
  let keptHeap = 0
  let looks = 0
  let pause = SOON
  let loop = performance.eventLoopUtilization()
  const look = () => {
    const before = memoryUsage()
    if (before === null) return
    const { external, arrayBuffers, heapTotal } = before
    const bytes = external + arrayBuffers
    const { utilization } = performance.eventLoopUtilization(loop)
    loop = performance.eventLoopUtilization()
    kept = Math.min(kept, bytes)
    keptHeap = Math.min(keptHeap, heapTotal)
    looks++
    const isQuiet = utilization <= QUIET
    const large = isQuiet ? LARGE : BUSY_LARGE
    const hasGrown = bytes - kept >= large || (heapTotal - keptHeap >= 2 * LARGE && utilization <= IDLE)
    const mayBeGarbage = kept >= large || (heapTotal >= 4 * LARGE && isQuiet)
    if (!hasGrown && (looks < pause || !mayBeGarbage)) return
    if (collect === null) {
      setFlagsFromString('--expose-gc')
      collect = runInNewContext('gc') as () => void
    }
    collect()
    const after = memoryUsage() ?? before
    kept = after.external + after.arrayBuffers
    keptHeap = after.heapTotal
    const freed = bytes + heapTotal - kept - keptHeap
    pause = freed >= LARGE ? SOON : Math.min(2 * pause, SELDOM)
    looks = 0
  }
  const timer = setInterval(look, look_ms)
  timer.unref()
  return () => clearInterval(timer)
}

/**
 * Null while there is no file descriptor left: Node.js opens a file for it. Clients can take all of them, and what a timer
 * throws ends the process.
 */
function memoryUsage(): NodeJS.MemoryUsage | null {
  try {
    return process.memoryUsage()
  } catch {
    return null
  }
}

/**
 * Keeps the young generation of this process at 2 MB. By default V8 lets it grow to 32 MB, and keeps them while requests
 * come. It is for a process that is only an edge: one with 10,000 streams took 130 MB instead of 160, with the same
 * throughput. A server of all roles does not use it: 8 MB there cost 5 % of the throughput, and freed nothing.
 */
export const keepYoungGenerationSmall = (): void => setFlagsFromString('--semi-space-growth-factor=1')
