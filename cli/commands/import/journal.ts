/**
 * The rows that an import has brought, one JSON line each, appended before and after each: an import that was stopped continues
 * where it was, and knows the row that it may have left half made.
 */
import { appendFileSync, readFileSync } from 'node:fs'
import { UserError } from '../../user-error.js'

export type Kind = 'assistants' | 'threads' | 'items' | 'crons'
/** Takes the place of the id: the rows of a kind could not be listed. */
export const ALL = '*'

/** The part of a row that stayed behind, and why. `refused`: all of it. */
export interface NotBrought {
  kind: Kind
  id: string
  reason: string
  refused: boolean
}

/** `id` at the source; `made`: its id here, when that differs; `note`: what was lost. */
interface Line {
  source?: string
  target?: string
  kind?: Kind
  id?: string
  state?: 'begun' | 'done' | 'failed' | 'listed'
  made?: string
  note?: string
}

export interface Journal {
  has(kind: Kind, id: string): boolean
  /** It was begun by an earlier import that did not report its end. */
  isHalf(kind: Kind, id: string): boolean
  begin(kind: Kind, id: string): void
  done(kind: Kind, id: string, more?: { made?: string; note?: string }): void
  failed(kind: Kind, id: string, note: string): void
  /** The rows of the kind could be listed: an earlier failure to do so is over. */
  listed(kind: Kind): void
  /** In the order in which the rows were brought. */
  notBrought(kinds: readonly Kind[]): NotBrought[]
  /** Reports for every kind in it, and for `kinds`. */
  counts(kinds: readonly Kind[]): {
    [kind in Kind]?: { done: number; failed: number; notes: { [note: string]: number } }
  }
}

/** Throws a UserError when the file belongs to another import, or cannot be read and written. */
export function openJournal(file: string, source: string, target: string): Journal {
  const rows = new Map<string, Line>()
  const keyOf = (kind: Kind, id: string) => `${kind} ${id}`
  const lines = linesOf(file)
  for (const text of lines) {
    const line = lineOf(text)
    const to = line?.target ?? target
    if (line?.source !== undefined && (line.source !== source || to !== target))
      throw new UserError(`${file} belongs to an import from ${line.source} to ${to}: give another --state`, 2)
    if (line?.kind !== undefined && line.id !== undefined) rows.set(keyOf(line.kind, line.id), line)
  }
  function write(line: Line): void {
    appendFileSync(file, `${JSON.stringify(line)}\n`)
    if (line.kind !== undefined && line.id !== undefined) rows.set(keyOf(line.kind, line.id), line)
  }
  // A line that was cut by a crash ends here.
  if ((lines.at(-1) ?? '') !== '') appendFileSync(file, '\n')
  if (rows.size === 0) write({ source, target })
  return {
    has: (kind, id) => rows.get(keyOf(kind, id))?.state === 'done',
    isHalf: (kind, id) => rows.get(keyOf(kind, id))?.state === 'begun',
    begin: (kind, id) => write({ kind, id, state: 'begun' }),
    done: (kind, id, more = {}) => write({ kind, id, state: 'done', ...more }),
    failed: (kind, id, note) => write({ kind, id, state: 'failed', note }),
    listed(kind) {
      if (rows.has(keyOf(kind, ALL))) write({ kind, id: ALL, state: 'listed' })
    },
    notBrought(kinds) {
      return [...rows.values()].flatMap(({ kind, id, state, note }) =>
        kind === undefined || !kinds.includes(kind) || !(state === 'failed' || (state === 'done' && note !== undefined))
          ? []
          : [{ kind, id: id!, reason: note ?? '', refused: state === 'failed' }],
      )
    },
    counts(kinds) {
      const counts: ReturnType<Journal['counts']> = {}
      for (const kind of kinds) counts[kind] = { done: 0, failed: 0, notes: {} }
      for (const { kind, state, note } of rows.values()) {
        if (kind === undefined || (state !== 'done' && state !== 'failed')) continue
        const count = (counts[kind] ??= { done: 0, failed: 0, notes: {} })
        count[state]++
        if (note !== undefined) count.notes[note] = (count.notes[note] ?? 0) + 1
      }
      return counts
    },
  }
}

/** The file is made when it does not exist, so that an import does not begin that cannot note its rows. */
function linesOf(file: string): string[] {
  try {
    appendFileSync(file, '')
    return readFileSync(file, 'utf8').split('\n')
  } catch (error) {
    throw new UserError(`--state ${file} cannot be written: ${(error as Error).message}`, 2)
  }
}

function lineOf(text: string): Line | null {
  try {
    return JSON.parse(text) as Line
  } catch {
    return null
  }
}
