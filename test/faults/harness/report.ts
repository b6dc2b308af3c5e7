/** docs/faults.json and the page that is made of it: rows that were executed replace theirs, the others stay. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Result, STORES, type StoreName } from './result.js'
import type { Row } from './row.js'

/** The content of docs/faults.json. */
export interface Kept {
  machine: string
  results: Result[]
}

const MARK = '<!-- results -->'
const NAMES: { [store in StoreName]: string } = { sqlite: 'SQLite', postgres: 'PostgreSQL', mongo: 'MongoDB' }

export const readResults = (folder: string): Kept => {
  const file = join(folder, 'faults.json')
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Kept) : { machine: '', results: [] }
}

/** Adds the results. The figures of a small load are kept until there are those of a larger one. */
export function merge(record: Kept, added: readonly Result[], machine: string): Kept {
  const same = (a: Result, b: Result) => a.number === b.number && a.store === b.store
  const results = [
    ...record.results.filter(old => !added.some(one => same(old, one) && old.size === one.size)),
    ...added,
  ]
    .filter((one, _, all) => one.size !== 'small' || !all.some(other => same(one, other) && other.size !== 'small'))
    .sort((a, b) => a.number - b.number || STORES.indexOf(a.store) - STORES.indexOf(b.store) || order(a) - order(b))
  return { machine, results }
}

const order = ({ size }: Result): number => (size === 'full' ? 1 : 0)

/** Writes both files; the text of the page outside its markers stays. */
export function writeResults(folder: string, page: string, rows: readonly Row[], record: Kept): void {
  writeFileSync(join(folder, 'faults.json'), `${JSON.stringify(record, null, 2)}\n`)
  writeFileSync(join(folder, 'faults.md'), pageOf(page, rows, record))
}

/** The page with these results between its markers. */
export function pageOf(page: string, rows: readonly Row[], record: Kept): string {
  const [before, , after] = page.split(MARK)
  if (after === undefined) throw new Error(`the page of results needs two lines "${MARK}"`)
  return [before, `\n${tableOf(rows, record)}\n`, after].join(MARK)
}

function tableOf(rows: readonly Row[], { machine, results }: Kept): string {
  const of = (number: number) => results.filter(one => one.number === number)
  const overview = rows.map(row => {
    const cell = (store: StoreName) => {
      const all = of(row.number).filter(one => one.store === store)
      if (all.length === 0) return row.oneStore !== undefined && store !== 'sqlite' ? 'as SQLite' : 'not run'
      const verdict = all.every(({ short }) => short.length === 0) ? 'held' : 'short'
      return all.some(({ size }) => size === 'full') ? verdict : `${verdict}, ${all[0]!.size} load`
    }
    return rowOf([`[${row.number}. ${row.name}](#${anchorOf(row)})`, ...STORES.map(cell)])
  })
  return [
    `The newest row was executed by ${machine} Older rows may come from another machine.`,
    '',
    rowOf(['row', ...STORES.map(store => NAMES[store])]),
    rowOf(['---', ...STORES.map(() => '---')]),
    ...overview,
    '',
    ...rows.flatMap(row => sectionOf(row, of(row.number))),
  ]
    .join('\n')
    .trimEnd()
}

function sectionOf(row: Row, results: readonly Result[]): string[] {
  const lines = [
    `## ${row.number}. ${row.name}`,
    '',
    `**Fault**: ${row.fault}`,
    '',
    `**Promised**: ${row.promised}`,
    '',
  ]
  if (row.oneStore !== undefined) lines.push(`On one store, unless it is selected: ${row.oneStore}.`, '')
  if (results.length === 0) return [...lines, 'Not run yet.', '']
  lines.push(rowOf(['store', 'load', 'measured', 'date, command']), rowOf(['---', '---', '---', '---']))
  for (const { store, server, load, measured, short, date, command, busy } of results) {
    const verdict = short.length === 0 ? 'Held.' : `**Short**: ${short.join('; ')}.`
    lines.push(
      rowOf([
        store === 'sqlite' ? NAMES[store] : `${NAMES[store]} (${server ?? 'server not noted'})`,
        load,
        [measured, verdict].filter(Boolean).join('. '),
        `${date}, load ${busy}, \`${command}\``,
      ]),
    )
  }
  return [...lines, '']
}

const anchorOf = ({ number, name }: Row): string =>
  `${number}. ${name}`
    .toLowerCase()
    .replaceAll(/[^\w\- ]/g, '')
    .replaceAll(' ', '-')

const rowOf = (cells: readonly string[]): string =>
  `| ${cells.map(cell => cell.replaceAll('|', '\\|').replaceAll('\n', ' ')).join(' | ')} |`
