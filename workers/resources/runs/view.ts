/** A run as clients and edges get it. */

import { announceNews } from '../../../bus/events.js'
import type { Reply } from '../../../bus/serve.js'
import { time } from '../../../schemas/json.js'
import type { RunExecution, RunView, RunWait, StreamMode } from '../../../schemas/runs.js'
import type { FollowedRun } from '../../../schemas/thread-stream.js'
import type { RunRow, RunSummary } from '../../../store/rows/runs.js'
import type { Access } from '../access.js'
import type { Deps } from '../context.js'
import { runText } from '../rows/text.js'

/** Stream and wait need no body; the edge would drop it. */
export const answer = (run: RunRow, stateless: boolean): Reply => {
  const shown: RunRow = run.status === 'accepting' ? { ...run, status: 'pending' } : run
  return { head: { run: headOf(shown, stateless) }, ...(run.mode === 'background' ? { body: runText(shown) } : {}) }
}

/** A run as the edge needs it. */
export const headOf = (run: RunSummary, stateless: boolean, modes: StreamMode[] = []): RunView => ({
  run_id: run.run_id,
  thread_id: run.thread_id,
  stateless,
  pool: run.pool,
  resumable: run.resumable,
  on_disconnect: run.on_disconnect,
  status: run.status === 'accepting' ? 'pending' : run.status,
  attempt: run.attempt,
  last_event_id: run.last_event_id,
  resumable_until_id: run.resumable_until_id,
  joined_at: run.joined_at,
  from: run.mode === 'background' || run.mode === 'events' || run.status === 'pending' ? 'start' : 'live',
  stream_mode: modes,
  created_at: run.created_at,
  updated_at: run.updated_at,
})

/** Names of workers are not for a caller who sees only some threads. */
export const executionOf = (run: RunRow, { filter }: Access, waits_for: RunWait | null): RunExecution => ({
  run_id: run.run_id,
  attempt: run.attempt,
  pool: run.pool,
  worker: filter === null ? run.worker : null,
  started_at: run.started_at === null ? null : time(run.started_at),
  ended_at: run.ended_at === null ? null : time(run.ended_at),
  trace_id: run.traceparent?.split('-')[1] ?? null,
  waits_for,
})

/** Notifies the followers of the thread of the claim. Temporary threads have none. */
export function announceClaim({ link }: Deps, run: RunSummary): void {
  if (!run.temporary) announceNews(link, run.thread_id, { app: run.app, claimed: followedRun(run) })
}

export const followedRun = (run: RunSummary): FollowedRun => ({
  ...headOf(run, false),
  claim_no: run.claim_no ?? 0,
  events: run.mode === 'events',
})
