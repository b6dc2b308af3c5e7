/** The measurements of a row on a store. */

export const STORES = ['sqlite', 'postgres', 'mongo'] as const
export type StoreName = (typeof STORES)[number]

/** small: `--quick`. full: that of the promise, by `--long` or because the usual load is that already. */
export type Size = 'small' | 'usual' | 'full'

export interface Measured {
  /** The load that was applied, with its figures. */
  load: string
  /** The figures, as short text. */
  measured: string
}

/** The record in docs/faults.json of the last execution of a row on a store with a load of this size. */
export interface Result extends Measured {
  number: number
  store: StoreName
  /** The database server that answered, with its version; absent: there was none, or it was not noted. */
  server?: string
  /** Promises that fell short; empty: all were held. */
  short: string[]
  /** Day, as 2026-01-31. */
  date: string
  command: string
  size: Size
  seconds: number
  /** Load of the machine when the row began. */
  busy: number
}
