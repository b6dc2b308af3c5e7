/** Deletes a thread: hides it, stops its runs, removes what belongs to it (docs/spec/threads.md#routes). */
import { setTimeout as sleep } from 'node:timers/promises'
import { announceEnd, announceNews } from '../../../bus/events.js'
import { purgeEvents, purgeSpans } from '../../../bus/streams.js'
import { token } from '../../../schemas/ids.js'
import { isTerminal } from '../../../schemas/runs.js'
import type { RunSummary } from '../../../store/rows/runs.js'
import type { ThreadRow } from '../../../store/rows/threads.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import { clearCrons } from '../crons/record.js'
import { activeSettings } from '../rows/app-settings.js'
import { pages } from '../rows/pages.js'
import { HALF_MADE_MS } from '../rows/thread-ttl.js'
import { cancel, ignoreEnded, REASONS } from '../runs/cancel.js'
import { WATCH_MS } from '../runs/holders.js'
import { clearKeys } from '../runs/idempotency.js'
import { askHost } from '../state/ask-graph.js'

/**
 * How long a run may take to stop, also one whose worker is dead; then its thread is removed without it, and its saves are
 * refused.
 */
const STOP_MS = WATCH_MS + 5_000

/** Runs are not examined when they were created earlier than the lifetime of stored streams and this. */
const LONGEST_RUN_MS = 24 * 3_600_000

const PAGE = 500

const AT_ONCE = 32

/**
 * Hides the thread, stops its runs, removes everything. Repeatable; an idle thread is removed in one write. `copies`: also
 * those of a checkpointer that the application brings; else the thread stays. Nobody can remove them once the application is gone.
 */
export async function removeThread(deps: Deps, row: ThreadRow, { copies = true } = {}): Promise<void> {
  const { store } = deps
  const { thread_id } = row
  if (row.active !== null || row.queue.length > 0) {
    await hide(deps, row)
    await stopRuns(deps, row.app, thread_id)
  }
  if (copies) await removeCopies(deps, row)
  const runs = await findReadable(deps, thread_id)
  await store.apply([clearCrons(thread_id), clearKeys(thread_id), { step: 'threads.remove', thread_id }])
  announceNews(deps.link, thread_id, { app: row.app, removed: true })
  for (let at = 0; at < runs.length; at += AT_ONCE)
    await Promise.all(runs.slice(at, at + AT_ONCE).map(run => endStream(deps, run)))
  // A thread that no run was claimed on has none.
  if (row.claim_no > 0) await purgeSpans(deps.link, deps.mux, token('thread', thread_id))
}

/** Its checkpoints in the checkpointer of the application (`checkpointer.path`). */
async function removeCopies(deps: Deps, { app, thread_id }: ThreadRow): Promise<void> {
  const found = await activeSettings(deps, 'app_checkpointer', app)
  if (found !== null) await askHost(deps, { app, thread_id, graph_id: found.graph_id }, { verb: 'forget' })
}

/** Clients no longer see it or add runs to it, and the sweeper removes it after a crash. */
async function hide({ store }: Deps, row: ThreadRow): Promise<void> {
  let known: ThreadRow | null = row
  while (known !== null && !known.temporary) {
    const set = { temporary: true, ttl: null, expires_at: clock.now() + HALF_MADE_MS }
    const where = { rev: known.rev }
    if ((await store.apply([{ step: 'threads.patch', thread_id: row.thread_id, where, set }])) === -1) return
    known = await store.threads.get(row.app, row.thread_id)
  }
}

async function stopRuns(deps: Deps, app: string, thread_id: string): Promise<void> {
  const until = performance.now() + STOP_MS
  const signalled = new Set<string>()
  for (let pause = 5; performance.now() < until; pause = Math.min(pause * 2, 100)) {
    const row = await deps.store.threads.get(app, thread_id)
    if (row === null || (row.active === null && row.queue.length === 0)) return
    for (const { run_id } of [...row.queue, ...(row.active === null ? [] : [row.active])]) {
      if (signalled.has(run_id)) continue
      signalled.add(run_id)
      await cancel(deps, run_id, 'interrupt', REASONS.thread).catch(ignoreEnded)
    }
    await sleep(pause)
  }
}

/** Runs that may still have readers: those that have not ended, and those with a stored stream. */
async function findReadable({ store, config }: Deps, thread_id: string): Promise<RunSummary[]> {
  const since = clock.now() - config.resumable_ttl_ms
  const found: RunSummary[] = []
  const read = (after: RunSummary | undefined) => store.runs.list({ thread_id, limit: PAGE, after })
  for await (const page of pages(read, PAGE)) {
    found.push(...page.filter(run => !isTerminal(run.status) || (run.resumable && (run.ended_at ?? since) >= since)))
    if (page.at(-1)!.created_at < since - LONGEST_RUN_MS) break
  }
  return found
}

/** Ends the streams of a removed run, and removes its stored stream. */
async function endStream({ link, mux }: Deps, { run_id, status, resumable }: RunSummary): Promise<void> {
  const run = token<'run'>('run', run_id)
  if (!isTerminal(status))
    announceEnd(link, run, { status: 'interrupted', last_event_id: -1, result: Buffer.from('{}'), error: null })
  if (resumable) await purgeEvents(link, mux, run)
}
