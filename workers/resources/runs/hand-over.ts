/**
 * Claiming a run with the commit that accepts it, for a graph worker that keeps a slot free (decision 052). The run has no
 * wake-up then: what goes wrong is found by the answer of the graph worker, else by the sweep for dead holders.
 */
import { NotSent } from '../../../bus/call.js'
import { type SlotOffer, validateSlotOffer } from '../../../schemas/calls.js'
import { WeftError } from '../../../schemas/errors.js'
import { type Pool, token } from '../../../schemas/ids.js'
import { host, one } from '../../../schemas/subjects.js'
import type { Tuple } from '../../../store/rows/checkpoints.js'
import type { RunRow } from '../../../store/rows/runs.js'
import type { ThreadRow } from '../../../store/rows/threads.js'
import type { Step } from '../../../store/steps.js'
import type { Deps, Slot } from '../context.js'
import { type ClaimRows, claimRows, findKwargs, startBody } from './claimed.js'
import { release } from './release.js'
import { announceClaim } from './view.js'

/** Time for a large state to reach the graph worker. */
const TIMEOUT_MS = 30_000

export interface EarlyClaim {
  pool: Pool
  slot: Slot
  rows: ClaimRows
  kwargs: string
}

/**
 * A claim of the first attempt of `run`, which is the next one of `thread` (its row before). Null: it goes through the
 * work queue. It must be handed over, or its slot settled.
 */
export async function claimEarly(deps: Deps, run: RunRow, thread: ThreadRow): Promise<EarlyClaim | null> {
  // With limits every run is counted after its claim, before it starts; with a rate the claim counts it.
  if (run.due_at > 0 || deps.scheduler.hasLimits || deps.scheduler.hasRate(run)) return null
  const [name, kwargs] = await Promise.all([deps.apps.poolFor(run.app, run.pool), findKwargs(deps, run)])
  const pool = token<'pool'>('pool', name)
  const slot = kwargs === null ? null : deps.slots.take(pool)
  return slot === null
    ? null
    : { pool, slot, rows: claimRows(run, thread, { worker: slot.worker, pool }), kwargs: kwargs! }
}

/** Shows the run and gives it its holder. With the attempt: a repair of this claim raises it, and the step fails then. */
export const claimStep = (run: RunRow, { rows }: EarlyClaim): Step => ({
  step: 'runs.patch',
  run_id: run.run_id,
  where: { status: ['accepting'], attempt: run.attempt },
  set: rows.run,
})

/** Sends the claimed run to its holder, beside what waits for the caller. */
export function handOver(deps: Deps, run: RunRow, claim: EarlyClaim, tuple: Tuple | null): void {
  const { slot, rows, kwargs } = claim
  const { figures, log } = deps.link
  announceClaim(deps, { ...run, ...rows.run })
  figures.count('weft_run_claims_total', { answer: 'taken' })
  const send = async (): Promise<SlotOffer> => {
    const head = {
      request_id: run.run_id,
      hand_over: { asker: slot.asker, stamp: slot.stamp, lease: rows.lease },
    }
    const subject = one(host(claim.pool, 'start'), token('member', slot.member))
    const options = { timeout: TIMEOUT_MS, patience: 0 }
    const { body } = await deps.caller.ask(subject, head, startBody(deps, { ...run, kwargs }, rows, tuple), options)
    const next = validateSlotOffer(JSON.parse(Buffer.from(body).toString()))
    if (!next.success) throw new Error('a graph worker answered a run with no offer')
    return next.data
  }
  deps.slots.track(
    send().then(
      next => {
        slot.settle(next)
        figures.count('weft_run_hand_overs_total', { answer: 'started' })
      },
      async error => {
        slot.settle(null)
        const isRefused = hasNotBegun(error)
        figures.count('weft_run_hand_overs_total', { answer: isRefused ? 'refused' : 'unknown' })
        const { run_id } = run
        // A worker refuses it when it needs its slots for runs that wait.
        const level = isRefused && !(error instanceof NotSent) ? 'debug' : 'warn'
        log[level]({ err: error, run_id, worker: slot.worker }, 'a claimed run could not be handed over')
        // A worker that may have begun it keeps it while its heartbeats arrive.
        if (!isRefused) return
        const why = { error: 'WorkerLost', message: 'its worker could not start it' }
        await release(deps, rows.lease, { charge: false, end: null, error: why, last_event_id: null })
      },
    ),
  )
}

/** No worker received the run, or the one that did has refused it. */
const hasNotBegun = (error: unknown): boolean =>
  error instanceof NotSent || (error instanceof WeftError && error.code === 'conflict')
