/** Records share one table: crons, deployments, keys and others, as the store keeps them. */

/**
 * An aggregate off the hot path (a cron, a deployment, a provider, a key …): its body as JSON text, beside it the columns
 * that the store may query.
 */
export interface RecordRow {
  kind: string
  app: string
  id: string
  /** The id of its parent: the thread of a cron, the deployment of a revision. '' = it has no parent. */
  parent: string
  /** Unique within kind and app; null = has none. */
  name: string | null
  rev: number
  /** JSON text. */
  body: string
  /** The keys that a search can narrow by (schemas/contains.ts keysOf); each is a plain token of at most 64 characters. */
  keys: string[]
  /** When the record is due; null = never. */
  due_at: number | null
  created_at: number
  updated_at: number
}

/** The columns by which records are listed; equal values are ordered by id. */
export type RecordSort = 'id' | 'created_at' | 'updated_at'

export interface RecordQuery {
  kind: string
  app?: string
  parent?: string
  /** Only records that have all of these, or the key `*` (schemas/contains.ts ANY_KEY). */
  keys?: readonly string[]
  sort?: RecordSort
  order?: 'asc' | 'desc'
  /** The end of the page before: its last row. */
  after?: Pick<RecordRow, RecordSort>
  limit: number
}
