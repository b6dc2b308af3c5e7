import { goOn } from './fault.js'

/** At most `most` pieces of work at once; the others wait in line, or throw Stopped when their signal fires. */
export function inLine(most: number): <T>(work: () => Promise<T>, signal: AbortSignal) => Promise<T> {
  let busy = 0
  const waiting = new Set<() => void>()
  const next = () => {
    const [first] = waiting
    first?.()
  }
  return async (work, signal) => {
    while (busy >= most) {
      await new Promise<void>(resolve => {
        const turn = () => {
          waiting.delete(turn)
          signal.removeEventListener('abort', turn)
          resolve()
        }
        waiting.add(turn)
        signal.addEventListener('abort', turn)
        if (signal.aborted) turn()
      })
      if (!signal.aborted) continue
      // It may have been its turn: the one behind it has it now.
      if (busy < most) next()
      goOn(signal)
    }
    busy++
    try {
      return await work()
    } finally {
      busy--
      next()
    }
  }
}
