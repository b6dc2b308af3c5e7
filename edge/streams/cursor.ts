/** Where a joined stream begins (docs/spec/streams.md#join). No text of a client is an error. */

/** `start`: everything stored; a number: strictly after it; null: nothing usable was given, the run's default applies. */
export type Cursor = 'start' | number | null

/** Where a client wants to begin. */
export interface Beginning {
  cursor: Cursor
  /** It shows the state of this checkpoint already; null: of none, or the cursor says more. */
  checkpoint: string | null
}

export function readBeginning(header: string, query: URLSearchParams): Beginning {
  const cursor = readCursor(header, query)
  return { cursor, checkpoint: cursor === 'start' ? query.get('checkpoint_id') || null : null }
}

/** The header `Last-Event-ID` wins over the query parameter. Foreign text sorts after the end, so it counts as absent. */
export function readCursor(header: string, query: URLSearchParams): Cursor {
  const text = (header || query.get('last_event_id') || '').trim()
  if (text === '-1' || text === '-') return 'start'
  if (!/^\d{1,15}$/.test(text)) return null
  return Number(text)
}
