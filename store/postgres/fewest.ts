/** Which condition of a list few rows meet: those rows are followed and sorted, instead of the order of the list. */
import type { Param, Query } from './connection.js'

/** If at most this many rows match, the list starts from the condition. */
export const FEW = 2_000
/** Rows of each condition that are counted first: the rows of a common condition are not counted beside a rare one. */
export const RARE = 32

/** A query without a limit and an order, and its parameters. It may find a row twice, and need not read all of them first. */
export interface Narrow {
  text: string
  params: Param[]
}

/** The query that finds the fewest rows, or null if there is no query, or if each finds more rows than the last of the limits. */
export async function fewest(
  query: Query,
  narrows: readonly Narrow[],
  limits: readonly number[] = [RARE, FEW],
): Promise<Narrow | null> {
  for (const limit of limits) {
    let best: Narrow | null = null
    let least = limit
    for (const narrow of narrows) {
      const { rows } = await query(`SELECT count(*) FROM (${narrow.text} LIMIT ?) AS found`, [
        ...narrow.params,
        least + 1,
      ])
      const count = rows[0]![0] as number
      if (count > least) continue
      best = narrow
      least = count
    }
    if (best !== null) return best
  }
  return null
}
