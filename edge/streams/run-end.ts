/** The end of a run as its readers know it: from the announcement, or from the row of a run that was found ended. */
import { parseLarge } from '../../bus/decode.js'
import type { Ending } from '../../bus/follow.js'
import { isTerminal } from '../../schemas/runs.js'
import type { Edge } from '../context.js'
import { fetchResult } from './run-result.js'

export type RunError = NonNullable<Ending['error']>

export interface RunEnd {
  /** Id of the last event; null: only that the run is over. */
  last: number | null
  status: string
  error: RunError | null
  /** The row's error may have to be fetched: a view and a peek do not carry it. */
  fetchError: boolean
}

/** Null while the run continues. A null row: the run was removed. */
export function endOfRow(row: { status: string; last_event_id: number | null } | null): RunEnd | null {
  if (row === null) return { last: null, status: 'removed', error: null, fetchError: false }
  const { status, last_event_id } = row
  if (!isTerminal(status)) return null
  return { last: last_event_id, status, error: null, fetchError: status === 'error' || status === 'timeout' }
}

export const announcedEnd = ({ status, last_event_id, error }: Ending): RunEnd => ({
  last: last_event_id,
  status,
  error,
  fetchError: false,
})

/** The error of an ended run. Null: it has none. Undefined: `signal` aborted. */
export async function fetchEndError(
  edge: Edge,
  run: string,
  signal: AbortSignal,
): Promise<RunError | null | undefined> {
  const body = await fetchResult(edge, run, `end-${run}`, signal)
  if (body === null) return undefined
  return parseLarge<{ __error__?: RunError }>(body).__error__ ?? null
}
