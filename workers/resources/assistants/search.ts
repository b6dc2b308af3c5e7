/** Searching and counting assistants (docs/spec/assistants.md#routes). */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Reply } from '../../../bus/serve.js'
import type { AssistantCount, AssistantField, AssistantSearch } from '../../../schemas/assistants.js'
import { contains, keysOf } from '../../../schemas/contains.js'
import { fail } from '../../../schemas/errors.js'
import { parseJson } from '../../../schemas/exact.js'
import type { AssistantQuery, AssistantRow } from '../../../store/rows/assistants.js'
import { type Access, sees } from '../access.js'
import type { Deps } from '../context.js'
import { pages } from '../rows/pages.js'
import { assistantFields, assistantText } from '../rows/text.js'

const PAGE = 200
/** The longest work between two turns of the event loop. */
const SLICE_MS = 5
/** Characters of an answer. */
const MAX_TEXT = 64 * 1024 * 1024

/** `X-Pagination-Next` is there only when more rows exist. */
export async function searchAssistants(deps: Deps, access: Access, body: AssistantSearch): Promise<Reply> {
  const from = body.offset ?? 0
  const to = from + (body.limit ?? 10)
  const wanted = body.select?.length ? new Set<AssistantField>(body.select) : null
  const texts: string[] = []
  let size = 0
  let passed = 0
  // One more than is asked for tells whether there is a next page.
  const order = { sort: body.sort_by ?? 'created_at', order: body.sort_order ?? 'desc' } as const
  for await (const row of matching(deps, access, body, order, body.name ? PAGE : Math.min(PAGE, to + 1))) {
    if (passed++ < from) continue
    if (passed > to) break
    const text = wanted === null ? assistantText(row) : selected(row, wanted)
    texts.push(text)
    if ((size += text.length) > MAX_TEXT)
      throw fail('too_large', `These assistants exceed ${MAX_TEXT} characters; ask for fewer, or select less of each`)
  }
  const more = passed > to
  const headers = {
    'X-Pagination-Total': `${more ? to + 1 : Math.min(from, passed) + texts.length}`,
    ...(more ? { 'X-Pagination-Next': `${to}` } : {}),
  }
  return { body: `[${texts.join()}]`, head: { headers } }
}

export async function countAssistants(deps: Deps, access: Access, filter: AssistantCount): Promise<number> {
  const { graph_id, name, metadata } = filter
  const all = !name && Object.keys(metadata ?? {}).length === 0 && access.filter === null
  if (all) return deps.store.assistants.count({ app: access.app, ...(graph_id ? { graph_id } : {}) })
  let found = 0
  // Not the order of the body: a count does not check the fields of a search.
  for await (const _ of matching(deps, access, filter, { sort: 'created_at', order: 'desc' })) found++
  return found
}

/** Lets other calls run in between. */
async function* matching(
  { store }: Deps,
  access: Access,
  { graph_id, name, metadata }: AssistantCount,
  order: Pick<AssistantQuery, 'sort' | 'order'>,
  limit = PAGE,
): AsyncGenerator<AssistantRow> {
  const keys = [...keysOf(metadata ?? {}), ...access.keys]
  const query: AssistantQuery = { app: access.app, ...order, keys, limit }
  if (graph_id) query.graph_id = graph_id
  const part = name?.toLowerCase() ?? ''
  const filtered = metadata && Object.keys(metadata).length > 0
  const read = (after: AssistantRow | undefined) =>
    store.assistants.list(after === undefined ? query : { ...query, after })
  let slice = performance.now()
  for await (const page of pages(read, limit))
    for (const row of page) {
      if (performance.now() - slice > SLICE_MS) {
        await nextTurn()
        slice = performance.now()
      }
      if (part !== '' && !row.name.toLowerCase().includes(part)) continue
      if (filtered && !contains(parseJson(row.metadata), metadata)) continue
      if (!sees(access, row.metadata)) continue
      yield row
    }
}

const selected = (row: AssistantRow, wanted: ReadonlySet<AssistantField>): string =>
  `{${Object.entries(assistantFields(row))
    .filter(([name]) => wanted.has(name as AssistantField))
    .map(([name, text]) => `"${name}":${text}`)
    .join()}}`
