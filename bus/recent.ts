/**
 * The last seconds of what a run has stored, in the memory of its publisher. The stored stream persists asynchronously: a
 * server that is killed can lose messages that it had just confirmed (seen on 2.15.1), so they are sent again after a
 * reconnect. And a reader that comes back asks for them: one message instead of a search in the stored stream (100 readers
 * at once had their first event after 110 ms instead of 280).
 */
import type { Msg } from 'nats'
import { type Kept, lastOf, respond } from './ring.js'

/** How long and how much is kept. */
export const RECENT_MS = 3_000
const RECENT_BYTES = 4 * 1024 * 1024

interface Asked {
  after: number
  request: Msg
  /** The newest message that was sent before the request. */
  until: Kept
}

export interface Recent {
  /** Confirmed by the broker. */
  push(message: Kept): void
  /** All of them, with the sum of their bytes; none is kept. */
  take(): { messages: Kept[]; bytes: number }
  /**
   * Answers a replay request with the messages behind `after`, or `gone`. It waits until `until` is confirmed, because a
   * reader may have it from nowhere else. Nothing that is not stored is passed on: a later reader would not find it.
   */
  answer(after: number, request: Msg, until: Kept | undefined): void
  /** Answers what waits for messages that are not in `line` any more. */
  confirmed(line: readonly Kept[]): void
  /** Answers all waiting requests with `gone`. */
  refuse(): void
}

export function openRecent(): Recent {
  let kept: { message: Kept; at: number }[] = []
  let bytes = 0
  let asked: Asked[] = []

  function reply(after: number, request: Msg): void {
    const from = kept.findIndex(({ message }) => lastOf(message) > after)
    const first = kept[from]?.message
    const whole =
      first !== undefined && first.first <= after + 1 && (first.part === null || first.part.startsWith('0/'))
    respond(request, whole ? kept.slice(from).map(({ message }) => message) : null)
  }

  return {
    push(message) {
      const now = performance.now()
      kept.push({ message, at: now })
      bytes += message.bytes.length
      while (kept.length > 1 && (kept[0]!.at < now - RECENT_MS || bytes > RECENT_BYTES))
        bytes -= kept.shift()!.message.bytes.length
    },
    take() {
      const taken = { messages: kept.map(({ message }) => message), bytes }
      kept = []
      bytes = 0
      return taken
    },
    answer(after, request, until) {
      if (until === undefined) reply(after, request)
      else asked.push({ after, request, until })
    },
    confirmed(line) {
      if (asked.length === 0) return
      const due = asked.filter(({ until }) => !line.includes(until))
      asked = asked.filter(one => !due.includes(one))
      for (const { after, request } of due) reply(after, request)
    },
    refuse() {
      for (const { request } of asked) respond(request, null)
      asked = []
    },
  }
}
