/**
 * Pruning and expiry of threads (docs/spec/threads.md#copy-and-prune): the newest checkpoints are marked; the others, and
 * the blobs that no marked one refers to, are removed.
 */

import { jsonText, parseJson } from '../../../schemas/exact.js'
import { canonicalId } from '../../../schemas/ids.js'
import { isObject } from '../../../schemas/json.js'
import type { ThreadPrune } from '../../../schemas/threads.js'
import type { Store } from '../../../store/port.js'
import type { BlobKey, CheckpointRow } from '../../../store/rows/checkpoints.js'
import type { ThreadRow } from '../../../store/rows/threads.js'
import type { Step } from '../../../store/steps.js'
import { type Access, sees } from '../access.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import { collect } from '../rows/pages.js'
import { expiryOf, HALF_MADE_MS, ttlFields } from '../rows/thread-ttl.js'
import { keyOf } from './copy.js'
import { removeThread } from './remove.js'

const BARE = { limit: 1_000, bytes: Number.POSITIVE_INFINITY, bare: true }
/** Keys in one write. */
const AT_ONCE = 500
/** Threads that are processed at the same time. */
const WIDE = 8

/** The number of threads that were removed or pruned. Unknown and invisible ids are skipped. */
export async function prune(deps: Deps, access: Access, { thread_ids, strategy }: ThreadPrune): Promise<number> {
  const ids = [...new Set(thread_ids.map(canonicalId))]
  let pruned = 0
  await forEachThread(ids, async id => {
    const row = await deps.store.threads.get(access.app, id)
    if (row === null || row.temporary || !sees(access, row.metadata)) return
    if (strategy !== 'keep_latest') await removeThread(deps, row)
    else if (!(await keepLatest(deps, row))) return
    pruned++
  })
  return pruned
}

async function forEachThread<T>(all: readonly T[], work: (one: T) => Promise<unknown>): Promise<void> {
  const left = all.values()
  const worker = async () => {
    for (const one of left) await work(one)
  }
  await Promise.all(Array.from({ length: WIDE }, worker))
}

/** Keeps the newest checkpoint of each namespace and what it needs. False: the thread is busy or was removed. */
export async function keepLatest(deps: Deps, { app, thread_id }: ThreadRow): Promise<boolean> {
  return deps.serialize(thread_id, async () => {
    const { store } = deps
    const row = await store.threads.get(app, thread_id)
    if (row === null || row.temporary || row.status === 'busy') return false
    const all = await collect<CheckpointRow>(after =>
      store.checkpoints.rows({ thread_id, after: after ?? null, ...BARE }),
    )
    const kept = await markNeeded(store, row, all)
    const needed = new Set(
      all
        .filter(one => kept.has(keyOf(one.ns, one.id)))
        .flatMap(({ ns, refs }) => Object.entries(refs).map(([channel, version]) => keyOf(ns, channel, version))),
    )
    const blobs = await collect<BlobKey>(after => store.checkpoints.blobs({ thread_id, after: after ?? null, ...BARE }))
    // Checkpoints are removed before blobs, so that none refers to a removed blob.
    const steps: Step[] = [
      ...inParts(all.filter(one => !kept.has(keyOf(one.ns, one.id))).map(({ ns, id }) => ({ ns, id }))).map(
        (checkpoints): Step => ({ step: 'checkpoints.remove', thread_id, checkpoints }),
      ),
      ...inParts(
        blobs
          .filter(({ ns, channel, version }) => !needed.has(keyOf(ns, channel, version)))
          .map(({ ns, channel, version }) => ({ ns, channel, version })),
      ).map((some): Step => ({ step: 'blobs.remove', thread_id, blobs: some })),
    ]
    let { rev } = row
    // A run that started meanwhile may refer to anything: the next prune does the rest.
    for (const step of steps)
      if ((await store.apply([{ step: 'threads.patch', thread_id, where: { rev: rev++ }, set: {} }, step])) !== -1)
        return step !== steps[0]
    return true
  })
}

function inParts<T>(all: readonly T[]): T[][] {
  const parts: T[][] = []
  for (let at = 0; at < all.length; at += AT_ONCE) parts.push(all.slice(at, at + AT_ONCE))
  return parts
}

type Bare = Pick<CheckpointRow, 'ns' | 'id' | 'parent' | 'seq' | 'refs'>

