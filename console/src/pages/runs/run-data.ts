/** Runs as the API returns them, with what Weft adds. */
import type { Run as SdkRun } from '@langchain/langgraph-sdk'
import { ask, askPage, Refusal } from '../../api/client'
import { conditionsOf, type Filter } from './filter'

export interface Run extends Omit<SdkRun, 'kwargs' | 'metadata'> {
  metadata: { [name: string]: unknown }
  error?: { error: string; message: string; at?: Place } | null
}

/** The innermost frame of an error in the folder of the application. */
export interface Place {
  file: string
  line: number
  function: string | null
}

export interface Kwargs {
  input: unknown
  command: object | null
  config: { configurable?: { [name: string]: unknown }; metadata?: unknown; [name: string]: unknown }
  context: unknown
  stream_mode: string[]
  stream_subgraphs: boolean
  resumable: boolean
  durability: string
  /** Made without a thread: what it leaves is removed soon after its end. */
  temporary: boolean
  interrupt_before: unknown
  interrupt_after: unknown
  webhook: string | null
  strict_resume?: boolean
}

export type WholeRun = Run & { kwargs: Kwargs }

/** Answer of `/runs/{id}/execution`. */
export interface Execution {
  attempt: number
  pool: string
  worker: string | null
  started_at: string | null
  ended_at: string | null
  trace_id: string | null
  waits_for: RunWait | null
}

/** Why a pending run has not begun. */
export interface RunWait {
  reason: 'time' | 'thread' | 'worker' | 'limit' | 'rate' | 'slot'
  until?: string
  run_id?: string
  of?: string
  running?: number
  most?: number
}

/** Not the input, which may be large. */
const SHOWN = [
  'run_id',
  'thread_id',
  'assistant_id',
  'created_at',
  'updated_at',
  'status',
  'metadata',
  'cancel_reason',
  'error',
]
/** Searches for one page: each looks at some thousand runs. */
const LOOKS = 5
const MOST = 1_000

export interface RunPage {
  rows: Run[]
  /** Null: there are no older runs. */
  next: string | null
}

interface Wanted {
  size: number
  cursor?: string | null
  signal?: AbortSignal
}

/** The next runs, newest first. They may be fewer than wanted before the end. */
export async function searchRuns(filter: Filter, { size, cursor = null, signal }: Wanted): Promise<RunPage> {
  const rows: Run[] = []
  let next = cursor
  for (let look = 0; look < LOOKS && rows.length < size; look++) {
    const limit = Math.min(MOST, size - rows.length)
    const body = { ...conditionsOf(filter), limit, select: SHOWN, ...(next === null ? {} : { cursor: next }) }
    const page = await askPage<Run>('/runs/search', { method: 'POST', body, signal })
    rows.push(...page.rows)
    next = page.next
    if (next === null) break
  }
  return { rows, next }
}

/** Whether the search that gave this cursor has not looked at the run yet. */
export function isBeyond({ created_at, run_id }: Run, cursor: string): boolean {
  const [time, id] = cursor.split('_') as [string, string]
  const older = Number(time) - Date.parse(created_at)
  return older > 0 || (older === 0 && run_id < id)
}

/** With its input. A run without a thread that has ended is found by a search only. */
export async function wholeRun(threadId: string, runId: string, signal?: AbortSignal): Promise<WholeRun> {
  try {
    return await ask<WholeRun>(`/runs/${runId}`, { signal })
  } catch (error) {
    if (!(error instanceof Refusal && error.status === 404)) throw error
    const body = { thread_id: threadId, with_thread: false }
    const found = await ask<WholeRun[]>('/runs/search', { method: 'POST', body, signal })
    const run = found.find(({ run_id }) => run_id === runId)
    if (run === undefined) throw error
    return run
  }
}

export const hasEnded = ({ status }: Run): boolean => status !== 'pending' && status !== 'running'

export const graphOf = ({ metadata }: Run): string => (typeof metadata.graph_id === 'string' ? metadata.graph_id : '–')

/** "KeyError: 'order'". */
export const errorTextOf = ({ error, message }: NonNullable<Run['error']>): string =>
  message === '' ? error : `${error}: ${message}`
