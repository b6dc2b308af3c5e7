import { setTimeout as sleep } from 'node:timers/promises'

/** The failure of a step: one line for clients (stage, cause, hint), and whether a retry may succeed. */
export class Fault extends Error {
  constructor(
    message: string,
    /** A retry may succeed: a network error, a killed process. */
    readonly retryable = false,
  ) {
    super(message)
    this.name = 'Fault'
  }
}

/** The task was interrupted or has lost its lease: undo, without a further report. */
export class Stopped extends Error {
  override name = 'Stopped'
}

/** Throws Stopped after the signal was aborted. */
export function throwIfStopped(signal: AbortSignal): void {
  if (signal.aborted) throw new Stopped('the task was stopped')
}

/** Repeats the work after each pause while its fault is retryable. Throws the last fault, or Stopped. */
export async function retry<T>(
  pauses_ms: readonly number[],
  signal: AbortSignal,
  say: (line: string) => void,
  work: () => Promise<T>,
): Promise<T> {
  for (let n = 0; ; n++) {
    try {
      return await work()
    } catch (error) {
      const pause = pauses_ms[n]
      if (!(error instanceof Fault) || !error.retryable || pause === undefined || signal.aborted) throw error
      say(`${error.message}; trying again in ${pause / 1000} s`)
      await sleep(pause, undefined, { signal }).catch(() => throwIfStopped(signal))
    }
  }
}
