/**
 * Copying a thread with all its checkpoints (docs/spec/threads.md#copy-and-prune), page by page: a large history
 * costs time, not memory. The copy is hidden until it is complete; the sweeper removes one that a crash interrupted.
 */

import { v7 } from 'uuid'
import { parseLarge } from '../../../bus/decode.js'
import { keysOf } from '../../../schemas/contains.js'
import { fail } from '../../../schemas/errors.js'
import { jsonText, parseJson } from '../../../schemas/exact.js'
import { type JsonObject, merge } from '../../../schemas/json.js'
import { interruptsOf, type ThreadState } from '../../../schemas/threads.js'
import type { Store } from '../../../store/port.js'
import type { BlobRow, CheckpointRow, WriteRow } from '../../../store/rows/checkpoints.js'
import type { StateRow, ThreadRow } from '../../../store/rows/threads.js'
import type { Step } from '../../../store/steps.js'
import type { Access } from '../access.js'
import type { Deps } from '../context.js'
import { metadataText } from '../rows/limits.js'
import { collect, pages } from '../rows/pages.js'
import { newThread, requireThread } from '../rows/thread.js'
import { defaultTtl, HALF_MADE_MS } from '../rows/thread-ttl.js'
import { settledOf } from '../state/kept-state.js'

/** Size of a page; a single larger value is a page. */
const PAGE = { limit: 200, bytes: 8 * 1024 * 1024 }
/** Tries of a copy; it restarts when the source was rolled back meanwhile. */
const TRIES = 3

/**
 * Resolves to the new thread, whose metadata is that of the source with `stamp`. Runs are not copied; a busy source is
 * copied at its newest checkpoint.
 */
export async function copyThread(
  deps: Deps,
  access: Access,
  thread_id: string,
  stamp: JsonObject = {},
): Promise<ThreadRow> {
  const { store } = deps
  const { app } = access
  for (let tries = 0; tries < TRIES; tries++) {
    const source = await requireThread(store, access, thread_id)
    const merged = merge(parseJson(source.metadata), stamp)
    const made = newThread({
      app,
      thread_id: v7(),
      metadata: metadataText(merged),
      ttl: await defaultTtl(deps.settings, app),
    })
    const half = { ...made, temporary: true, ttl: null, expires_at: made.created_at + HALF_MADE_MS }
    await store.apply([{ step: 'threads.insert', row: half, keys: keysOf(merged) }])
    const isWhole = source.latest_checkpoint_id === null || (await copyCheckpoints(store, source, made.thread_id))
    const state = await store.threads.state(source.thread_id)
    if (isWhole && (await store.threads.get(app, source.thread_id)) !== null) {
      const { ttl, expires_at, updated_at } = made
      const { steps, left } = stateFor(source, state, made.thread_id)
      const set = {
        ...left,
        temporary: false,
        ttl,
        expires_at,
        updated_at,
        claim_no: source.claim_no,
        latest_checkpoint_id: source.latest_checkpoint_id,
        left_by: source.active === null ? source.left_by : null,
      }
      await store.apply([...steps, { step: 'threads.patch', thread_id: made.thread_id, where: { rev: 0 }, set }])
      return { ...made, ...set, rev: 1 }
    }
    await store.apply([{ step: 'threads.remove', thread_id: made.thread_id }])
  }
  throw fail('conflict', `Thread ${thread_id} was changed while it was copied`)
}

