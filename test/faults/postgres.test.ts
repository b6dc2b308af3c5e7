import { startOwnPostgres, startPostgres } from '../helpers/stores/postgres-server.js'
import { sharedStoreFaults } from './shared-store.js'

sharedStoreFaults({
  start: startPostgres,
  startOwn: startOwnPostgres,
  envOf: async server => ({ DATABASE_URI: await server.url('postgres') }),
})
