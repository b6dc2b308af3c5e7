/** Assistants and their versions, as the store keeps them. */

export interface AssistantRow {
  app: string
  assistant_id: string
  graph_id: string
  name: string
  description: string | null
  /** JSON text, as are context and metadata. */
  config: string
  context: string
  metadata: string
  version: number
  created_at: number
  updated_at: number
}

/** One version of an assistant. It never changes. */
export type AssistantVersionRow = Omit<AssistantRow, 'updated_at'>

type AssistantSort = 'assistant_id' | 'graph_id' | 'name' | 'created_at' | 'updated_at'

export interface AssistantQuery {
  app: string
  graph_id?: string
  /** The metadata has all of these keys (schemas/contains.ts), or too many keys to tell. */
  keys?: readonly string[]
  sort: AssistantSort
  order: 'asc' | 'desc'
  /** The last row of the page before. */
  after?: AssistantRow
  limit: number
}
