/** GET /threads/{id}/runs (docs/spec/runs.md#routes): newest first, by status and by metadata, a page at a time. */
import type { Context, Reply } from '../../../bus/serve.js'
import { containsAll } from '../../../schemas/contains.js'
import { fail } from '../../../schemas/errors.js'
import { jsonText, parseJson } from '../../../schemas/exact.js'
import { merge } from '../../../schemas/json.js'
import { readInteger, readNames, readObject } from '../../../schemas/query.js'
import { RUN_FIELDS, type RunStatus } from '../../../schemas/runs.js'
import type { RunQuery, RunSummary } from '../../../store/rows/runs.js'
import { accessOf } from '../access.js'
import type { Deps } from '../context.js'
import { openPause, pages } from '../rows/pages.js'
import { runText } from '../rows/text.js'
import { requireThread } from '../rows/thread.js'

const STATUSES = ['pending', 'running', 'error', 'success', 'timeout', 'interrupted'] as const satisfies RunStatus[]
/** Runs in a page when metadata decides. */
const PAGE = 500
/** Payloads of one answer, in characters. */
const MAX_TEXT = 64 * 1024 * 1024

export async function list(deps: Deps, { head }: Context): Promise<Reply> {
  const query = new URLSearchParams(head.query)
  const limit = readInteger(query, 'limit', 10, 1, 1_000)
  const offset = readInteger(query, 'offset', 0, 0, Number.MAX_SAFE_INTEGER)
  const status = readNames(query, 'status', STATUSES)
  const select = readNames(query, 'select', RUN_FIELDS)
  const metadata = readObject(query, 'metadata')
  const { thread_id } = await requireThread(deps.store, accessOf(head, 'threads:read'), head.params?.thread_id ?? '')
  const wanted: RunQuery = { thread_id, limit, ...(status.length === 0 ? {} : { status }) }
  const rows =
    metadata === null
      ? await deps.store.runs.list({ ...wanted, skip: offset })
      : await findMatching(deps, wanted, metadata, offset)
  return { body: await runTexts(deps, rows, select) }
}

async function findMatching({ store }: Deps, query: RunQuery, metadata: object, offset: number): Promise<RunSummary[]> {
  const found: RunSummary[] = []
  const isContained = containsAll(metadata)
  const pause = openPause()
  const read = (after: RunSummary | undefined) => store.runs.list({ ...query, limit: PAGE, after })
  for await (const page of pages(read, PAGE))
    for (const row of page) {
      await pause()
      if (!isContained(parseJson(row.metadata))) continue
      found.push(row)
      if (found.length === offset + query.limit) return found.slice(offset)
    }
  return found.slice(offset)
}

/** Reads payloads only when they are selected, because they can be large. */
export async function runTexts(
  { store }: Deps,
  rows: readonly RunSummary[],
  select: readonly string[],
): Promise<string> {
  const wantsPayload = select.length === 0 || select.includes('kwargs')
  const out: string[] = []
  let size = 0
  for (const row of rows) {
    const kwargs = wantsPayload ? (await store.runs.get(row.run_id))?.kwargs : '{}'
    // The run was removed meanwhile.
    if (kwargs === undefined) continue
    const text = runText({ ...row, kwargs, result: null })
    out.push(select.length === 0 ? text : selectFields(text, select))
    size += text.length
    if (size > MAX_TEXT)
      throw fail(
        'too_large',
        `The payloads of these runs exceed ${MAX_TEXT} bytes; ask for fewer, or select without kwargs`,
      )
  }
  return `[${out.join()}]`
}

function selectFields(text: string, select: readonly string[]): string {
  const run = parseJson(text) as { [name: string]: unknown }
  return jsonText(merge(Object.fromEntries(select.map(name => [name, run[name] ?? null]))))
}
