/**
 * Searching and counting threads (docs/spec/threads.md#search). The store narrows by ids, status and the keys of the
 * metadata, and gives pages in order; `contains` decides, before offset and limit. What a search reads is bounded by
 * its pages, and it gives way to other work between them.
 */
import { parseLarge } from '../../../bus/decode.js'
import { containsAll, keysOf } from '../../../schemas/contains.js'
import { fail } from '../../../schemas/errors.js'
import { jsonText, parseJson } from '../../../schemas/exact.js'
import { canonicalId } from '../../../schemas/ids.js'
import type { ThreadField, ThreadFilter, ThreadSearch } from '../../../schemas/threads.js'
import type { StateRow, ThreadQuery, ThreadRow } from '../../../store/rows/threads.js'
import { type Access, sees } from '../access.js'
import type { Deps } from '../context.js'
import { openPause } from '../rows/pages.js'
import { threadFields, threadText } from '../rows/text.js'
import { refreshState } from '../state/kept-state.js'
import { type Path, readPaths, valueAt } from './paths.js'

/** Threads in a page at most; at least LEAST when `values` are filtered, because the store cannot narrow by them. */
const PAGE = 200
const LEAST = 20
/** Threads in a page when they are only counted. */
const COUNTED = 1_000
/** Bytes of finished states in one read. */
const STATES = 16 * 1024 * 1024
/** Largest answer in bytes. */
const LARGEST = 128 * 1024 * 1024

interface Found {
  row: ThreadRow
  state: StateRow | null
}

/** `X-Pagination-Total` is exact on the last page; before it, it is one more than the threads known so far. */
export async function search(deps: Deps, access: Access, body: ThreadSearch) {
  const { limit, offset, sort_by, sort_order } = body
  const most = limit ?? 10
  const shape = shapeOf(body)
  const plain = isPlain(body, access)
  const query = { sort: sort_by ?? 'updated_at', order: sort_order ?? 'desc' } as const
  const pages = findMatching(deps, access, body, {
    ...query,
    limit: Math.min(PAGE, Math.max(body.values ? LEAST : 1, (plain ? 0 : (offset ?? 0)) + most + 1)),
    ...(plain && offset ? { skip: offset } : {}),
  })
  const texts: string[] = []
  let passed = plain ? (offset ?? 0) : 0
  let bytes = 0
  let more = false
  for await (const page of pages) {
    const rest = page.slice(Math.max(0, (offset ?? 0) - passed))
    passed += page.length - rest.length
    const taken = rest.slice(0, most - texts.length)
    for await (const found of shape.values ? withStates(deps, taken) : taken) {
      const text = shape.textOf(found)
      texts.push(text)
      if ((bytes += text.length) > LARGEST)
        throw fail(
          'too_large',
          `The threads found hold more than ${LARGEST} bytes: ask for fewer, or select less of each`,
        )
    }
    more = rest.length > taken.length
    if (more) break
  }
  const end = (offset ?? 0) + texts.length
  return {
    body: `[${texts.join()}]`,
    head: {
      headers: {
        'X-Pagination-Total': `${more ? end + 1 : end}`,
        ...(more ? { 'X-Pagination-Next': `${end}` } : {}),
      },
    },
  }
}

export async function count(deps: Deps, access: Access, filter: ThreadFilter): Promise<number> {
  if (isPlain({ ...filter, status: null }, access))
    return deps.store.threads.count(access.app, filter.status ?? undefined)
  let found = 0
  const query = { sort: 'thread_id', order: 'asc', limit: COUNTED } as const
  for await (const page of findMatching(deps, access, filter, query)) found += page.length
  return found
}

/** No condition narrows it. */
const isPlain = (
  { ids, status, metadata, values }: ThreadFilter & { ids?: string[] | null },
  { filter }: Access,
): boolean => filter === null && !ids?.length && !status && isEmpty(metadata) && !values
const isEmpty = (object: object | null | undefined): boolean =>
  object === null || object === undefined || Object.keys(object).length === 0

