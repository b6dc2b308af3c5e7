/** Finds the encrypted values in what the store has read, and replaces them by what the handlers decrypt. */
import { jsonText, parseJson } from '../../../schemas/exact.js'
import { fromBytes, fromText, isTyped, plainType, type Sealed, unpacked } from './envelope.js'
import { CRON_KIND, METADATA, type TypedColumns, VALUE } from './steps.js'

/** An encrypted value, and where its plain form is put. */
export interface SealedCell {
  sealed: Sealed
  /** The row that it is in. */
  row: object
  put(plain: Uint8Array): void
}

/** Columns that may hold encrypted text: others are names that clients choose. */
const TEXTS: ReadonlySet<string> = new Set([
  ...['metadata', 'config', 'context', 'kwargs', 'interrupts', 'error', 'base', 'webhook', 'webhook_log', 'auth_user'],
  ...['body', 'value'],
])
const BYTES: ReadonlySet<string> = new Set(['values', 'rest', 'result'])

const decoder = new TextDecoder()

/** Finds the values of a row, a list of rows, a page of them, or a step; `kind` is that of the step around a row. */
export function sealedCells(read: unknown, found: SealedCell[] = [], kind?: unknown): SealedCell[] {
  if (Array.isArray(read)) for (const each of read) sealedCells(each, found, kind)
  else if (typeof read === 'object' && read !== null && !(read instanceof Uint8Array)) inRow(read, found, kind)
  return found
}

function inRow(row: object, found: SealedCell[], outer: unknown): void {
  const columns = row as { [column: string]: unknown }
  for (const each of [VALUE, METADATA]) typedCell(columns, each, found)
  const { kind = outer, body } = columns
  if (kind === CRON_KIND && typeof body === 'string') return inCron(columns as { body: string }, found)
  for (const [column, value] of Object.entries(columns)) {
    if (typeof value === 'string') {
      const sealed = TEXTS.has(column) ? fromText(value) : null
      const put = (plain: Uint8Array) => {
        columns[column] = decoder.decode(plain)
      }
      if (sealed !== null) found.push({ sealed, row, put })
    } else if (value instanceof Uint8Array) {
      const sealed = BYTES.has(column) ? fromBytes(value) : null
      const put = (plain: Uint8Array) => {
        columns[column] = plain
      }
      if (sealed !== null) found.push({ sealed, row, put })
    } else sealedCells(value, found, kind)
  }
}

/** The encrypted members of the body of a cron. */
function inCron(row: { body: string }, found: SealedCell[]): void {
  const body = parseJson(row.body) as { [member: string]: unknown }
  for (const [member, value] of Object.entries(body)) {
    const sealed = typeof value === 'string' ? fromText(value) : null
    const put = (plain: Uint8Array) => {
      body[member] = parseJson(decoder.decode(plain))
      row.body = jsonText(body)
    }
    if (sealed !== null) found.push({ sealed, row, put })
  }
}

function typedCell(columns: { [column: string]: unknown }, { type, value, size }: TypedColumns, found: SealedCell[]) {
  const stored = columns[type]
  if (typeof stored !== 'string' || !isTyped(stored)) return
  const bytes = columns[value]
  const restored = plainType(stored)
  // A page without values.
  if (!(bytes instanceof Uint8Array) || bytes.length === 0) return void (columns[type] = restored)
  const put = (plain: Uint8Array) => {
    columns[type] = restored
    columns[value] = plain
    if (size in columns) columns[size] = plain.length
  }
  found.push({ sealed: unpacked(bytes), row: columns, put })
}
