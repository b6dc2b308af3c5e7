/** A periodic check of entries that come and go. Without entries no timer runs, so an idle process does not wake up. */
export interface Sweep {
  /** Call it when an entry is added: the next check comes within a period. */
  wake(): void
  close(): void
}

/**
 * `look` is called every `ms` milliseconds after a wake, with the time of `performance.now()` and the milliseconds since the
 * look or the wake before; it returns whether entries are left.
 */
export function openSweep(ms: number, look: (now: number, since: number) => boolean): Sweep {
  let timer: NodeJS.Timeout | null = null
  let before = 0
  const stop = () => {
    if (timer !== null) clearInterval(timer)
    timer = null
  }
  const turn = () => {
    const now = performance.now()
    const since = now - before
    before = now
    if (!look(now, since)) stop()
  }
  return {
    wake() {
      if (timer !== null) return
      before = performance.now()
      timer = setInterval(turn, ms)
      timer.unref()
    },
    close: stop,
  }
}
