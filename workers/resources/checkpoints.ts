/** `rpc.checkpoints.*`: reads by thread, saves under a lease. */
import { bytesHandler, jsonHandler } from '../../bus/serve.js'
import { type CheckpointQuery, validateCheckpointQuery } from '../../schemas/checkpoints.js'
import { fail } from '../../schemas/errors.js'
import type { Deps } from './context.js'
import { packTuples, rowsOf } from './rows/checkpoint.js'
import { leaseOf } from './runs/lease.js'

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
  get: jsonHandler<CheckpointQuery>(validateCheckpointQuery, async query => {
    const tuple = await store.checkpoints.get(query)
    return { body: packTuples(tuple === null ? [] : [tuple]) }
  }),
  list: jsonHandler<CheckpointQuery>(validateCheckpointQuery, async query => ({
    body: packTuples(await store.checkpoints.list(query)),
  })),
})
