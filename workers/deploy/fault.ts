/** Why a step of an order failed: one line for people (stage, cause, hint), and whether to try it again. */
export class Fault extends Error {
  constructor(
    message: string,
    /** What may be different next time: the network, a process that was killed. */
    readonly again = false,
  ) {
    super(message)
    this.name = 'Fault'
  }
}

/** The order was interrupted, or its lease is lost: undo, and say nothing more. */
export class Stopped extends Error {
  override name = 'Stopped'
}

/** Throws Stopped once the signal has fired. */
export function goOn(signal: AbortSignal): void {
  if (signal.aborted) throw new Stopped('the order was stopped')
}

/** Work that may be tried again: after each pause once more, while the fault says so. Throws the last fault. */
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
      if (!(error instanceof Fault) || !error.again || pause === undefined || signal.aborted) throw error
      say(`${error.message}; trying again in ${pause / 1000} s`)
      await wait(pause, signal)
    }
  }
}

/** Resolves after `ms`; throws Stopped when the signal fires. */
export function wait(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(new Stopped('the order was stopped'))
    const stop = () => {
      clearTimeout(timer)
      reject(new Stopped('the order was stopped'))
    }
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', stop)
      resolve()
    }, ms)
    signal.addEventListener('abort', stop, { once: true })
  })
}
