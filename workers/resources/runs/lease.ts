/**
 * The authority of a graph worker over a run: claim, heartbeat, save, release. A claim raises `attempt` and sets a
 * random token; every later write carries both and is refused when stale, so an old attempt can change nothing.
 */
import { v4 } from 'uuid'
import { bytesHandler, jsonHandler, type Reply } from '../../../bus/serve.js'
import {
  type Claim,
  type Heartbeat,
  type Lease,
  type Release,
  validateClaim,
  validateHeartbeat,
  validateRelease,
} from '../../../schemas/calls.js'
import { PER_CLAIM } from '../../../schemas/checkpoints.js'
import { fail, WeftError } from '../../../schemas/errors.js'
import { packText } from '../../../schemas/packed.js'
import { isTerminal } from '../../../schemas/runs.js'
import { firstIdOf } from '../../../schemas/subjects.js'
import type { RunRow, ThreadRow } from '../../../store/port.js'
import type { Deps } from '../context.js'
import { packTuples } from '../rows/checkpoint.js'
import { baseText, firstEligible } from '../rows/thread-status.js'
import { isHalfClaimed, repair } from './repair.js'
import { finish, settle, wakeNext } from './settle.js'
import { announceClaim } from './view.js'
import { wakeRun } from './wake.js'

export const MAX_ATTEMPTS = 3

export const leases = (deps: Deps) => ({
  claim: jsonHandler<Claim>(validateClaim, body => deps.serialize(body.thread_id, () => claim(deps, body))),
  /** The bytes of the run's stored stream are spent: said at once, because clients resume while it runs. */
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
    return deps.serialize(lease.thread_id, () => finish(deps, lease, bytes))
  }),
  release: jsonHandler<Release>(validateRelease, (body, { head }) => {
    const lease = leaseOf(head.lease)
    return deps.serialize(lease.thread_id, () => release(deps, lease, body))
  }),
})

export function leaseOf(lease: Lease | undefined): Lease {
  if (lease === undefined) throw fail('bad_request', 'This call needs a lease')
  return lease
}

async function claim(deps: Deps, { run_id, thread_id, worker, heartbeats: hb }: Claim): Promise<Reply> {
  const { store } = deps
  for (;;) {
    const [thread, run] = await Promise.all([store.threads.get(null, thread_id), store.runs.get(run_id)])
    if (thread === null || run === null) return { head: { claim: 'ended' } }
    const held = thread.active?.run_id === run_id
    const watched = hb !== undefined && hb === run.heartbeats
    // Half done: shown to nobody, ended with its thread still held; or claimed on the thread alone, and not just now.
    if (
      run.status === 'accepting' ||
      (held && watched && isHalfClaimed(thread.active!, run)) ||
      (isTerminal(run.status) && (held || thread.queue.some(one => one.run_id === run_id)))
    ) {
      if (await repair(deps, thread, run_id)) continue
    }
    if (isTerminal(run.status)) return { head: { claim: 'ended' } }
    if (held && !watched)
      return {
        head: {
          claim: 'held',
          lease: {
            run_id,
            thread_id,
            graph_id: run.graph_id,
            attempt: run.attempt,
            token: '',
            resumable: run.resumable,
            temporary: run.temporary,
            resumable_until_id: run.resumable_until_id,
            heartbeats: run.heartbeats,
          },
        },
      }
    if (held) {
      // Nobody beat for 6 s while we watched: the holder is dead, its attempt counts.
      const lost = { error: 'WorkerLost', message: 'its worker was lost' }
      await release(
        deps,
        { ...thread.active!, thread_id },
        { charge: true, end: null, error: lost, last_event_id: null },
        false,
      ).catch(error => {
        // Another claim was quicker.
        if (!isFenced(error)) throw error
      })
      continue
    }
    const first = thread.active === null ? firstEligible(thread.queue, nowFor(run, thread)) : null
    if (first === null) return { head: { claim: 'waiting' } }
    if (first.run_id !== run_id) {
      await wakeNext(deps, thread.queue)
      return { head: { claim: 'waiting' } }
    }
    const taken = await take(deps, thread, run, worker, first.charges)
    if (taken === null) continue
    if (run.cancel === null) return taken
    // Asked to stop while it was given back: it ends without a step more.
    await release(deps, leaseOf(taken.head?.lease), {
      charge: false,
      end: null,
      error: { error: 'Cancelled', message: 'the run was cancelled' },
      last_event_id: null,
    })
    return { head: { claim: 'ended' } }
  }
}

/** Its alarm went off: its time has come, also where the clock of this worker is a little behind. */
function nowFor({ run_id, due_at }: RunRow, { queue }: ThreadRow): number {
  const own = due_at === 0 ? queue.find(one => one.run_id === run_id)?.due_at : 0
  return Math.max(Date.now(), own ?? 0)
}
const isFenced = (error: unknown): boolean => error instanceof WeftError && error.code === 'fenced'

