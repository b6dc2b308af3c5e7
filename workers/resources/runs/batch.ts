/**
 * POST /runs/batch (docs/spec/runs.md#routes): many stateless runs at once, none when the request is invalid, answered in
 * its order. The ids of the runs are derived from one, so that a repeated create makes no second runs.
 */
import { v7 } from 'uuid'
import type { Reply } from '../../../bus/serve.js'
import { fail } from '../../../schemas/errors.js'
import { merge } from '../../../schemas/json.js'
import type { RunCreate } from '../../../schemas/runs.js'
import type { RunRow } from '../../../store/rows/runs.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import { runText } from '../rows/text.js'
import { acceptNew, wakeWhenDue } from './accept.js'
import { type IdempotencyKey, KIND, keyRecord, readKey, UNDER_WAY } from './idempotency.js'
import { withinLimit } from './key-limit.js'
import { withoutAuth } from './payload.js'
import { prepare, type Target } from './prepare.js'

/** After this time a repeat continues a batch with a key that was not finished. */
const UNDER_WAY_MS = 30_000
const MAX_TEXT = 1024 * 1024

interface Made {
  run_id: string
  text: string
  /** The whole batch is accepted. */
  done?: boolean
  begun_at?: number
}

export async function createBatch(
  deps: Deps,
  bodies: readonly RunCreate[],
  target: Target,
  key?: IdempotencyKey,
): Promise<Reply> {
  let first = target.run_id
  const found = key === undefined ? null : await readKey<Made>(deps.store, key)
  if (found?.done) return { body: found.text }
  if (found !== null && found.run_id !== first) {
    if ((found.begun_at ?? 0) > clock.now() - UNDER_WAY_MS) throw fail('conflict', UNDER_WAY)
    first = found.run_id
  }
  const runs: RunRow[] = []
  let size = 0
  for (const [i, body] of bodies.entries()) {
    const run = await prepareOne(deps, body, { ...target, run_id: nth(first, i), thread_id: v7() }, i)
    size += run.kwargs.length + run.metadata.length
    // Each run holds a copy of its assistant: a small request could fill the memory.
    if (size > deps.config.body_limit)
      throw fail(
        'too_large',
        `The runs of this batch hold more than ${deps.config.body_limit} bytes with the config of their assistants: send fewer at once`,
      )
    runs.push(run)
  }
  deps.disk.expectRoom()
  const text = `[${runs.map(run => runText({ ...run, status: 'pending' }))}]`
  if (key !== undefined && found === null) {
    const short =
      text.length <= MAX_TEXT ? text : `[${runs.map(run => runText({ ...run, status: 'pending', kwargs: '{}' }))}]`
    const made = { run_id: first, stateless: true, text: short, done: false, begun_at: clock.now() }
    const failed = await deps.store.apply([{ step: 'records.insert', row: keyRecord(key, runs[0]!, made) }])
    if (failed !== -1) throw fail('conflict', UNDER_WAY)
  }
  const outcomes = await withinLimit(deps, target, runs.length, () =>
    Promise.all(runs.map((run, i) => acceptNew(deps, run, null, withoutAuth(merge(bodies[i]!.metadata))))),
  )
  if (key !== undefined) await markDone(deps, key)
  for (const [i, run] of runs.entries()) if (outcomes[i] === 'first') wakeWhenDue(deps, run)
  return { body: text }
}

async function prepareOne(deps: Deps, body: RunCreate, target: Target, i: number): Promise<RunRow> {
  return prepare(deps, body, target).catch(error => {
    if (error instanceof Error && 'code' in error) error.message = `[${i}]: ${error.message}`
    throw error
  })
}

async function markDone({ store }: Deps, { id }: IdempotencyKey): Promise<void> {
  const record = await store.records.get(KIND, id)
  if (record === null) return
  const body = JSON.stringify({ ...(JSON.parse(record.body) as Made), done: true })
  await store.apply([{ step: 'records.patch', kind: KIND, id, where: { rev: record.rev }, set: { body } }])
}

/** The id that comes `n` after `id`; the same `id` and `n` always give the same one. */
export function nth(id: string, n: number): string {
  const low = (Number.parseInt(id.slice(-8), 16) + n) % 2 ** 32
  return id.slice(0, -8) + low.toString(16).padStart(8, '0')
}
