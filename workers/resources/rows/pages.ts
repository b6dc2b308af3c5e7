/** Reading all rows of a query page by page, so that memory does not grow with their number. */
import { setImmediate as turn } from 'node:timers/promises'

/** Milliseconds of work before it yields to the event loop. */
const SLICE_MS = 5

/** To be awaited in a loop over rows: lets other work run when the loop has held the event loop for 5 ms. */
export function openPause(): () => Promise<void> | undefined {
  let since = performance.now()
  return () => {
    if (performance.now() - since < SLICE_MS) return
    return turn().then(() => void (since = performance.now()))
  }
}

/** Each page is read after the last row of the one before. A page with fewer than `size` rows is the last one. */
export async function* pages<Row>(
  read: (after: Row | undefined) => Promise<Row[]>,
  size = 1,
): AsyncGenerator<Row[], void> {
  for (let after: Row | undefined; ; ) {
    const rows = await read(after)
    if (rows.length > 0) yield rows
    if (rows.length < size) return
    after = rows.at(-1)
  }
}

/** All rows at once, for rows that are small. */
export async function collect<Row>(read: (after: Row | undefined) => Promise<Row[]>, size = 1): Promise<Row[]> {
  const all: Row[] = []
  for await (const rows of pages(read, size)) for (const row of rows) all.push(row)
  return all
}
