/**
 * The finished state of a thread, kept beside it while its head stands; what it says decides the thread's status
 * (API: threads-and-runs 4). Only graph code can render it, so a host does.
 */
import { fail } from '../../../schemas/errors.js'
import { token } from '../../../schemas/ids.js'
import { isObject } from '../../../schemas/json.js'
import { host } from '../../../schemas/subjects.js'
import { type Interrupt, interruptsOf, type ThreadState } from '../../../schemas/threads.js'
import type { StateRow, ThreadRow } from '../../../store/port.js'
import type { Deps } from '../context.js'
import { statusOf } from '../rows/thread-status.js'

/**
 * The finished state of the thread: what is kept while it is of the thread's head, else a host computes it once (after
 * a rollback, or when the run that made the head never finished). Null when the thread has no checkpoint.
 */
export const projection = async (deps: Deps, row: ThreadRow, kept: StateRow | null): Promise<StateRow | null> =>
  (await refreshed(deps, row, kept)).state

export interface Refreshed {
  row: ThreadRow
  state: StateRow | null
  /** No host could say it now: `state` is of an earlier checkpoint, or nothing. */
  stale?: true
}

/** As `projection`; the row with it, because what a host computes decides the status of the thread, too. */
export async function refreshed(deps: Deps, row: ThreadRow, kept: StateRow | null): Promise<Refreshed> {
  if (row.head === null) return { row, state: null }
  if (kept !== null && kept.head === row.head && kept.rest !== null) return { row, state: kept }
  // A run is under way: what the last one left is the last known state.
  if (row.active !== null && kept?.values) return { row, state: kept }
  const { app, thread_id, head } = row
  const graph_id = graphOf(row)
  const text =
    graph_id === null
      ? null
      : await computed(deps, { app, thread_id, graph_id, subgraphs: false }).catch(error => {
          deps.link.log.warn({ err: error, thread_id }, 'no host could compute the state of a thread')
          return null
        })
  if (text === null) return { row, state: kept, stale: true }
  const state = splitState(head, text)
  if (row.active !== null) return { row, state }
  const { next, interrupts } = readLeft(state.rest)
  const settled = settledOf(row.error, { next }, row.settled)
  const set = { settled, status: statusOf({ ...row, settled }), interrupts: JSON.stringify(interrupts) }
  const failed = await deps.store.apply([
    { step: 'threads.patch', thread_id, where: { rev: row.rev }, set },
    { step: 'threads.state', thread_id, ...state },
  ])
  return { row: failed === -1 ? { ...row, ...set, rev: row.rev + 1 } : row, state }
}

/** The graph that ran last on the thread; null when none has. */
export function graphOf(row: ThreadRow): string | null {
  const metadata: unknown = JSON.parse(row.metadata)
  return isObject(metadata) && typeof metadata.graph_id === 'string' ? metadata.graph_id : null
}

interface Asked {
  app: string
  thread_id: string
  graph_id: string
  subgraphs: boolean
  /** Time to answer in. */
  ms?: number
}

/** The ThreadState of the thread as a host renders it, as JSON text. Throws `unavailable` when nobody can now. */
export async function computed(
  { caller, apps }: Deps,
  { app, thread_id, graph_id, subgraphs, ms = 30_000 }: Asked,
): Promise<Uint8Array> {
  const call = { verb: 'state', graph_id, thread_id, subgraphs, config: {} }
  const pool = await apps.pool(app, graph_id)
  if (pool === null) throw fail('unavailable', `Nobody serves the graph "${graph_id}" at the moment`)
  const head = { request_id: '' }
  return (
    await caller.ask(host(token('pool', pool), 'state'), head, Buffer.from(JSON.stringify(call)), { timeout: ms })
  ).body
}

/** The kept form of a ThreadState text: `values`, and the rest without its first brace. */
export function splitState(head: string, text: Uint8Array): StateRow & { values: Uint8Array; rest: Uint8Array } {
  const { values, ...rest } = JSON.parse(Buffer.from(text).toString()) as ThreadState
  return { head, values: Buffer.from(JSON.stringify(values)), rest: Buffer.from(JSON.stringify(rest).slice(1)) }
}

export function readLeft(rest: Uint8Array): { next: string[]; interrupts: { [task_id: string]: Interrupt[] } } {
  const { next, tasks } = JSON.parse(`{${Buffer.from(rest).toString()}`) as ThreadState
  return { next, interrupts: interruptsOf(tasks) }
}

/** What is the thread's status once nothing runs: the table of API threads-and-runs 4, without `busy`. */
export function settledOf(error: string | null, left: { next: string[] } | null, before: ThreadRow['settled']) {
  if (error !== null) return 'error' as const
  if (left !== null) return left.next.length > 0 ? ('interrupted' as const) : ('idle' as const)
  return before === 'error' ? ('idle' as const) : before
}
