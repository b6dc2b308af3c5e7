/** Records: as they are first inserted, all of a query, and settings that are made once per store. */
import { jsonText } from '../../../schemas/exact.js'
import { BUILT_IN_APP } from '../../../schemas/ids.js'
import type { Store } from '../../../store/port.js'
import type { RecordQuery, RecordRow } from '../../../store/rows/records.js'
import { clock } from '../clock.js'
import { pages } from './pages.js'

/** A record as it is first inserted. */
export const newRecord = (kind: string, id: string, more: Partial<RecordRow> & { body: string }): RecordRow => {
  const now = clock.now()
  return {
    kind,
    app: BUILT_IN_APP,
    id,
    parent: '',
    name: null,
    rev: 0,
    keys: [],
    due_at: null,
    created_at: now,
    updated_at: now,
    ...more,
  }
}

const PAGE = 500

/** Every record of the query, newest first unless the query sets another order. */
export async function* each(store: Store, query: Omit<RecordQuery, 'limit' | 'after'>): AsyncIterable<RecordRow> {
  const read = (after: RecordRow | undefined) => store.records.list({ ...query, after, limit: PAGE })
  for await (const rows of pages(read, PAGE)) yield* rows
}

/** Skips `offset` matching rows and takes `limit`; the answered `offset` is the start of the next page. */
export async function readPage(
  rows: AsyncIterable<RecordRow>,
  matches: (row: RecordRow) => boolean,
  { limit, offset }: { limit: number; offset: number },
): Promise<{ rows: RecordRow[]; offset: number }> {
  const found: RecordRow[] = []
  let skipped = 0
  for await (const row of rows) {
    if (!matches(row)) continue
    if (skipped < offset) skipped++
    else if (found.push(row) === limit) break
  }
  return { rows: found, offset: offset + found.length }
}

/**
 * The setting of this id. The first worker on the store makes it; workers that start at the same time all get the value
 * that was inserted first. `mine`: it is the value that this call made.
 */
export async function onceInStore<T>(store: Store, id: string, make: () => T): Promise<{ value: T; mine: boolean }> {
  const read = async () => {
    const row = await store.records.get('setting', id)
    return row === null ? null : (JSON.parse(row.body) as T)
  }
  const stored = await read()
  if (stored !== null) return { value: stored, mine: false }
  const value = make()
  const row = newRecord('setting', id, { body: jsonText(value) })
  if ((await store.apply([{ step: 'records.insert', row }])) === -1) return { value, mine: true }
  return { value: (await read())!, mine: false }
}
