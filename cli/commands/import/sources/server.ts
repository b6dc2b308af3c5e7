/** A server of the same API as the source of an import. */
import type { Assistant } from '../../../../schemas/assistants.js'
import type { Cron } from '../../../../schemas/crons.js'
import type { ThreadState } from '../../../../schemas/threads.js'
import { type Client, pages } from '../../client.js'
import type { Kind } from '../journal.js'
import { type Item, PAGE, type Source, type SourceThread } from './source.js'

const COUNTS: { readonly [kind in Kind]: string | null } = {
  assistants: '/assistants/count',
  threads: '/threads/count',
  crons: '/runs/crons/count',
  items: null,
}

export function serverSource(from: Client, name = from.url): Source {
  /** In the order of creation, so that rows that are made meanwhile come last. */
  const search = <T>(path: string): AsyncGenerator<T[]> =>
    pages<T>(PAGE, offset => {
      const body = { limit: PAGE, offset, sort_by: 'created_at', sort_order: 'asc' }
      return from.ask<T[]>('POST', path, { body, patient: true })
    })
  return {
    name,
    async count(kind) {
      const path = COUNTS[kind]
      return path === null ? 0 : from.ask<number>('POST', path, { body: {} }).catch(() => 0)
    },
    assistants: () => search<Assistant>('/assistants/search'),
    versions: id => from.ask('POST', `/assistants/${id}/versions`, { body: { limit: 1_000 }, patient: true }),
    threads: () => search<SourceThread>('/threads/search'),
    async history(thread_id, most) {
      const states: ThreadState[] = []
      for (;;) {
        const limit = Math.min(PAGE, most - states.length)
        const before = states.at(-1)?.checkpoint
        const body = { limit, ...(before ? { before } : {}) }
        const page = await from.ask<ThreadState[]>('POST', `/threads/${thread_id}/history`, { body, patient: true })
        states.push(...page)
        if (page.length < limit || states.length >= most) return { states }
      }
    },
    async *items() {
      // Searches under a prefix find everything below it, so the top labels are enough.
      const { namespaces } = await from.ask<{ namespaces: string[][] }>('POST', '/store/namespaces', {
        body: { max_depth: 1, limit: 1_000 },
      })
      for (const namespace_prefix of namespaces)
        yield* pages(PAGE, async offset => {
          const body = { namespace_prefix, limit: PAGE, offset }
          const { items } = await from.ask<{ items: Item[] }>('POST', '/store/items/search', { body, patient: true })
          return items
        })
    },
    crons: () => search<Cron>('/runs/crons/search'),
    async close() {},
  }
}
