/** Changing threads (docs/spec/threads.md#create). */
import { keysOf } from '../../../schemas/contains.js'
import { parseJson } from '../../../schemas/exact.js'
import { isObject, merge } from '../../../schemas/json.js'
import type { ThreadPatch } from '../../../schemas/threads.js'
import type { ThreadRow } from '../../../store/rows/threads.js'
import type { Access } from '../access.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import { metadataText } from '../rows/limits.js'
import { requireThread } from '../rows/thread.js'
import { readTtl, ttlFields } from '../rows/thread-ttl.js'

/** Merges metadata key by key; a key that is set to null stays as null. Resolves to the new row. */
export async function patch(deps: Deps, access: Access, thread_id: string, body: ThreadPatch): Promise<ThreadRow> {
  return deps.serialize(thread_id.toLowerCase(), async () => {
    for (;;) {
      const row = await requireThread(deps.store, access, thread_id)
      const now = clock.now()
      const ttl = readTtl(body.ttl)
      const set = { updated_at: now, ...(ttl === null ? {} : ttlFields(ttl, now)) }
      const step = { step: 'threads.patch', thread_id: row.thread_id, where: { rev: row.rev } } as const
      if (!body.metadata) {
        if ((await deps.store.apply([{ ...step, set }])) === -1) return { ...row, ...set, rev: row.rev + 1 }
        continue
      }
      const stored: unknown = parseJson(row.metadata)
      const merged = merge(isObject(stored) ? stored : null, body.metadata)
      const metadata = metadataText(merged)
      const failed = await deps.store.apply([{ ...step, set: { ...set, metadata }, keys: keysOf(merged) }])
      if (failed === -1) return { ...row, ...set, metadata, rev: row.rev + 1 }
    }
  })
}
