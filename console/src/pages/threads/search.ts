/** Which threads a person looks for: the server knows metadata, status and graph; words are looked for here. */
import { ask } from '../../api/client'
import { TITLE, type Titled, titleOf } from './title'

export interface Row extends Titled {
  status: string
  metadata: { [name: string]: unknown } | null
  created_at: string
  updated_at: string
}

export interface Asked {
  status: string
  graph: string
  /** Words, an id, or `name:value` of the metadata. */
  text: string
  offset: number
  /** Threads that are looked at when words are asked for. */
  depth: number
}

export interface Found {
  rows: Row[]
  /** Threads that were looked at, the newest first; null when the server has found the rows. */
  looked: number | null
  /** There are older threads. */
  more: boolean
}

export const PAGE = 25
export const DEPTH = 1_000
/** Most threads of one search. */
const LOOK = 200
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

export async function findThreads({ status, graph, text, offset, depth }: Asked, signal: AbortSignal): Promise<Found> {
  const named = metadataIn(text)
  const metadata = { ...named, ...(graph === '' ? {} : { graph_id: graph }) }
  const search = (limit: number, from: number) =>
    ask<Row[]>('/threads/search', {
      method: 'POST',
      body: {
        limit,
        offset: from,
        sort_by: 'updated_at',
        sort_order: 'desc',
        ...(status === '' ? {} : { status }),
        ...(Object.keys(metadata).length === 0 ? {} : { metadata }),
        ...(UUID.test(text) ? { ids: [text.toLowerCase()] } : {}),
        select: ['thread_id', 'status', 'updated_at', 'created_at', 'metadata'],
        extract: TITLE,
      },
      signal,
    })
  if (!isWords(text)) {
    const rows = await search(PAGE, offset)
    return { rows, looked: null, more: rows.length === PAGE }
  }
  const words = text.toLowerCase().split(/\s+/)
  const rows: Row[] = []
  for (let looked = 0; ; ) {
    const page = await search(LOOK, looked)
    looked += page.length
    rows.push(...page.filter(row => words.every(word => textOf(row).includes(word))))
    if (page.length < LOOK || looked >= depth) return { rows, looked, more: page.length === LOOK }
  }
}

/** Whether the server cannot look for it. */
export const isWords = (text: string): boolean => text !== '' && !UUID.test(text) && metadataIn(text) === null

const textOf = (row: Row): string => `${titleOf(row)} ${row.thread_id} ${JSON.stringify(row.metadata)}`.toLowerCase()

/** `{"user": "ada"}` and `user:ada`; null for anything else. */
function metadataIn(text: string): { [name: string]: unknown } | null {
  if (text.startsWith('{')) {
    const value = parsed(text)
    return typeof value === 'object' && value !== null ? (value as { [name: string]: unknown }) : null
  }
  const [, name, value] = /^([\w.-]+):(\S.*)$/.exec(text) ?? []
  return name === undefined || value === undefined ? null : { [name]: parsed(value) }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
