/** Records as they are first written, and iteration over all records of a query. */
import { BUILT_IN_APP } from '../../../schemas/ids.js'
import type { RecordQuery, RecordRow, Store } from '../../../store/port.js'

/** A record as it is first written. */
export const newRecord = (kind: string, id: string, more: Partial<RecordRow> & { body: string }): RecordRow => {
  const now = Date.now()
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

const BATCH = 500

/** Every record of the query, newest first, read in batches. */
export async function* each(store: Store, query: Omit<RecordQuery, 'limit' | 'after'>): AsyncIterable<RecordRow> {
  let after: RecordRow | undefined
  for (;;) {
    const rows: RecordRow[] = await store.records.list({
      ...query,
      ...(after === undefined ? {} : { after }),
      limit: BATCH,
    })
    yield* rows
    after = rows.at(-1)
    if (after === undefined || rows.length < BATCH) return
  }
}
