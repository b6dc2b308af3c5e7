/**
 * The authority of a graph worker over a run: claim, heartbeat, save, release. A claim raises `attempt` and sets a
 * random token; every later write carries both and is refused when stale, so that an old attempt cannot change anything.
 */
import { bytesHandler, jsonHandler, type Reply } from '../../../bus/serve.js'
import {
  type Claim,
  type Heartbeat,
  type Lease,
  type Release,
  validateClaim,
  validateHeartbeat,
  validateRelease,
  validateWakeUp,
  type WakeUp,
} from '../../../schemas/calls.js'
import { fail } from '../../../schemas/errors.js'
import { isTerminal } from '../../../schemas/runs.js'
import type { Sender } from '../../../schemas/subjects.js'
import type { Deps } from '../context.js'
import { claim } from './claim.js'
import { release } from './release.js'
import { finish } from './settle.js'

/** A supervisor waits so long for the end of a run to be stored (STORE_MS of graph/lease-client.ts). */
const SUPERVISOR_MS = 60_000

export const leases = (deps: Deps) => ({
  claim: jsonHandler<Claim>(validateClaim, (body, { sender }) =>
    deps.serialize(body.thread_id, () => claim(deps, body, requireSender(sender))),
  ),
  /** The run that a free slot is for; the body names the one whose wake-up made the graph worker ask. */
  choose: jsonHandler<WakeUp>(validateWakeUp, async ({ run_id, thread_id }, { sender }) => {
    const { app, pool } = requireSender(sender)
    if (!deps.scheduler.isOn) return { head: { chosen: { run_id, thread_id } } }
    const run = await deps.scheduler.next(app, pool)
    const isRun = typeof run === 'object'
    deps.link.figures.count('weft_run_choices_total', { answer: isRun ? 'chosen' : run })
    if (!isRun) return run === 'later' ? { head: { claim: 'held' } } : {}
    return { head: { chosen: { run_id: run.run_id, thread_id: run.thread_id } } }
  }),
  /** The stored stream of the run is full. Written at once, because clients may resume while the run continues. */
  stream_full: bytesHandler(async (_, { head }) => {
    const { run_id, attempt, token } = leaseOf(head.lease)
    const { kept_until: resumable_until_id } = head
    if (resumable_until_id === undefined) throw fail('bad_request', 'This call needs kept_until')
    const failed = await deps.store.apply([
      { step: 'runs.patch', run_id, where: { attempt, token }, set: { resumable_until_id } },
    ])
    if (failed !== -1) throw fail('fenced')
    return {}
  }),
  heartbeat: jsonHandler<Heartbeat>(validateHeartbeat, body => heartbeat(deps, body)),
  finish: bytesHandler((bytes, { head }) => {
    const lease = leaseOf(head.lease)
    return deps.serialize(lease.thread_id, () => finish(deps, lease, bytes), SUPERVISOR_MS)
  }),
  release: jsonHandler<Release>(validateRelease, (body, { head }) => {
    const lease = leaseOf(head.lease)
    return deps.serialize(lease.thread_id, () => release(deps, lease, body), SUPERVISOR_MS)
  }),
})

/** These calls come from graph workers only (schemas/subjects.ts poolCalls). */
export function requireSender(sender: Sender | null | undefined): Sender {
  if (sender == null) throw fail('forbidden', 'Only graph workers may ask this')
  return sender
}

export function leaseOf(lease: Lease | undefined): Lease {
  if (lease === undefined) throw fail('bad_request', 'This call needs a lease')
  return lease
}

async function heartbeat({ store, holders, encryption }: Deps, { runs }: Heartbeat): Promise<Reply> {
  if (runs.length === 0) return { body: '{"cancel":[],"lost":[]}' }
  await store.apply([{ step: 'runs.beat', runs }])
  const tokens = new Map(runs.map(one => [one.run_id, one.token]))
  const rows = await encryption.plain.runs.summary([...tokens.keys()])
  const alive = new Set(
    rows.filter(row => row.token === tokens.get(row.run_id) && !isTerminal(row.status)).map(row => row.run_id),
  )
  // The wait for the next one begins now, not when a sweep or a claim looks at the run.
  for (const row of rows) if (alive.has(row.run_id)) holders.isDead(row)
  return {
    body: JSON.stringify({
      cancel: rows.filter(row => row.cancel !== null && alive.has(row.run_id)).map(row => row.run_id),
      lost: runs.filter(one => !alive.has(one.run_id)).map(one => one.run_id),
    }),
  }
}
