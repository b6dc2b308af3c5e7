/** What a row measured on a store. */

export const STORES = ['sqlite', 'mongo'] as const
export type StoreName = (typeof STORES)[number]

export interface Measured {
  /** The load that was applied, with its figures. */
  load: string
  /** The figures, as short text. */
  measured: string
}

/** What docs/faults.json keeps of the last execution of a row on a store. */
export interface Result extends Measured {
  number: number
  store: StoreName
  /** What fell short; empty: the promise was held. */
  short: string[]
  /** Day, as 2026-01-31. */
  date: string
  command: string
  /** The load of `--quick`. */
  quick: boolean
  seconds: number
  /** Load of the machine when the row began. */
  busy: number
}
