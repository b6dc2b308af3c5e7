// A store of the application's own, in memory. Some keys show what it is asked, and how it fails.
import { InMemoryStore } from '@langchain/langgraph'

class OwnStore extends InMemoryStore {
  async get(namespace, key) {
    if (key === 'broken') throw new Error('the database is gone')
    if (key === 'process') {
      const now = new Date()
      return { namespace, key, value: { pid: process.pid }, createdAt: now, updatedAt: now }
    }
    return super.get(namespace, key)
  }
}

export const open = async () => new OwnStore()
export const nothing = { put() {} }
