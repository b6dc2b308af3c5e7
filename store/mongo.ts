/**
 * The store in MongoDB (4.4 or newer), shared by any number of resource workers. `apply` does its steps one by one,
 * each atomic by itself, and stops at the first whose condition fails; completed steps are on the disks of a majority
 * when it resolves. No transactions, so a single server will do where losing it is acceptable.
 */
import { openCalls } from './calls.js'
import { collections, ensureIndexes } from './mongo/collections.js'
import { connect, hostsOf, isOutage, type MongoOptions, patiently } from './mongo/connection.js'
import type { Doc } from './mongo/documents.js'
import { reads } from './mongo/reads.js'
import { finishRemovals } from './mongo/removal.js'
import { ensureVersion } from './mongo/schema.js'
import { applySteps } from './mongo/steps.js'
import type { Store } from './port.js'

/**
 * Opens the store and makes its indexes. Rejects with one sentence when no server answers, when a newer Weft has
 * written the database, or when an index cannot be made.
 *
 * Calls of the store reject with `unavailable` when the database cannot be used now; whether a write was done is then
 * not known, and it can be repeated.
 */
export async function openMongo(options: MongoOptions): Promise<Store> {
  await patiently(options.url, async db => {
    await ensureVersion(db)
    await ensureIndexes(db)
  })
  const { client, db, standalone } = await connect(options)
  const all = collections(db)
  // The sweep finishes them, too.
  await finishRemovals(all, 1_000).catch(error =>
    options.log?.warn({ err: error }, 'removals that were interrupted could not be finished yet'),
  )
  if (standalone)
    options.log?.warn(
      { hosts: hostsOf(options.url) },
      'MongoDB is a single server without a replica set: a write that its restart interrupts is not retried by the driver, and runs are lost with its disk; use a replica set in production',
    )

  const { call, close } = openCalls(isOutage, options.log)

  return {
    ...guarded(reads(all), call),
    apply: steps => call(() => applySteps(steps, all)),
    ping: () =>
      call(
        async () =>
          void (await db
            .collection<Doc>('meta')
            .updateOne({ _id: 'health' }, { $set: { checked_at: Date.now() } }, { upsert: true })),
      ),
    bytes: () =>
      call(async () => {
        const { storageSize = 0, indexSize = 0 } = await db.command({ dbStats: 1 })
        return storageSize + indexSize
      }),
    reusable: async () => 0,
    close: () => close(() => client.close()),
  }
}

/** The same functions, each behind `call`. */
function guarded<Groups extends object>(groups: Groups, call: <T>(work: () => Promise<T>) => Promise<T>): Groups {
  type Group = { [name: string]: (...args: unknown[]) => Promise<unknown> }
  const behind = (group: Group) =>
    Object.fromEntries(
      Object.entries(group).map(([name, read]) => [name, (...args: unknown[]) => call(() => read(...args))]),
    )
  return Object.fromEntries(Object.entries(groups).map(([name, group]) => [name, behind(group)])) as Groups
}
