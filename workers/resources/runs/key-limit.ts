/** The limit of a key on its runs that are pending or running, whoever creates them: a request, a command or a cron. */
import { fail } from '../../../schemas/errors.js'
import type { Deps } from '../context.js'
import type { Target } from './prepare.js'

/**
 * Does `work`, which creates `count` runs, unless the key would then have more runs than its limit. Creates of one key
 * come one after the other, so that the limit is exact in one resource worker. A repeated create passes.
 */
export async function withinLimit<T>(
  { store, serialize }: Deps,
  { key, run_id }: Target,
  count: number,
  work: () => Promise<T>,
): Promise<T> {
  if (key === undefined || key.running_runs === null) return work()
  const { id, running_runs: most } = key
  return serialize(`key ${id}`, async () => {
    const isRepeat = (await store.runs.summary([run_id])).length > 0
    const open = isRepeat ? 0 : await store.runs.countOpen(id, most + 1)
    if (!isRepeat && open + count > most)
      throw fail('too_many', `The key ${id} has ${open} runs that have not ended; its limit is ${most}`)
    return work()
  })
}