/** False when the newest checkpoint of the source was removed. */
async function copyCheckpoints(
  store: Store,
  { thread_id, latest_checkpoint_id: head }: ThreadRow,
  to: string,
): Promise<boolean> {
  const all = await collect<CheckpointRow>(after =>
    store.checkpoints.rows({ thread_id, after: after ?? null, ...PAGE, bare: true }),
  )
  const newest = all.find(row => row.ns === '' && row.id === head)
  if (newest === undefined) return false
  // Checkpoints that a run adds meanwhile start with the next one of the root.
  const later = all.filter(row => row.ns === '' && row.seq > newest.seq).map(row => row.seq)
  const end = Math.min(Number.POSITIVE_INFINITY, ...later)
  const ours = new Map(all.filter(row => row.seq < end).map(row => [keyOf(row.ns, row.id), row]))
  const blobs = new Set<string>()
  for (const { ns, refs } of ours.values())
    for (const [channel, version] of Object.entries(refs)) blobs.add(keyOf(ns, channel, version))

  const swap = swapper(thread_id, to)
  const save = (rows: { checkpoints?: CheckpointRow[]; blobs?: BlobRow[]; writes?: WriteRow[] }) =>
    store.apply([
      {
        step: 'checkpoints.insert',
        thread_id: to,
        run_id: null,
        attempt: 0,
        ...{ checkpoints: [], blobs: [], writes: [], ...rows },
      },
    ])
  for await (const page of pages<BlobRow>(after =>
    store.checkpoints.blobs({ thread_id, after: after ?? null, ...PAGE }),
  )) {
    const some = page.filter(({ ns, channel, version }) => blobs.has(keyOf(ns, channel, version)))
    await save({ blobs: some.map(row => ({ ...row, ns: swap.text(row.ns) })) })
  }
  for await (const page of pages<WriteRow>(after =>
    store.checkpoints.writes({ thread_id, after: after ?? null, ...PAGE }),
  )) {
    const some = page.filter(({ ns, checkpoint_id }) => ours.has(keyOf(ns, checkpoint_id)))
    await save({ writes: some.map(row => ({ ...row, ns: swap.text(row.ns) })) })
  }
  let copied = 0
  for await (const page of pages<CheckpointRow>(after =>
    store.checkpoints.rows({ thread_id, after: after ?? null, ...PAGE }),
  )) {
    const some = page.filter(({ ns, id }) => ours.has(keyOf(ns, id)))
    copied += some.length
    await save({
      checkpoints: some.map(row => ({
        ...row,
        ns: swap.text(row.ns),
        metadata: swap.bytes(row.metadata),
        value: swap.bytes(row.value),
      })),
    })
  }
  return copied === ours.size
}

/** A key that is unique for the list of parts. */
export const keyOf = (...parts: string[]): string => jsonText(parts)

/** Replaces every occurrence of one id by the other; both have the same length. */
function swapper(from: string, to: string) {
  const [old, other] = [Buffer.from(from), Buffer.from(to)]
  return {
    text: (text: string) => text.replaceAll(from, to),
    bytes(bytes: Uint8Array): Uint8Array {
      let out: Buffer | null = null
      const whole = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
      for (let at = whole.indexOf(old); at >= 0; at = whole.indexOf(old, at + old.length))
        other.copy((out ??= Buffer.from(whole)), at)
      return out ?? bytes
    },
  }
}

/**
 * The finished state for the copy, if the source has one of its newest checkpoint (else a host computes it at the first
 * read), and the status that follows from it: the copy is at rest, even while a run is active on the source.
 */
function stateFor(source: ThreadRow, state: StateRow | null, to: string): { steps: Step[]; left: Partial<ThreadRow> } {
  const { latest_checkpoint_id: head, settled, interrupts } = source
  if (head === null) return { steps: [], left: {} }
  if (state === null || state.latest_checkpoint_id !== head || state.values === null || state.rest === null) {
    const left = settled === 'error' ? 'idle' : settled
    return { steps: [], left: { settled: left, status: left, interrupts } }
  }
  const rest = parseLarge<ThreadState>(state.rest, '{')
  const named = <T>(part: T): T => parseJson(jsonText(part).replaceAll(source.thread_id, to)) as T
  rest.checkpoint = named(rest.checkpoint)
  rest.parent_checkpoint = named(rest.parent_checkpoint)
  rest.metadata = named(rest.metadata)
  rest.tasks = rest.tasks.map(task => ({ ...task, checkpoint: named(task.checkpoint) }))
  const text = Buffer.from(jsonText(rest).slice(1))
  const asked = interruptsOf(rest.tasks)
  const status = settledOf(null, { next: rest.next, interrupts: asked }, 'idle')
  return {
    steps: [{ step: 'threads.state', thread_id: to, latest_checkpoint_id: head, values: state.values, rest: text }],
    left: { settled: status, status, interrupts: jsonText(asked) },
  }
}
