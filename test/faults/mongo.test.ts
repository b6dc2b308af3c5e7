import { startMongo, startOwnMongo } from '../helpers/stores/mongo-server.js'
import { sharedStoreFaults } from './shared-store.js'

sharedStoreFaults({
  start: startMongo,
  startOwn: startOwnMongo,
  envOf: async server => ({ MONGODB_URL: server.url('weft') }),
})