/** Matching threads, page by page; with their states when `values` are filtered. */
async function* findMatching(
  { store, ...deps }: Deps,
  access: Access,
  { ids, status, metadata, values }: ThreadFilter & { ids?: string[] | null },
  order: Pick<ThreadQuery, 'sort' | 'order' | 'limit' | 'skip'>,
): AsyncGenerator<Found[]> {
  const query: ThreadQuery = { app: access.app, ...order }
  if (ids?.length) query.ids = ids.map(canonicalId)
  if (status) query.status = status
  const keys = isEmpty(metadata) ? access.keys : [...keysOf(metadata), ...access.keys]
  if (keys.length > 0) query.keys = keys
  const isContained = containsAll(metadata)
  const isMine = (row: ThreadRow) =>
    sees(access, row.metadata) && (isEmpty(metadata) || isContained(parseJson(row.metadata)))
  const pause = openPause()
  for (;;) {
    const { rows, next } = await store.threads.list(query)
    const found: Found[] = []
    for (const row of rows) {
      if (isMine(row)) found.push({ row, state: null })
      await pause()
    }
    yield values ? await filterByValues({ store, ...deps }, found, values) : found
    if (next === null) return
    query.after = next
    delete query.skip
  }
}

async function filterByValues(deps: Deps, found: Found[], values: object): Promise<Found[]> {
  const words = wordsOf(values)
  const good: Found[] = []
  const isContained = containsAll(values)
  const pause = openPause()
  for await (const one of withStates(deps, found)) {
    const bytes = one.state?.values
    if (!bytes || !words.every(word => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).includes(word)))
      continue
    if (isContained(parseLarge(bytes))) good.push(one)
    await pause()
  }
  return good
}

/** Names and texts that appear literally in the JSON of every value that contains the filter. */
function wordsOf(filter: unknown): string[] {
  if (typeof filter === 'string') return PLAIN.test(filter) ? [`"${filter}"`] : []
  if (typeof filter !== 'object' || filter === null) return []
  if (Array.isArray(filter)) return filter.flatMap(wordsOf)
  return Object.entries(filter).flatMap(([key, value]) => [...wordsOf(key), ...wordsOf(value)])
}
const PLAIN = /^[\w .:-]+$/

/** Adds the state of each thread. A missing one is computed, as for a read of the thread. */
async function* withStates(deps: Deps, found: Found[]): AsyncGenerator<Found> {
  for (let at = 0; at < found.length; ) {
    const ids = found.slice(at).map(({ row }) => row.thread_id)
    const states = await deps.store.threads.states(ids, STATES)
    for (const state of states) yield refreshState(deps, found[at++]!.row, state)
    if (states.length === 0) return
  }
}

interface Shape {
  /** The values are needed. */
  values: boolean
  textOf(found: Found): string
}

function shapeOf({ select, extract }: ThreadSearch): Shape {
  const paths = extract ? readPaths(extract) : []
  const wanted = select?.length ? new Set<ThreadField>(select) : null
  return {
    values: wanted === null || wanted.has('values') || paths.some(([, path]) => path[0] === 'values'),
    textOf({ row, state }) {
      const isWanted = wanted === null ? undefined : (name: string) => wanted.has(name as ThreadField)
      const extracted = paths.length === 0 ? [] : [`"extracted":${extractedText(row, state, paths)}`]
      return threadText(row, state, { isWanted, more: extracted })
    },
  }
}

/** Parses each part of the thread once, and only the parts that a path needs. */
function extractedText(row: ThreadRow, state: StateRow | null, paths: [string, Path][]): string {
  const fields: { [name: string]: string | null } = threadFields(row, state)
  const parts = new Map<string | number, unknown>()
  const out = paths.map(([alias, [part, ...path]]) => {
    if (!parts.has(part!)) parts.set(part!, parseLarge(fields[part!] ?? 'null'))
    return `${jsonText(alias)}:${jsonText(valueAt(parts.get(part!), path))}`
  })
  return `{${out.join()}}`
}
