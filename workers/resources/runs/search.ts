/**
 * Searching and counting the runs of an application, with and without a thread. The store narrows by what it has indexes for;
 * metadata, the text of the error and the filter of the caller are compared here. A search looks at a bounded number of runs:
 * its page may be short, and the cursor says where the next one begins.
 */
import type { Reply } from '../../../bus/serve.js'
import { containsAll } from '../../../schemas/contains.js'
import { parseJson } from '../../../schemas/exact.js'
import { isUuid } from '../../../schemas/ids.js'
import type { RunFilter, RunSearch, RunStatus } from '../../../schemas/runs.js'
import type { RunConditions, RunCursor, RunSummary } from '../../../store/rows/runs.js'
import { type Access, visibleThreads } from '../access.js'
import type { Deps } from '../context.js'
import { systemAssistantId } from '../rows/assistant.js'
import { openPause } from '../rows/pages.js'
import { runTexts } from './list.js'

/** Pages of the store in one search, and runs in such a page. */
const PAGES = 10
const PAGE = 500
/** Runs in the first page when not each of them may match. */
const LEAST = 50
/** Runs in a page when they are only counted. */
const COUNTED = 1_000
/** A run of another status has no error. */
const FAILED: readonly RunStatus[] = ['error', 'timeout', 'interrupted']

export async function search(deps: Deps, access: Access, body: RunSearch): Promise<Reply> {
  const limit = body.limit ?? 10
  const matching = matcherOf(deps, access, body)
  const query = { ...conditionsOf(access, body), order: body.sort_order ?? 'desc' } as const
  const found: RunSummary[] = []
  let next = body.cursor ? cursorOf(body.cursor) : null
  for (let page = 0; page < PAGES; page++) {
    const rest = limit - found.length
    const size = matching === null ? rest : page === 0 ? Math.min(PAGE, Math.max(LEAST, rest)) : PAGE
    const got = await deps.store.runs.search({ ...query, limit: size, ...(next === null ? {} : { after: next }) })
    const rows = matching === null ? got.rows : await matching(got.rows)
    found.push(...rows.slice(0, rest))
    next = got.next
    if (rows.length > rest) next = rows[rest - 1]!
    if (next === null || found.length === limit) break
  }
  return {
    body: await runTexts(deps, found, body.select ?? []),
    head: { headers: next === null ? {} : { 'X-Pagination-Next': `${next.created_at}_${next.run_id}` } },
  }
}

export async function count(deps: Deps, access: Access, filter: RunFilter): Promise<number> {
  const conditions = conditionsOf(access, filter)
  const matching = matcherOf(deps, access, filter)
  if (matching === null) return deps.store.runs.count(conditions)
  let found = 0
  for (let next: RunCursor | null = null; ; ) {
    const after: { after?: RunCursor } = next === null ? {} : { after: next }
    const page = await deps.store.runs.search({ ...conditions, order: 'asc', limit: COUNTED, ...after })
    found += (await matching(page.rows)).length
    if (page.next === null) return found
    next = page.next
  }
}

/** The conditions that the store compares. */
function conditionsOf({ app, keys }: Access, filter: RunFilter): RunConditions {
  const { graph_id, assistant_id, thread_id, key_id, with_thread, created_after, created_before } = filter
  const conditions: RunConditions = { app }
  const status = statusesOf(filter)
  if (status !== null) conditions.status = status
  if (graph_id) conditions.graph_id = graph_id
  if (assistant_id)
    conditions.assistant_id = isUuid(assistant_id) ? assistant_id.toLowerCase() : systemAssistantId(assistant_id)
  if (thread_id) conditions.thread_id = thread_id.toLowerCase()
  if (key_id) conditions.key_id = key_id
  if (with_thread != null) conditions.temporary = !with_thread
  if (created_after) conditions.from = Math.ceil(Date.parse(created_after))
  if (created_before) conditions.until = Math.ceil(Date.parse(created_before))
  if (keys.length > 0) conditions.thread_keys = keys
  return conditions
}

/** Null: any. Only runs that failed have the text of an error. */
function statusesOf({ status, text }: RunFilter): readonly RunStatus[] | null {
  const wanted = status == null ? [] : typeof status === 'string' ? [status] : status
  if (!text) return wanted.length === 0 ? null : wanted
  return wanted.length === 0 ? FAILED : FAILED.filter(one => wanted.includes(one))
}

/** Selects the runs that match the conditions which the store does not compare; null: it compares all of them. */
function matcherOf({ store }: Deps, access: Access, { metadata, text }: RunFilter) {
  const isAny = !metadata || Object.keys(metadata).length === 0
  if (isAny && !text && access.filter === null) return null
  const isContained = isAny ? null : containsAll(metadata)
  const part = text?.toLowerCase() ?? ''
  return async (rows: readonly RunSummary[]): Promise<RunSummary[]> => {
    const pause = openPause()
    const found: RunSummary[] = []
    for (const row of rows) {
      if (hasText(row, part) && (isContained === null || isContained(parseJson(row.metadata)))) found.push(row)
      await pause()
    }
    const isVisible = await visibleThreads(
      store,
      access,
      found.map(({ thread_id }) => thread_id),
    )
    return found.filter(({ thread_id }) => isVisible(thread_id))
  }
}

function hasText({ error: stored }: RunSummary, part: string): boolean {
  if (part === '') return true
  if (stored === null) return false
  const { error, message } = parseJson(stored) as { error: string; message: string }
  return `${error}: ${message}`.toLowerCase().includes(part)
}

const cursorOf = (text: string): RunCursor => {
  const [created_at, run_id] = text.split('_') as [string, string]
  return { created_at: Number(created_at), run_id }
}
