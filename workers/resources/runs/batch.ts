/**
 * POST /runs/batch (API: threads-and-runs 9): many stateless runs at once, all or none where the request is at fault,
 * answered in its order. The ids of the runs follow from one, so that a repeated create makes no second ones.
 */
import { v7 } from 'uuid'
import type { Context, Reply } from '../../../bus/serve.js'
import type { CallHead } from '../../../schemas/calls.js'
import { fail } from '../../../schemas/errors.js'
import type { RunCreate } from '../../../schemas/runs.js'
import type { RunRow } from '../../../store/port.js'
import type { Deps } from '../context.js'
import { runText } from '../rows/text.js'
import { acceptNew, wakeWhenDue } from './accept.js'
import { KIND, type Once, recordedBy, recordOf, UNDER_WAY } from './idempotency.js'
import { prepare } from './prepare.js'

/** A batch with a key that was not finished in this time is taken up by a repeat. */
const UNDER_WAY_MS = 30_000
const MAX_TEXT = 1024 * 1024

interface Made {
  run_id: string
  text: string
  /** The batch is accepted as a whole. */
  done?: boolean
  begun_at?: number
}

export async function createBatch(
  deps: Deps,
  bodies: readonly RunCreate[],
  { head }: Context,
  once?: Once,
): Promise<Reply> {
  let first = head.run?.run_id ?? v7()
  const found = once === undefined ? null : await recordedBy<Made>(deps.store, once)
  if (found?.done) return { body: found.text }
  if (found !== null && found.run_id !== first) {
    if ((found.begun_at ?? 0) > Date.now() - UNDER_WAY_MS) throw fail('conflict', UNDER_WAY)
    first = found.run_id
  }
  const runs: RunRow[] = []
  for (const [i, body] of bodies.entries()) runs.push(await prepareOne(deps, body, head, nth(first, i), i))
  const text = `[${runs.map(run => runText({ ...run, status: 'pending' }))}]`
  if (once !== undefined && found === null) {
    const short =
      text.length <= MAX_TEXT ? text : `[${runs.map(run => runText({ ...run, status: 'pending', kwargs: '{}' }))}]`
    const made = { run_id: first, stateless: true, text: short, done: false, begun_at: Date.now() }
    const failed = await deps.store.apply([{ step: 'records.insert', row: recordOf(once, runs[0]!, made) }])
    if (failed !== -1) throw fail('conflict', UNDER_WAY)
  }
  const outcomes = await Promise.all(runs.map(run => acceptNew(deps, run)))
  if (once !== undefined) await markDone(deps, once)
  for (const [i, run] of runs.entries()) if (outcomes[i] === 'first') wakeWhenDue(deps, run)
  return { body: text }
}

async function prepareOne(deps: Deps, body: RunCreate, head: CallHead, run_id: string, i: number): Promise<RunRow> {
  const one: CallHead = { ...head, params: {}, run: { run_id, mode: 'background' } }
  return prepare(deps, body, one, run_id).catch(error => {
    if (error instanceof Error && 'code' in error) error.message = `[${i}]: ${error.message}`
    throw error
  })
}

async function markDone({ store }: Deps, { id }: Once): Promise<void> {
  const record = await store.records.get(KIND, id)
  if (record === null) return
  const body = JSON.stringify({ ...(JSON.parse(record.body) as Made), done: true })
  await store.apply([{ step: 'records.patch', kind: KIND, id, where: { rev: record.rev }, set: { body } }])
}

/** The id that comes `n` after `id`: the same again whenever it is asked. */
export function nth(id: string, n: number): string {
  const low = (Number.parseInt(id.slice(-8), 16) + n) % 2 ** 32
  return id.slice(0, -8) + low.toString(16).padStart(8, '0')
}
