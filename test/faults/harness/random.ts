/** Repeatable random numbers: the same seed, the same schedule of faults. */
export interface Random {
  seed: number
  /** From 0 up to 1. */
  next(): number
  /** A whole number of the interval, its ends included. */
  between(least: number, most: number): number
  pick<T>(all: readonly T[]): T
}

/** The generator "mulberry32": 32 bits of state, good enough for schedules. */
export function randomOf(seed: number): Random {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = Math.imul(state ^ (state >>> 15), state | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
  const between = (least: number, most: number) => least + Math.floor(next() * (most - least + 1))
  return { seed, next, between, pick: all => all[between(0, all.length - 1)]! }
}
