/** Where an import reads: a server, a folder of a stopped development server, or a database of a checkpointer. */
import type { Assistant } from '../../../../schemas/assistants.js'
import type { Cron } from '../../../../schemas/crons.js'
import type { ThreadState } from '../../../../schemas/threads.js'
import type { Kind } from '../journal.js'

export interface Source {
  /** The name in the journal and the report: without a password. */
  readonly name: string
  /** Zero where it is not known: the bar then shows what was seen. */
  count(kind: Kind): Promise<number>
  /** Rows in pages. */
  assistants(): AsyncGenerator<Assistant[]>
  versions(assistant_id: string): Promise<Assistant[]>
  threads(): AsyncGenerator<SourceThread[]>
  /** States, newest first, at most `most`. `note`: what reading them lost. */
  history(thread_id: string, most: number): Promise<{ states: ThreadState[]; note?: string }>
  items(): AsyncGenerator<Item[]>
  crons(): AsyncGenerator<Cron[]>
  close(): Promise<void>
}

export interface SourceThread {
  thread_id: string
  metadata: { graph_id?: string; assistant_id?: string } | null
  ttl?: { ttl?: number; strategy?: 'delete' | 'keep_latest' } | null
}

export interface Item {
  namespace: string[]
  key: string
  value: object
}

export const PAGE = 100
