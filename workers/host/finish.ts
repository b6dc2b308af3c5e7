/** The end of a run in its host: computes the final state once and sends the finish frame. */

import type { FinishHead } from '../../schemas/host.js'
import { pack } from '../../schemas/packed.js'
import type { ThreadState } from '../../schemas/threads.js'
import type { SpanStatus } from '../../schemas/trace.js'
import { FROM_HOST } from '../pipe.js'
import { failureOf, frameOf, placeOf } from './failure.js'
import type { Graph, Snapshot } from './library/types.js'
import { LARGEST_STATE, StateTooLarge } from './limits.js'
import type { Host } from './port.js'
import { errorOf, render } from './render.js'
import type { RunState } from './run-state.js'
import { jsonInterruptsOf, stateOf } from './state.js'
import type { Ended } from './streaming/subgraphs.js'

/** The receiver rejects a larger finish frame as invalid. */
const LARGEST = 250 * 1024 * 1024
const NOTHING = new Uint8Array(0)

/** The outcome of a run. */
export interface Outcome extends Pick<FinishHead, 'status'>, Partial<Pick<FinishHead, 'error' | 'at'>> {
  /** The error that graph code threw, for the log. */
  thrown?: unknown
}

/** Computes the final state of the run once and ends the run. */
export async function settle(run: RunState, outcome: Outcome): Promise<void> {
  let values = '{}'
  let rest = ''
  let state: ThreadState | null = null
  let interrupts: FinishHead['interrupts'] = {}
  // Writes after the store refused a save are not stored: the run reports no state, and the thread keeps its stored
  // state.
  if (run.saver?.outbox.isBroken()) return finish(run, outcome)
  try {
    if (run.saver !== null || run.values === null || run.paused) state = await stateAtEnd(run)
    values = render(state?.checkpoint ? state.values : (run.values?.last ?? {}))
    if (run.saver !== null && state !== null) rest = restOf(state)
    interrupts = jsonInterruptsOf(state?.tasks ?? [])
  } catch (error) {
    if (outcome.status === 'success') outcome = { status: 'error', error: errorOf(error) }
  }
  if (outcome.thrown !== undefined) {
    const frame = frameOf(outcome.thrown, run.host.application.folders)
    const failure = failureOf(run, outcome.thrown, { state, frame })
    outcome = { ...outcome, at: frame === null ? null : placeOf(frame) }
    run.host.send({ kind: FROM_HOST.failed, slot: run.slot, body: Buffer.from(JSON.stringify(failure)) })
  }
  const interrupts_only = isEntrypoint(run.graph) && Object.keys(interrupts).length > 0
  await finish(run, outcome, { values, rest, next: state?.next, interrupts, interrupts_only })
}

/**
 * The output of an entrypoint (functional API) is what it returned last. A run that stops at an interrupt has returned
 * nothing yet.
 */
const isEntrypoint = (graph: Graph | null): boolean => graph?.outputChannels === '__end__'

async function stateAtEnd({ graph, start, saver }: RunState): Promise<ThreadState | null> {
  if (graph === null) return null
  const snapshot: Snapshot = await graph.getState({ configurable: { thread_id: start.thread_id } })
  return saver === null && snapshot.createdAt === undefined ? null : stateOf(snapshot)
}

/** The ThreadState without its first member. */
function restOf({ values: _, ...rest }: ThreadState): string {
  return render(rest).slice(1)
}

interface Left {
  values?: string
  rest?: string
  next?: string[]
  interrupts?: FinishHead['interrupts']
  interrupts_only?: boolean
}

export async function finish(run: RunState, outcome: Outcome, left: Left = {}): Promise<void> {
  run.ended = true
  const save = (await run.saver?.outbox.take()) ?? NOTHING
  // The save in flight can also fail.
  if (run.lost) {
    run.spans?.drop()
    run.events.flush()
    return send(run, headOf(run, { status: 'interrupted' }, {}), [])
  }
  if (run.broken !== null && outcome.status === 'success')
    outcome = { status: 'error', error: errorOf(run.broken.error) }
  const parts = [Buffer.from(left.values ?? ''), Buffer.from(left.rest ?? ''), save]
  const excess = excessOf(parts)
  if (excess !== null) outcome = { status: 'error', error: errorOf(excess) }
  const isWhole = excess === null && !run.saver?.outbox.isBroken()
  const ended = endedOf(outcome, left)
  run.lifecycle?.end(ended, outcome.error)
  if (outcome.error) run.events.push('error', render(outcome.error))
  run.v2?.end(ended, outcome.error?.message)
  run.spans?.end(spanStatusOf(outcome, ended), outcome.error?.message)
  run.events.flush()
  if (isWhole) return send(run, headOf(run, outcome, left), parts)
  // Reports nothing about a state that is not stored, not even the id of the newest checkpoint.
  send(run, { ...headOf(run, outcome, {}), head: null }, [])
}

/** Returns the name of the outcome in protocol v2. */
function endedOf({ status }: Outcome, { next = [], interrupts = {} }: Left): Ended {
  if (status === 'success') return next.length > 0 || Object.keys(interrupts).length > 0 ? 'interrupted' : 'completed'
  return status === 'interrupted' ? 'interrupted' : 'failed'
}

function spanStatusOf({ status }: Outcome, ended: Ended): SpanStatus {
  if (ended === 'interrupted') return status === 'success' ? 'interrupted' : 'cancelled'
  return ended === 'completed' ? 'ok' : 'error'
}

function excessOf(parts: readonly Uint8Array[]): StateTooLarge | null {
  const values = parts[0]!.length
  if (values > LARGEST_STATE) return new StateTooLarge('The values of the state', values)
  const all = parts.reduce((sum, part) => sum + part.length, 0)
  return all > LARGEST ? new StateTooLarge('The state and what is left to be saved', all) : null
}

const headOf = (
  { events, saver, feedback }: RunState,
  { status, error, at }: Outcome,
  left: Left,
): Omit<FinishHead, 'values_size' | 'rest_size' | 'save_size'> => ({
  status,
  error: error ?? null,
  ...(at ? { at } : {}),
  last_event_id: events.lastId(),
  head: saver?.head() ?? null,
  next: left.next ?? [],
  interrupts: left.interrupts ?? {},
  ...(left.interrupts_only && { interrupts_only: true }),
  ...(feedback !== null && status === 'success' ? { feedback } : {}),
})

function send({ host, slot }: RunState, head: ReturnType<typeof headOf>, parts: Uint8Array[]): void {
  const [values_size = 0, rest_size = 0, save_size = 0] = parts.map(part => part.length)
  const body = pack({ ...head, values_size, rest_size, save_size } satisfies FinishHead, parts)
  host.send({ kind: FROM_HOST.finish, slot, body })
}

/** The finish of a run that reports no state, because it could not be read or its finish failed. -1: it sent no event. */
export function sendBare(host: Host, slot: number, error: unknown, last_event_id = -1): void {
  const sizes = { values_size: 0, rest_size: 0, save_size: 0 }
  const head = { status: 'error' as const, error: errorOf(error), last_event_id, head: null, next: [], interrupts: {} }
  host.send({ kind: FROM_HOST.finish, slot, body: pack({ ...head, ...sizes } satisfies FinishHead) })
}
