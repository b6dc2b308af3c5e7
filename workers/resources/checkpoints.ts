import { bytesHandler, type Context, jsonHandler } from '../../bus/serve.js'
import { type CheckpointQuery, validateCheckpointQuery } from '../../schemas/checkpoints.js'
import { fail } from '../../schemas/errors.js'
import type { Store } from '../../store/port.js'
import type { Deps } from './context.js'
import { packTuples, rowsOf } from './rows/checkpoint.js'
import { leaseOf, requireSender } from './runs/lease.js'

/** Checkpoints for graph workers: reads by thread, saves under a lease. */
export const checkpoints = ({ store }: Deps) => ({
  save: bytesHandler(async (bytes, { head }) => {
    const { run_id, thread_id, attempt, token } = leaseOf(head.lease)
    const rows = rowsOf(bytes)
    const newest = rows.checkpoints.filter(row => row.ns === '').at(-1)
    const failed = await store.apply([
      { step: 'checkpoints.insert', thread_id, run_id, attempt, ...rows },
      {
        step: 'threads.patch',
        thread_id,
        where: { token },
        set: newest === undefined ? {} : { latest_checkpoint_id: newest.id },
      },
    ])
    if (failed !== -1) throw fail('fenced')
    return {}
  }),
  get: jsonHandler<CheckpointQuery>(validateCheckpointQuery, async (query, context) => {
    if (!(await mayRead(store, query, context))) return { body: packTuples([]) }
    const tuple = await store.checkpoints.get(query)
    return { body: packTuples(tuple === null ? [] : [tuple]) }
  }),
  list: jsonHandler<CheckpointQuery>(validateCheckpointQuery, async (query, context) => ({
    body: packTuples((await mayRead(store, query, context)) ? await store.checkpoints.list(query) : []),
  })),
})

/**
 * A run reads the checkpoints of the thread that its lease holds; a call without a lease those of the application that the
 * graph worker serves. False when the thread does not exist, as that of an update that makes its thread. Throws fenced and
 * forbidden.
 */
async function mayRead({ threads }: Store, { thread_id }: CheckpointQuery, context: Context): Promise<boolean> {
  const thread = await threads.get(null, thread_id)
  if (thread === null) return false
  const { lease } = context.head
  if (lease !== undefined && thread.active?.token !== lease.token) throw fail('fenced')
  if (lease === undefined && thread.app !== requireSender(context.sender).app)
    throw fail('forbidden', `Thread ${thread_id} belongs to another application`)
  return true
}
