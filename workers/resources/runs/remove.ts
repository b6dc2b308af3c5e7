/**
 * DELETE of a run (docs/spec/runs.md#routes): its row, its checkpoints and its events; the thread follows the latest
 * checkpoint that remains. One that is pending or running is refused, or with `force` rolled back, which is the same.
 */
import type { Context, Reply } from '../../../bus/serve.js'
import { purgeEvents, purgeSpans } from '../../../bus/streams.js'
import { fail } from '../../../schemas/errors.js'
import { token } from '../../../schemas/ids.js'
import { isTrue } from '../../../schemas/query.js'
import { isTerminal, TERMINAL } from '../../../schemas/runs.js'
import type { RunSummary } from '../../../store/rows/runs.js'
import type { Step } from '../../../store/steps.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import { statusOf } from '../rows/thread-status.js'
import { refreshLater } from '../state/final-state.js'
import { refreshState } from '../state/kept-state.js'
import { cancel, REASONS } from './cancel.js'
import { stripKey } from './idempotency.js'
import { headOf } from './view.js'

/** An answer with a run: it was signalled to stop, and is removed when it has ended. */
export async function remove(deps: Deps, row: RunSummary, { head }: Context): Promise<Reply> {
  if (!isTerminal(row.status)) {
    if (!isTrue(new URLSearchParams(head.query).get('force')))
      throw fail('conflict', `Run ${row.run_id} is ${row.status}: cancel it first, or delete it with force=1`)
    const ended = await cancel(deps, row.run_id, 'rollback', REASONS.client).then(
      () => false,
      error => error.code === 'conflict' || Promise.reject(error),
    )
    if (!ended) return { head: { status: 202, run: headOf(row, false) } }
  }
  await deps.serialize(row.thread_id, () => removeEnded(deps, row))
  await stripKey(deps.store, row)
  const run = token<'run'>('run', row.run_id)
  if (row.resumable) await purgeEvents(deps.link, deps.mux, run)
  await purgeSpans(deps.link, deps.mux, token('thread', row.thread_id), run)
  deps.link.log.info({ run_id: row.run_id, thread_id: row.thread_id }, 'run deleted')
  return { head: { status: 204 } }
}

/** Every step removes a part of the run, and a repeat does the rest; its row is removed last. */
async function removeEnded(deps: Deps, { app, run_id, thread_id }: RunSummary): Promise<void> {
  const { store } = deps
  const removal: Step[] = [
    { step: 'checkpoints.rollback', thread_id, run_id },
    { step: 'runs.remove', run_id, where: { status: TERMINAL } },
  ]
  for (;;) {
    const [thread, [run]] = await Promise.all([store.threads.get(app, thread_id), store.runs.summary([run_id])])
    if (thread === null || run === undefined) return
    const isKept =
      thread.latest_checkpoint_id === null || (await remains(deps, run, thread.latest_checkpoint_id)) !== null
    const head = isKept ? thread.latest_checkpoint_id : ((await remains(deps, run))?.id ?? null)
    if (isKept) {
      await store.apply(removal)
      return
    }
    const now = clock.now()
    const set = {
      latest_checkpoint_id: head,
      settled: 'idle' as const,
      status: statusOf({ ...thread, settled: 'idle' }),
      error: null,
      interrupts: '{}',
      left_by: null,
      updated_at: now,
      state_updated_at: now,
    }
    const failed = await store.apply([
      { step: 'threads.patch', thread_id, where: { rev: thread.rev }, set },
      { step: 'threads.state', thread_id, latest_checkpoint_id: head, values: null, rest: null },
      ...removal,
    ])
    if (failed === 0) continue
    // The status that follows from the checkpoint; a read of the thread would compute it, too.
    const row = { ...thread, ...set, rev: thread.rev + 1 }
    const { state } = await refreshState(deps, row, await store.threads.state(thread_id))
    if (head !== null && thread.active === null && state?.rest == null) refreshLater(deps, row)
    return
  }
}

/** The checkpoint, or without an id the latest one, that remains without the run. */
const remains = ({ store }: Deps, { thread_id, run_id }: RunSummary, checkpoint_id?: string) =>
  store.checkpoints.get({
    thread_id,
    ns: '',
    without_run: run_id,
    ...(checkpoint_id === undefined ? {} : { checkpoint_id }),
  })
