import t from 'tap'
import { openMongo } from '../../store/mongo.js'
import type { Store } from '../../store/port.js'
import { startMongo } from '../helpers/mongo-server.js'
import { conformance } from './conformance.js'

const mongo = await startMongo()
t.teardown(() => mongo.stop())

const open = async () => {
  const url = mongo.url()
  let store: Store = await openMongo({ url })
  return {
    store,
    async reopen() {
      await store.close()
      store = await openMongo({ url })
      return store
    },
    remove: () => store.close(),
  }
}
conformance('MongoDB', open, { samples: 1_000 })
