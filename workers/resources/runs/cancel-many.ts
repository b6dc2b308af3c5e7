/** POST /runs/cancel (API: threads-and-runs 11): the named runs of a thread, or all of a status. */
import type { Context, Reply } from '../../../bus/serve.js'
import { fail, WeftError } from '../../../schemas/errors.js'
import { isTerminal, type RunsCancel } from '../../../schemas/runs.js'
import type { RunPlace, RunSummary } from '../../../store/port.js'
import { appOf } from '../apps.js'
import type { Deps } from '../context.js'
import { type Action, actionOf, cancel, REASONS } from './cancel.js'

/** Cancelled at once. */
const AT_ONCE = 200

export async function cancelMany(deps: Deps, body: RunsCancel, { head }: Context): Promise<Reply> {
  const action = actionOf(head)
  const { status, thread_id, run_ids } = body
  const names = thread_id && run_ids
  if (status ? thread_id || run_ids : !names)
    throw fail('invalid', 'expected either status, or thread_id together with run_ids')
  const selected = status
    ? await cancelAll(deps, appOf(head), status === 'all' ? ['pending', 'running'] : [status], action)
    : await cancelNamed(deps, appOf(head), thread_id!, run_ids!, action)
  if (selected === 0) throw fail('not_found', 'No run found to cancel')
  return { head: { status: 204 } }
}

async function cancelAll(deps: Deps, app: string, status: ('pending' | 'running')[], action: Action): Promise<number> {
  let selected = 0
  for (let after: RunPlace | undefined; ; ) {
    const page = await deps.store.runs.active(app, status, AT_ONCE, after)
    await cancelEach(deps, page, action)
    selected += page.length
    if (page.length < AT_ONCE) return selected
    after = page.at(-1)
  }
}

async function cancelNamed(
  deps: Deps,
  app: string,
  thread_id: string,
  run_ids: readonly string[],
  action: Action,
): Promise<number> {
  let selected = 0
  const ids = [...new Set(run_ids.map(id => id.toLowerCase()))]
  for (let at = 0; at < ids.length; at += AT_ONCE) {
    const rows = await deps.store.runs.summary(ids.slice(at, at + AT_ONCE))
    const mine = rows.filter(
      row => row.app === app && row.thread_id === thread_id.toLowerCase() && row.status !== 'accepting',
    )
    selected += mine.length
    await cancelEach(
      deps,
      mine.filter(row => !isTerminal(row.status)),
      action,
    )
  }
  return selected
}

/** One that has ended meanwhile is no failure. */
const cancelEach = (deps: Deps, rows: readonly RunSummary[], action: Action) =>
  Promise.all(
    rows.map(({ run_id }) =>
      cancel(deps, run_id, action, REASONS.client).catch(error => {
        if (!(error instanceof WeftError) || error.code !== 'conflict') throw error
      }),
    ),
  )
