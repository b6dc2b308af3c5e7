/** Turns the exit of a host into an error with a reason, and names the slot that is charged. */
import type { LastWords } from '../../schemas/host.js'

export interface HostEnd extends LastWords {
  /** The slot that is charged; 0 = none (we ended the host), null = unknown: then every run in it is charged. */
  slot: number | null
}

const REASONS = [
  'HostStopped',
  'OutOfMemory',
  'ProcessExit',
  'ProcessKilled',
  'UncaughtException',
  'UnhandledRejection',
  'MalformedFrame',
]

/** The label of a host that ended: a host may name any error, and so this is one of a few words. */
export const reasonOf = ({ error }: HostEnd): string => (REASONS.includes(error) ? error : 'other')

interface HostExit {
  code: number | null
  signal: NodeJS.Signals | null
  /** We killed it. */
  killed: boolean
  /** We killed it because of a frame that it sent. */
  malformed: HostEnd | null
  lastWords: (LastWords & { slot: number }) | null
  /** The slot that held the event loop at the last report of the watchdog. */
  holder: number
  /** The end of its stderr. */
  tail: string
  memory_mb: number
}

export function endOf({ code, signal, killed, malformed, lastWords, holder, tail, memory_mb }: HostExit): HostEnd {
  if (malformed !== null) return malformed
  if (killed) return { error: 'HostStopped', message: 'its graph host was stopped', slot: 0 }
  // 0 in the last words: code that belongs to no run. The holder of the loop is a better guess, if there is one.
  const slot = lastWords?.slot || holder || null
  if (lastWords !== null) return { error: lastWords.error, message: lastWords.message, slot }
  if (signal === 'SIGABRT' && /heap out of memory|Allocation failed|invalid (array|table) (length|size)/i.test(tail))
    return {
      error: 'OutOfMemory',
      message: `the graph host used up its ${memory_mb} MB of memory (WEFT_HOST_MEMORY_MB)`,
      slot,
    }
  const how = signal === null ? `exit code ${code}` : `signal ${signal}`
  return { error: signal === null ? 'ProcessExit' : 'ProcessKilled', message: `the graph host ended with ${how}`, slot }
}
