/**
 * Bytes of events that the broker has not confirmed yet, of all runs of a process. Calls of the process travel behind them
 * on the same connection, so they are bounded together. Runs with more to send take turns.
 */
const MAX_BYTES = 8 * 1024 * 1024

export interface SendWindow {
  /** A run with nothing on its way may send one message all the same: no run waits for the end of others. */
  isFull(): boolean
  /** Sent (positive) or confirmed (negative) bytes. Calls waiting runs when there is room. */
  add(bytes: number): void
  /** `advance` is called once when there is room, behind those that wait already. */
  wait(advance: () => void): void
}

/** `most`: bytes beyond which it is full. */
export function openSendWindow(most = MAX_BYTES): SendWindow {
  const waiting = new Set<() => void>()
  let sent = 0
  return {
    isFull: () => sent >= most,
    add(bytes) {
      sent += bytes
      if (bytes >= 0) return
      for (const next of waiting) {
        if (sent >= most) return
        waiting.delete(next)
        next()
      }
    },
    wait: advance => void waiting.add(advance),
  }
}
