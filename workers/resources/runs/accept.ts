/**
 * Accepting a run: its row, its position in the queue of its thread, the runs that it ends. A crash may leave any prefix
 * of the steps behind; a repeat of the same create, or the sweeper, does the rest.
 */

import { keysOf } from '../../../schemas/contains.js'
import { fail } from '../../../schemas/errors.js'
import { jsonText, parseJson } from '../../../schemas/exact.js'
import { isObject, type JsonObject, merge } from '../../../schemas/json.js'
import type { Store } from '../../../store/port.js'
import type { RecordRow } from '../../../store/rows/records.js'
import type { RunRow } from '../../../store/rows/runs.js'
import type { ThreadRow } from '../../../store/rows/threads.js'
import type { Step } from '../../../store/steps.js'
import { type Access, sees } from '../access.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import { newThread } from '../rows/thread.js'
import { firstEligible } from '../rows/thread-status.js'
import { defaultTtl } from '../rows/thread-ttl.js'
import { checkpointFor } from './claimed.js'
import { claimEarly, claimStep, type EarlyClaim, handOver } from './hand-over.js'
import { ownsKey, removeKey } from './idempotency.js'
import { type Decision, decide, dropSteps, followUp } from './multitask.js'
import { resumeFault } from './refusal.js'
import { repair } from './repair.js'
import { wakeRun } from './wake.js'

/**
 * first: it may start now. started: a graph worker has it already. waits: it is queued behind other runs, or delayed. known: a repeat of an accepted create.
 * taken: another create has its Idempotency-Key.
 */
export type Outcome = 'first' | 'started' | 'waits' | 'known' | 'taken'

/** A stateless run brings its own thread row, so there is nothing to compare. */
export async function acceptNew(
  deps: Deps,
  run: RunRow,
  record: RecordRow | null = null,
  more: JsonObject = {},
): Promise<Outcome> {
  const { store } = deps
  const metadata = { ...more, graph_id: run.graph_id, assistant_id: run.assistant_id }
  const ttl = run.temporary ? null : await defaultTtl(deps.settings, run.app)
  const waiting: ThreadRow = {
    ...newThread({
      app: run.app,
      thread_id: run.thread_id,
      metadata: jsonText(metadata),
      temporary: run.temporary,
      ttl,
    }),
    status: 'busy',
    queue: [{ run_id: run.run_id, position: 0, due_at: run.due_at }],
    next_position: 1,
  }
  markReady(deps, run, true)
  const claim = await claimEarly(deps, run, waiting)
  const row = { ...waiting, ...claim?.rows.thread }
  // A hidden thread is never searched for.
  const keys = run.temporary ? [] : keysOf(metadata)
  const steps: Step[] = [
    { step: 'runs.insert', row: run },
    ...keySteps(record),
    { step: 'threads.insert', row, keys },
    claim === null ? showStep(run) : claimStep(run, claim),
  ]
  const failed = await applyClaim(deps, steps, claim)
  if (failed === -1 && claim !== null) {
    handOver(deps, run, claim, null)
    return 'started'
  }
  const at = steps[failed]?.step
  if (at === 'records.insert') return dropLoser(store, run)
  // The thread exists: a create of the same run crashed after this step.
  if (at === 'threads.insert') return (await store.apply([showStep(run)])) === -1 ? 'first' : 'known'
  return failed === -1 ? 'first' : 'known'
}

/**
 * Applies the steps of a create. When they fail, the slot of its claim is free again, and what a store without
 * transactions has kept of the claim is undone.
 */
async function applyClaim(deps: Deps, steps: Step[], claim: EarlyClaim | null): Promise<number> {
  const { store } = deps
  const failed = await store.apply(steps).catch(error => {
    claim?.slot.release()
    throw error
  })
  if (failed === -1 || claim === null) return failed
  claim.slot.release()
  const { thread_id, run_id, token } = claim.rows.lease
  const held = await store.threads.get(null, thread_id)
  if (held?.active?.token === token) await repair(deps, held, run_id)
  return failed
}

/** After the run row: dropOrphan removes both when the create is never accepted. */
const keySteps = (row: RecordRow | null): Step[] => (row === null ? [] : [{ step: 'records.insert', row }])

async function dropLoser(store: Store, { run_id }: RunRow): Promise<'taken'> {
  await store.apply([{ step: 'runs.remove', run_id, where: { status: ['accepting'] } }])
  return 'taken'
}

export interface Conditions {
  /** Creates the thread when it does not exist; else that is not_found. */
  mayCreate: boolean
  /** Metadata of the thread if this creates it. */
  metadata: JsonObject
  /** The thread must be visible. */
  access: Access
  /** Throws when the thread is not in the state that the caller requires. The row that it checked is the one that takes the run. */
  expects?: Expects | undefined
}

export type Expects = (thread: ThreadRow) => void