async function markNeeded(
  store: Store,
  { thread_id, latest_checkpoint_id: head }: ThreadRow,
  all: readonly Bare[],
): Promise<Set<string>> {
  const known = new Map(all.map(one => [keyOf(one.ns, one.id), one]))
  const newest = new Map<string, Bare>()
  for (const one of all) if (one.ns !== '' || one.id === head) newest.set(one.ns, one)
  const kept = new Set<string>()
  for (const one of newest.values())
    for (const each of await withAncestors(store, thread_id, one, known)) kept.add(keyOf(each.ns, each.id))
  return kept
}

/**
 * The checkpoint, and the earlier ones that its incremental channels need: such a channel is stored as changes, back to
 * the checkpoint that holds its full value.
 */
async function withAncestors(store: Store, thread_id: string, newest: Bare, known: Map<string, Bare>): Promise<Bare[]> {
  const parentOf = ({ ns, parent }: Bare) => (parent === null ? undefined : known.get(keyOf(ns, parent)))
  const line: Bare[] = []
  let owed: string[] = []
  for (let at: Bare | undefined = newest; at !== undefined; at = parentOf(at)) {
    const { source, counters_since_delta_snapshot: counters } = await metadataOf(store, thread_id, at)
    line.push(at)
    owed = Object.keys(isObject(counters) ? counters : {})
    // A checkpoint of an update has no counters; the one before it has.
    if (owed.length > 0 || (source !== 'update' && source !== 'fork')) break
  }
  if (owed.length === 0) return [newest]
  const left = new Set(owed.filter(channel => !(channel in newest.refs)))
  const kept = [newest]
  for (let at = parentOf(newest); at !== undefined && left.size > 0; at = parentOf(at)) {
    kept.push(at)
    for (const channel of Object.keys(at.refs)) left.delete(channel)
  }
  return kept
}

/** The only code outside a host that parses a checkpoint: its metadata is JSON when its type says so. */
async function metadataOf(
  { checkpoints }: Store,
  thread_id: string,
  { seq }: Bare,
): Promise<{ [key: string]: unknown }> {
  const [row] = await checkpoints.rows({ thread_id, after: { seq: seq - 1 }, limit: 1, bytes: 1 })
  if (row === undefined || row.seq !== seq || row.meta_type !== 'json') return {}
  const metadata: unknown = parseJson(Buffer.from(row.metadata).toString())
  return isObject(metadata) ? metadata : {}
}

/** Expires threads, and removes hidden ones that a crash left. */
export async function expireDue(deps: Deps): Promise<void> {
  const limit = await deps.dueSweep()
  if (limit === null) return
  const due = await deps.store.threads.expired(clock.now(), limit)
  await forEachThread(due, row =>
    expire(deps, row).catch(error =>
      deps.link.log.warn(
        { err: error, thread_id: row.thread_id },
        'thread could not be expired; retrying at the next sweep',
      ),
    ),
  )
}

async function expire(deps: Deps, row: ThreadRow): Promise<void> {
  const { thread_id, rev } = row
  const now = clock.now()
  const set = async (fields: Partial<ThreadRow>) =>
    (await deps.store.apply([{ step: 'threads.patch', thread_id, where: { rev }, set: fields }])) === -1
  if (row.temporary) return removeThread(deps, row)
  if (row.ttl === null) return void (await set({ expires_at: null }))
  const expires_at = expiryOf(row)!
  // It was used since, or is in use.
  if (expires_at > now) return void (await set({ expires_at }))
  if (row.status === 'busy') return void (await set(ttlFields(row.ttl, now)))
  if (row.ttl.strategy === 'delete') {
    if (!(await set({ temporary: true, ttl: null, expires_at: now + HALF_MADE_MS }))) return
    await removeThread(deps, { ...row, temporary: true })
  } else if (await set(ttlFields(row.ttl, now))) await keepLatest(deps, row)
  deps.link.log.info({ thread_id, strategy: row.ttl.strategy }, 'thread expired')
}

/** Storage of a thread in bytes (docs/spec/threads.md#routes). */
export async function storageText({ store }: Deps, { thread_id }: ThreadRow): Promise<string> {
  const { checkpoints, blobs, writes } = await store.checkpoints.storage(thread_id)
  const shown = ({ rows, bytes }: { rows: number; bytes: number }) => ({ bytes, count: rows })
  const by_channel = Object.fromEntries(blobs.channels.map(one => [one.channel, shown(one)]))
  return jsonText({
    thread_id,
    total_bytes: checkpoints.bytes + blobs.bytes + writes.bytes,
    checkpoints: shown(checkpoints),
    channel_values: { ...shown(blobs), by_channel },
    pending_writes: shown(writes),
  })
}
