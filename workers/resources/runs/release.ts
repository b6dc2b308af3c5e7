/** Giving a run back: it waits for its next attempt, or ends when it used up its attempts. */
import type { Reply } from '../../../bus/serve.js'
import type { Lease, Release } from '../../../schemas/calls.js'
import { fail } from '../../../schemas/errors.js'
import { firstIdOf } from '../../../schemas/subjects.js'
import type { RunRow } from '../../../store/rows/runs.js'
import type { Active, ThreadRow } from '../../../store/rows/threads.js'
import type { Deps } from '../context.js'
import { settle } from './settle.js'
import { wakeRun } from './wake.js'

const MAX_ATTEMPTS = 3

type Held = Pick<Lease, 'run_id' | 'thread_id' | 'attempt' | 'token'>

interface TakeOver {
  /** The heartbeats of the dead holder: one more that arrives meanwhile makes the release fail with `fenced`. */
  heartbeats: number
}

/**
 * The run waits again before all others of its thread. After three charged attempts without a new checkpoint it ends as
 * `error` instead; the thread is released either way. The answer says whether the run ended. With `takeOver` a claim
 * releases the run of a dead holder, and continues with it: nothing is woken. `columns`: what else the run gets back.
 */
export async function release(
  deps: Deps,
  lease: Held,
  body: Release,
  takeOver?: TakeOver,
  columns: Pick<Partial<RunRow>, 'started_at'> = {},
): Promise<Reply> {
  const reply = await giveBack(deps, lease, body, takeOver, columns)
  // The dead worker may have stored a checkpoint that the thread does not name: the next attempt makes it again.
  const { thread_id, run_id, attempt } = lease
  if (takeOver !== undefined) await deps.store.apply([{ step: 'checkpoints.trim', thread_id, run_id, attempt }])
  return reply
}

async function giveBack(
  deps: Deps,
  lease: Held,
  { charge, end, error, last_event_id }: Release,
  takeOver: TakeOver | undefined,
  columns: Pick<Partial<RunRow>, 'started_at'>,
): Promise<Reply> {
  const { store } = deps
  const { run_id, thread_id, token } = lease
  const { heartbeats } = takeOver ?? {}
  for (;;) {
    const [thread, [run]] = await Promise.all([store.threads.get(null, thread_id), store.runs.summary([run_id])])
    if (thread === null || run === undefined || thread.active?.token !== token) throw fail('fenced')
    const charges = chargesBefore(thread, thread.active) + (charge ? 1 : 0)
    // The greatest id that readers can have: of this attempt, else of an earlier one.
    const sent = last_event_id !== null && last_event_id >= firstIdOf(run.attempt) ? last_event_id : run.last_event_id
    if (run.cancel !== null) {
      await settle(deps, lease, {
        status: 'interrupted',
        error: null,
        last_event_id: sent ?? -1,
        render: true,
        heartbeats,
      })
      return { body: '{"ended":true}' }
    }
    if (end !== null || charges >= MAX_ATTEMPTS) {
      const message = `The run was given up after ${charges} attempts: ${error.message}`
      const reason = end !== null ? error : { ...error, message }
      // The id after everything sent; when that is unknown, the first id of the attempt that does not follow.
      const id = last_event_id === null ? firstIdOf(run.attempt + 1) : last_event_id + 1
      await settle(deps, lease, {
        status: end ?? 'error',
        error: reason,
        last_event_id: id,
        render: true,
        heartbeats,
      })
      return { body: '{"ended":true}' }
    }
    const position = Math.min(...thread.queue.map(one => one.position), thread.next_position) - 1
    const failed = await store.apply([
      {
        step: 'runs.patch',
        run_id,
        where: { token, heartbeats },
        set: { ...columns, status: 'pending', last_event_id: sent },
      },
      {
        step: 'threads.patch',
        thread_id,
        where: { rev: thread.rev },
        set: { active: null, queue: [{ run_id, position, due_at: 0, charges }, ...thread.queue] },
      },
    ])
    if (failed === 0) throw fail('fenced')
    if (failed !== -1) continue
    if (takeOver === undefined) void wakeRun(deps, { ...run, status: 'pending' }, `${run_id}:${run.attempt + 1}`)
    return { body: '{"ended":false}' }
  }
}

/**
 * The charged attempts before this one. An attempt that stored a new checkpoint made progress: the earlier ones do not
 * count any more, so that a long run outlives any number of crashes, while three at the same step end it.
 */
function chargesBefore({ latest_checkpoint_id }: ThreadRow, { charges = 0, checkpoint_id }: Active): number {
  return checkpoint_id !== undefined && checkpoint_id !== latest_checkpoint_id ? 0 : charges
}
