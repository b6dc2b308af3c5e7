/** POST /runs/cancel (docs/spec/runs.md#cancel): the named runs of a thread, or all of a status. */

import type { Context, Reply } from '../../../bus/serve.js'
import { fail } from '../../../schemas/errors.js'
import { canonicalId } from '../../../schemas/ids.js'
import { isTerminal, type RunsCancel } from '../../../schemas/runs.js'
import type { RunSummary } from '../../../store/rows/runs.js'
import { type Access, accessOf, seesThread, visibleThreads } from '../access.js'
import type { Deps } from '../context.js'
import { pages } from '../rows/pages.js'
import { type Action, actionOf, cancel, ignoreEnded, REASONS } from './cancel.js'

/** Runs cancelled at the same time. */
const AT_ONCE = 200

export async function cancelMany(deps: Deps, body: RunsCancel, { head }: Context): Promise<Reply> {
  const action = actionOf(head)
  const { status, thread_id, run_ids } = body
  const names = thread_id && run_ids
  if (status ? thread_id || run_ids : !names)
    throw fail('invalid', 'expected either status, or thread_id together with run_ids')
  const access = accessOf(head, 'threads:update')
  const selected = status
    ? await cancelAll(deps, access, status === 'all' ? ['pending', 'running'] : [status], action)
    : await cancelNamed(deps, access, thread_id!, run_ids!, action)
  if (selected === 0) throw fail('not_found', 'No run found to cancel')
  return { head: { status: 204 } }
}

async function cancelAll(
  deps: Deps,
  access: Access,
  status: ('pending' | 'running')[],
  action: Action,
): Promise<number> {
  let selected = 0
  const read = (after: RunSummary | undefined) => deps.store.runs.active(access.app, status, AT_ONCE, after)
  for await (const page of pages(read, AT_ONCE)) {
    const isVisible = await visibleThreads(deps.store, access, threadsOf(page))
    const mine = page.filter(({ thread_id }) => isVisible(thread_id))
    await cancelEach(deps, mine, action)
    selected += mine.length
  }
  return selected
}

async function cancelNamed(
  deps: Deps,
  access: Access,
  thread_id: string,
  run_ids: readonly string[],
  action: Action,
): Promise<number> {
  const thread = canonicalId(thread_id)
  if (!(await seesThread(deps.store, access, thread))) return 0
  let selected = 0
  const ids = [...new Set(run_ids.map(canonicalId))]
  for (let at = 0; at < ids.length; at += AT_ONCE) {
    const rows = await deps.store.runs.summary(ids.slice(at, at + AT_ONCE))
    const mine = rows.filter(row => row.app === access.app && row.thread_id === thread && row.status !== 'accepting')
    selected += mine.length
    await cancelEach(
      deps,
      mine.filter(row => !isTerminal(row.status)),
      action,
    )
  }
  return selected
}

const threadsOf = (rows: readonly RunSummary[]) => rows.map(({ thread_id }) => thread_id)

const cancelEach = (deps: Deps, rows: readonly RunSummary[], action: Action) =>
  Promise.all(rows.map(({ run_id }) => cancel(deps, run_id, action, REASONS.client).catch(ignoreEnded)))
