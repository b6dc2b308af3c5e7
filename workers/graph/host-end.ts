/** What the end of a host means: an error with a reason, and whose doing it was. */
import type { LastWords } from '../../schemas/host.js'

export interface HostEnd extends LastWords {
  /** The slot that is charged; 0 = none of them (we ended it), null = unknown: then all that ran are. */
  slot: number | null
}

export interface Ended {
  code: number | null
  signal: NodeJS.Signals | null
  /** We killed it. */
  killed: boolean
  last: (LastWords & { slot: number }) | null
  /** Who held the event loop at the last word of the watchdog. */
  holder: number
  /** The end of its stderr. */
  tail: string
  memory_mb: number
}

export function endOf({ code, signal, killed, last, holder, tail, memory_mb }: Ended): HostEnd {
  if (killed) return { error: 'HostStopped', message: 'its graph host was stopped', slot: 0 }
  // 0 in the last words: code that belongs to no run. The loop's holder says more, if there is one.
  const slot = last?.slot || holder || null
  if (last !== null) return { error: last.error, message: last.message, slot }
  if (signal === 'SIGABRT' && /heap out of memory|Allocation failed|invalid (array|table) (length|size)/i.test(tail))
    return { error: 'OutOfMemory', message: `the graph host used up its ${memory_mb} MB of memory`, slot }
  const how = signal === null ? `exit code ${code}` : `signal ${signal}`
  return { error: signal === null ? 'ProcessExit' : 'ProcessKilled', message: `the graph host ended with ${how}`, slot }
}
