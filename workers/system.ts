/** What load balancers and people ask first (API: assistants-crons-store 5). */
import { open } from '../bus/serve.js'
import { fail } from '../schemas/errors.js'
import { appOf } from './apps.js'
import type { Tools } from './context.js'

export const system = ({ store, apps, alarms }: Tools) => ({
  check: open(async () => {
    await store.ping()
    return { body: '{"ok":true}' }
  }),
  /** Ready once the store answers and a graph worker has announced itself; not while the clock is wrong. */
  ready: open(async (_, { head }) => {
    await store.ping()
    if (!(await apps.ready(appOf(head)))) throw fail('unavailable', 'No graph worker has announced itself yet')
    const off = alarms.off()
    if (off !== null)
      throw fail(
        'unavailable',
        `The clock of a resource worker is ${Math.abs(off)} ms ${off > 0 ? 'ahead of' : 'behind'} the broker's: crons and delayed runs do not start there`,
      )
    return { body: '{"ok":true}' }
  }),
})
