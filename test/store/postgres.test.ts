import t from 'tap'
import type { Store } from '../../store/port.js'
import { openPostgres } from '../../store/postgres.js'
import { startPostgres } from '../helpers/stores/postgres-server.js'
import { conformance } from './conformance.js'

t.setTimeout(300_000)
const postgres = await startPostgres()
t.teardown(() => postgres.stop())

conformance(
  'PostgreSQL',
  async () => {
    const url = await postgres.url()
    let store: Store = await openPostgres({ url })
    return {
      store,
      async reopen() {
        await store.close()
        store = await openPostgres({ url })
        return store
      },
      remove: () => store.close(),
    }
  },
  { samples: 1_000, many: 2_500 },
)
