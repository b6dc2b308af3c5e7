/** The rows of `npm run faults`, by the files of test/faults/rows: `clients` has what clients send and how they leave. */
import { readdirSync } from 'node:fs'
import type { Row } from './row.js'

/** The number of the row of random schedules: the last one. */
export const RANDOM_ROW = 99

export async function loadRows(): Promise<Row[]> {
  const folder = new URL('../rows/', import.meta.url)
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(file => file.endsWith('.js'))
  const rows = await Promise.all(
    files.map(async file => ((await import(new URL(file, folder).href)) as { row: Row }).row),
  )
  return rows.sort((a, b) => a.number - b.number)
}