/** One compare-and-set on the thread row takes the multitask decision and the position in the queue. */
export async function accept(
  deps: Deps,
  run: RunRow,
  { mayCreate, metadata: given, access, expects }: Conditions,
  record: RecordRow | null,
): Promise<Outcome> {
  const { store } = deps
  for (let key = record; ; ) {
    const thread = await store.threads.get(run.app, run.thread_id)
    if (thread === null ? !mayCreate : thread.temporary || !sees(access, thread.metadata))
      throw fail('not_found', `Thread with ID ${run.thread_id} not found`)
    const base =
      thread ??
      newThread({
        app: run.app,
        thread_id: run.thread_id,
        metadata: jsonText(given),
        ttl: await defaultTtl(deps.settings, run.app),
      })
    const decision: Decision = await decide(deps, run, base)
    if (decision.known) {
      const outcome = await acceptAgain(deps, decision, run, base)
      if (outcome === null) continue
      return outcome
    }
    expects?.(base)
    const stored: unknown = parseJson(base.metadata)
    const ids = { graph_id: run.graph_id, assistant_id: run.assistant_id }
    const merged = merge(isObject(stored) ? stored : null, ids)
    const metadata = jsonText(merged)
    const isNew = thread === null || metadata !== thread.metadata
    // The type rejects a misspelled column, which an adapter would not write.
    const set: Partial<ThreadRow> = {
      queue: decision.queue,
      next_position: base.next_position + 1,
      status: 'busy',
      updated_at: run.created_at,
      ...(isNew ? { metadata } : {}),
    }
    const keys = isNew ? { keys: keysOf(merged) } : {}
    const first = base.active === null ? firstEligible(decision.queue, run.created_at) : null
    const isFirst = first?.run_id === run.run_id
    markReady(deps, run, isFirst)
    // One that waits is asked when it is claimed: the runs before it may change what the thread waits for.
    const fault = isFirst ? await resumeFault(deps, base, run) : null
    if (fault !== null) throw fail('conflict', fault)
    const claim = isFirst ? await claimEarly(deps, run, { ...base, ...set }) : null
    const columns = { ...set, ...claim?.rows.thread }
    const take: Step =
      thread === null
        ? { step: 'threads.insert', row: { ...base, ...columns }, ...keys }
        : { step: 'threads.patch', thread_id: run.thread_id, where: { rev: thread.rev }, set: columns, ...keys }
    const steps = [
      { step: 'runs.insert', row: run } as const,
      ...keySteps(key),
      take,
      ...dropSteps(decision, run),
      claim === null ? showStep(run) : claimStep(run, claim),
    ]
    const [failed, tuple] = await Promise.all([
      applyClaim(deps, steps, claim),
      claim === null ? null : checkpointFor(deps, run, base),
    ])
    if (failed === 0) return 'known'
    if (steps[failed]?.step === 'records.insert') {
      // The key is ours already: a store without transactions does not undo the steps of a failed try.
      if (!(await ownsKey(store, record!, run.run_id))) return dropLoser(store, run)
      key = null
      continue
    }
    // A thread of another application has this id, and is never shown here.
    if (steps[failed] === take && thread === null && (await store.threads.get(run.app, run.thread_id)) === null) {
      await removeKey(store, run)
      await dropLoser(store, run)
      throw fail('conflict', `Thread ID ${run.thread_id} is taken`)
    }
    // Another writer changed the thread row: read it again.
    if (steps[failed] === take) continue
    followUp(deps, decision, run)
    // Queued, but a repair of the thread ran meanwhile and showed the run, or did not find its row.
    if (failed !== -1) continue
    if (claim === null) return isFirst ? 'first' : 'waits'
    handOver(deps, run, claim, tuple)
    return 'started'
  }
}

/**
 * Completes a create whose first try entered the queue and may have crashed right after. Null: the thread row changed
 * meanwhile, read it again.
 */
async function acceptAgain(deps: Deps, decision: Decision, run: RunRow, thread: ThreadRow): Promise<Outcome | null> {
  const { thread_id } = run
  const failed = await deps.store.apply([
    { step: 'runs.insert', row: run },
    // No repair removed it from the queue because its row was missing.
    { step: 'threads.patch', thread_id, where: { rev: thread.rev }, set: {} },
    showStep(run),
  ])
  if (failed > 0) return null
  if (failed === -1) {
    await deps.store.apply(dropSteps(decision, run))
    followUp(deps, decision, run)
  }
  if (thread.active === null && firstEligible(thread.queue, clock.now())?.run_id === run.run_id) wakeWhenDue(deps, run)
  return 'known'
}

const showStep = (run: RunRow): Step => ({
  step: 'runs.patch',
  run_id: run.run_id,
  where: { status: ['accepting'] },
  set: { status: 'pending' },
})

/** A run that may start at once is inserted as one that does. */
function markReady({ scheduler }: Deps, run: RunRow, isFirst: boolean): void {
  run.ready_at = scheduler.isOn && isFirst && run.due_at === 0 ? run.created_at : null
}

/** Wakes a run that may start now, or sets the alarm of a delayed one. */
export function wakeWhenDue({ alarms, ...deps }: Deps, run: RunRow): void {
  if (run.due_at > 0) alarms.set(run.due_at)
  else void wakeRun(deps, run, `${run.run_id}:1`)
}
