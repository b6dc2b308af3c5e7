/**
 * The finished state of a thread, stored beside its row and valid for the latest checkpoint of the thread; it decides the
 * status of the thread (docs/spec/threads.md#status). Only graph code can render it, so a host does.
 */
import { parseLarge } from '../../../bus/decode.js'
import { jsonText } from '../../../schemas/exact.js'
import { type Interrupt, interruptsOf, type ThreadState } from '../../../schemas/threads.js'
import type { StateRow, ThreadRow } from '../../../store/rows/threads.js'
import type { Deps } from '../context.js'
import { statusOf } from '../rows/thread-status.js'
import { askHost, authorOf } from './ask-graph.js'

interface Refreshed {
  row: ThreadRow
  state: StateRow | null
  /** No host could compute it now: `state` belongs to an earlier checkpoint, or is null. */
  stale?: true
}

/**
 * The finished state of the thread: the stored one if it belongs to the latest checkpoint, else a host computes it once
 * (after a rollback, or when the run that made the checkpoint never finished). Null when the thread has no checkpoint.
 * The row comes with it, because the computed state also decides the status of the thread. While a run executes, the state
 * that the last run left is enough, unless the caller wants the `newest`.
 */
export async function refreshState(
  deps: Deps,
  row: ThreadRow,
  kept: StateRow | null,
  { newest = false } = {},
): Promise<Refreshed> {
  if (row.latest_checkpoint_id === null) return { row, state: null }
  if (kept !== null && kept.latest_checkpoint_id === row.latest_checkpoint_id && kept.rest !== null)
    return { row, state: kept }
  if (row.active !== null && !newest && kept?.values) return { row, state: kept }
  const { app, thread_id, latest_checkpoint_id: head } = row
  const { graph_id } = await authorOf(deps, row)
  const text =
    graph_id === undefined
      ? null
      : await askHost(deps, { app, thread_id, graph_id, timeout: COMPUTE_MS }, STATE).catch(error => {
          deps.link.log.warn({ err: error, thread_id }, 'no host could compute the state of a thread')
          return null
        })
  if (text === null) return { row, state: kept, stale: true }
  const state = splitState(head, text)
  if (row.active !== null) return { row, state }
  const { next, interrupts } = readLeft(state.rest)
  const settled = settledOf(row.error, { next, interrupts }, row.settled)
  const set = { settled, status: statusOf({ ...row, settled }), interrupts: jsonText(interrupts) }
  const failed = await deps.store.apply([
    { step: 'threads.patch', thread_id, where: { rev: row.rev }, set },
    { step: 'threads.state', thread_id, ...state },
  ])
  return { row: failed === -1 ? { ...row, ...set, rev: row.rev + 1 } : row, state }
}

const COMPUTE_MS = 30_000
/** The question whose answer is the finished state. */
export const STATE = { verb: 'state', subgraphs: false } as const

/** The stored form of a ThreadState text: `values`, and the rest without its first brace. */
export function splitState(head: string, text: Uint8Array): StateRow & { values: Uint8Array; rest: Uint8Array } {
  const { values, ...rest } = parseLarge<ThreadState>(text)
  return {
    latest_checkpoint_id: head,
    values: Buffer.from(jsonText(values)),
    rest: Buffer.from(jsonText(rest).slice(1)),
  }
}

export function readLeft(rest: Uint8Array): { next: string[]; interrupts: { [task_id: string]: Interrupt[] } } {
  const { next, tasks } = parseLarge<ThreadState>(rest, '{')
  return { next, interrupts: interruptsOf(tasks) }
}

/**
 * The status of the thread once nothing runs: the table of docs/spec/threads.md#status, without `busy`. LangGraph leaves a
 * task out of `next` that has got one answer and asks again.
 */
export function settledOf(
  error: string | null,
  left: { next: string[]; interrupts: { [task_id: string]: unknown } } | null,
  before: ThreadRow['settled'],
) {
  if (error !== null && !isRefusedAnswer(error)) return 'error' as const
  if (left === null) return before === 'error' ? ('idle' as const) : before
  const waits = left.next.length > 0 || Object.keys(left.interrupts).length > 0
  return waits ? ('interrupted' as const) : ('idle' as const)
}

/**
 * Whether the run failed because it answered no interrupt that waits (`strict_resume`). It has changed nothing: the thread
 * stays as it was. `error`: the stored error of a run, as JSON text.
 */
export const isRefusedAnswer = (error: string | null): boolean =>
  error?.startsWith('{"error":"UnknownInterruptError"') === true
