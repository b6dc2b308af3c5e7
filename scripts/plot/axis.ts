/** The axes of a plot: where a value is drawn, and which values have a label. */

export interface Axis {
  /** Position of a value, 0 to 1; values outside the axis are below 0 or above 1. */
  at(value: number): number
  /** Values that have a label, in increasing order. */
  ticks: readonly number[]
}

const STEPS = [1, 2, 2.5, 5, 10]

/** From zero, or from a lower value, to a round number at or above `most`; about `count` labels. */
export function linearAxis(least: number, most: number, count = 4): Axis {
  const from = Math.min(0, least)
  const span = most - from || 1
  const power = 10 ** Math.floor(Math.log10(span / count))
  const step = power * STEPS.find(one => one * power * count >= span * (1 - 1e-9))!
  const first = Math.floor(from / step)
  const last = Math.max(Math.ceil(most / step - 1e-9), first + 1)
  const ticks = Array.from({ length: last - first + 1 }, (_, i) => rounded((first + i) * step))
  return { at: value => (value - first * step) / ((last - first) * step), ticks }
}

/** From `least` to `most` without room beyond, for an axis of time. */
export function exactAxis(least: number, most: number, count = 6): Axis {
  const span = most - least || 1
  const { ticks } = linearAxis(0, span, count)
  const step = ticks[1]!
  const first = Math.ceil(least / step - 1e-9)
  const last = Math.floor(most / step + 1e-9)
  return {
    at: value => (value - least) / span,
    ticks: Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => rounded((first + i) * step)),
  }
}

/** Powers of ten from at or below `least` to at or above `most`; both must be positive. */
export function logAxis(least: number, most: number): Axis {
  const first = Math.floor(Math.log10(least) + 1e-9)
  const last = Math.max(Math.ceil(Math.log10(most) - 1e-9), first + 1)
  return {
    at: value => (Math.log10(value) - first) / (last - first),
    ticks: Array.from({ length: last - first + 1 }, (_, i) => rounded(10 ** (first + i))),
  }
}

/** Without the error of binary fractions. */
const rounded = (value: number): number => Number(value.toPrecision(12))

const compact = new Intl.NumberFormat('en-US', { notation: 'compact', maximumSignificantDigits: 3 })

/** Three significant digits, with K and M: 1,234 is "1.23K". */
export const labelOf = (value: number): string => compact.format(value)
