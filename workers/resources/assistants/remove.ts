/**
 * Deleting an assistant with its versions and crons; its runs are stopped, and with `threads` its threads deleted too
 * (docs/spec/assistants.md#routes). The assistant is removed last, so that an interrupted delete can be repeated.
 */
import { contains, keysOf } from '../../../schemas/contains.js'
import { parseJson } from '../../../schemas/exact.js'
import type { AssistantRow } from '../../../store/rows/assistants.js'
import type { RecordRow } from '../../../store/rows/records.js'
import type { RunSummary } from '../../../store/rows/runs.js'
import type { ThreadQuery } from '../../../store/rows/threads.js'
import { type Access, sees } from '../access.js'
import type { Deps } from '../context.js'
import { assistantKey, CRON } from '../crons/record.js'
import { pages } from '../rows/pages.js'
import { each } from '../rows/record.js'
import { cancel, ignoreEnded, REASONS } from '../runs/cancel.js'
import { removeThread } from '../threads/remove.js'

const PAGE = 200

/** `threads`: which of its threads are deleted too; null: none. */
export async function removeAssistant(
  deps: Deps,
  row: AssistantRow,
  { threads }: { threads: Access | null },
): Promise<void> {
  const { app, assistant_id } = row
  await removeCrons(deps, row)
  await stopRuns(deps, row)
  if (threads !== null) await removeThreads(deps, row, threads)
  await deps.store.apply([{ step: 'assistants.remove', app, assistant_id }])
  // Rows that were created meanwhile.
  await removeCrons(deps, row)
  await stopRuns(deps, row)
}

async function removeCrons({ store }: Deps, { app, assistant_id }: AssistantRow): Promise<void> {
  const crons: RecordRow[] = []
  for await (const cron of each(store, { kind: CRON, app, keys: [assistantKey(assistant_id)] })) crons.push(cron)
  for (const { id } of crons) await store.apply([{ step: 'records.remove', kind: CRON, id, where: {} }])
}

async function stopRuns(deps: Deps, { app, assistant_id }: AssistantRow): Promise<void> {
  const read = (after: RunSummary | undefined) => deps.store.runs.active(app, ['pending', 'running'], PAGE, after)
  for await (const page of pages(read, PAGE)) {
    const runs = page.filter(run => run.assistant_id === assistant_id)
    await Promise.all(runs.map(run => cancel(deps, run.run_id, 'interrupt', REASONS.assistant).catch(ignoreEnded)))
  }
}

async function removeThreads(deps: Deps, { app, assistant_id }: AssistantRow, access: Access): Promise<void> {
  const wanted = { assistant_id }
  const query: ThreadQuery = {
    app,
    keys: [...keysOf(wanted), ...access.keys],
    sort: 'thread_id',
    order: 'asc',
    limit: PAGE,
  }
  for (;;) {
    const { rows, next } = await deps.store.threads.list(query)
    for (const row of rows)
      if (contains(parseJson(row.metadata), wanted) && sees(access, row.metadata)) await removeThread(deps, row)
    if (next === null) return
    query.after = next
  }
}
