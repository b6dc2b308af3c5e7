/** Ending a run that waits and must not start: after a cancel, or because a newer run replaces it. */
import { announceEnd, announceNews } from '../../../bus/events.js'
import { token } from '../../../schemas/ids.js'
import type { RunSummary } from '../../../store/rows/runs.js'
import type { Step } from '../../../store/steps.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import { countEnd } from './figures.js'
import { deliver } from './webhooks.js'

type DropStep = Extract<Step, { step: 'runs.patch' | 'runs.remove' }>

/** The run row becomes interrupted, with its webhook intent, or is removed. Fails once the run no longer waits. */
export function dropStep(run: RunSummary, action: 'interrupt' | 'rollback', reason: string, now: number): DropStep {
  const where = { status: ['accepting', 'pending'] as const }
  if (action === 'rollback') return { step: 'runs.remove', run_id: run.run_id, where }
  return {
    step: 'runs.patch',
    run_id: run.run_id,
    where,
    set: {
      status: 'interrupted',
      cancel: 'interrupt',
      cancel_due_at: null,
      cancel_reason: reason,
      ended_at: now,
      updated_at: now,
      last_event_id: -1,
      ...(run.temporary ? { result: Buffer.from('{}') } : {}),
      ...(run.webhook === null ? {} : { webhook_due_at: now }),
    },
  }
}

/** Notifies its readers and its webhook. */
export function announceDropped(deps: Deps, run: RunSummary): void {
  const { app, run_id, thread_id, temporary, webhook } = run
  const ending = { status: 'interrupted', last_event_id: -1, result: Buffer.from('{}'), error: null } as const
  announceEnd(deps.link, token('run', run_id), ending)
  countEnd(deps.link, run, 'interrupted', clock.now())
  if (!temporary) announceNews(deps.link, thread_id, { app, dropped: { run_id, status: 'interrupted' } })
  if (webhook !== null) void deliver(deps, run_id)
}