async function take(deps: Deps, thread: ThreadRow, run: RunRow, worker: string, charges = 0): Promise<Reply | null> {
  const { store } = deps
  const now = Date.now()
  const attempt = run.attempt + 1
  const key = v4()
  const claim_no = thread.claim_no + 1
  const [failed, tuple] = await Promise.all([
    store.apply([
      {
        step: 'threads.patch',
        thread_id: thread.thread_id,
        where: { rev: thread.rev },
        set: {
          active: { run_id: run.run_id, attempt, token: key, charges },
          queue: thread.queue.filter(one => one.run_id !== run.run_id),
          claim_no,
          status: 'busy',
        },
      },
      {
        step: 'runs.patch',
        run_id: run.run_id,
        // Under the attempt that was read: a repair of this claim raises it, and then it must not come true.
        where: { status: ['pending', 'running', 'accepting'], attempt: run.attempt },
        set: {
          status: 'running',
          attempt,
          token: key,
          worker,
          started_at: run.started_at ?? now,
          updated_at: now,
          claim_no,
          base: run.base ?? baseText(thread),
        },
      },
    ]),
    run.temporary || thread.latest_checkpoint_id === null
      ? null
      : store.checkpoints.get({ thread_id: thread.thread_id }),
  ])
  if (failed === 1) {
    // Held on the thread, while the run is another's or over: nobody else would let go of it soon.
    const held = await store.threads.get(null, thread.thread_id)
    if (held?.active?.token === key) await repair(deps, held, run.run_id)
  }
  if (failed !== -1) return null
  announceClaim(deps, { ...run, status: 'running', attempt, claim_no })
  const start =
    `{"run_id":"${run.run_id}","thread_id":"${run.thread_id}","graph_id":${JSON.stringify(run.graph_id)},"attempt":${attempt},"first_id":${firstIdOf(attempt)},` +
    `"first_seq":${claim_no * PER_CLAIM},"metadata":${run.metadata},"kwargs":${run.kwargs},"want_values":${run.mode !== 'stream' || run.temporary},"events":${run.mode === 'events'}}`
  const lease = {
    run_id: run.run_id,
    thread_id: run.thread_id,
    graph_id: run.graph_id,
    attempt,
    token: key,
    resumable: run.resumable,
    temporary: run.temporary,
    resumable_until_id: run.resumable_until_id,
  }
  return { head: { claim: 'taken', lease }, body: packText(start, tuple === null ? [] : [packTuples([tuple])]) }
}

async function heartbeat({ store }: Deps, { runs }: Heartbeat): Promise<Reply> {
  if (runs.length === 0) return { body: '{"cancel":[],"lost":[]}' }
  await store.apply([{ step: 'runs.beat', runs }])
  const tokens = new Map(runs.map(one => [one.run_id, one.token]))
  const rows = await store.runs.summary([...tokens.keys()])
  const alive = new Set(
    rows.filter(row => row.token === tokens.get(row.run_id) && !isTerminal(row.status)).map(row => row.run_id),
  )
  return {
    body: JSON.stringify({
      cancel: rows.filter(row => row.cancel !== null && alive.has(row.run_id)).map(row => row.run_id),
      lost: runs.filter(one => !alive.has(one.run_id)).map(one => one.run_id),
    }),
  }
}

/**
 * Gives a run back: it waits again at its old place. After three charged attempts it ends as `error` instead, and the
 * thread is released either way. The answer says whether it ended.
 */
async function release(
  deps: Deps,
  lease: Lease,
  { charge, end, error, last_event_id }: Release,
  awake = true,
): Promise<Reply> {
  const { store } = deps
  for (;;) {
    const [thread, [run]] = await Promise.all([
      store.threads.get(null, lease.thread_id),
      store.runs.summary([lease.run_id]),
    ])
    if (thread === null || run === undefined || thread.active?.token !== lease.token) throw fail('fenced')
    const charges = (thread.active.charges ?? 0) + (charge ? 1 : 0)
    // The greatest id that readers can have: of this attempt, else of an earlier one.
    const sent = last_event_id !== null && last_event_id >= firstIdOf(run.attempt) ? last_event_id : run.last_event_id
    if (run.cancel !== null) {
      await settle(deps, lease, { status: 'interrupted', error: null, last_event_id: sent ?? -1, render: true })
      return { body: '{"ended":true}' }
    }
    if (end !== null || charges >= MAX_ATTEMPTS) {
      const why =
        end !== null ? error : { ...error, message: `The run was given up after ${charges} attempts: ${error.message}` }
      // Greater than everything sent, and next to it; where nobody knows, the first of an attempt that never was.
      const id = last_event_id === null ? firstIdOf(run.attempt + 1) : last_event_id + 1
      await settle(deps, lease, { status: end ?? 'error', error: why, last_event_id: id, render: true })
      return { body: '{"ended":true}' }
    }
    const failed = await store.apply([
      {
        step: 'runs.patch',
        run_id: run.run_id,
        where: { token: lease.token },
        set: { status: 'pending', last_event_id: sent },
      },
      {
        step: 'threads.patch',
        thread_id: thread.thread_id,
        where: { rev: thread.rev },
        // Before everything that waits: it had been first already.
        set: {
          active: null,
          queue: [
            {
              run_id: run.run_id,
              position: Math.min(...thread.queue.map(one => one.position), thread.next_position) - 1,
              due_at: 0,
              charges,
            },
            ...thread.queue,
          ],
        },
      },
    ])
    if (failed === 0) throw fail('fenced')
    if (failed !== -1) continue
    if (awake) void wakeRun(deps, run, `${run.run_id}:${run.attempt + 1}`)
    return { body: '{"ended":false}' }
  }
}
