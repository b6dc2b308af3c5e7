/** What load balancers and people ask first (API: assistants-crons-store 5). */
import { open } from '../bus/serve.js'
import { fail } from '../schemas/errors.js'
import type { Tools } from './context.js'

export const system = ({ store, pools }: Tools) => ({
  check: open(async () => {
    await store.ping()
    return { body: '{"ok":true}' }
  }),
  /** Ready once the store answers and a graph worker has announced itself. */
  ready: open(async () => {
    await store.ping()
    if (pools.size === 0) throw fail('unavailable', 'No graph worker has announced itself yet')
    return { body: '{"ok":true}' }
  }),
})
