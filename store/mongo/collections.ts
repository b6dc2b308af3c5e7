/**
 * The collections and their indexes: every query of the adapter has its index here, beside `_id`. Names and keys are a
 * promise: an index is never changed under its name.
 */
import type { Collection, CreateIndexesOptions, Db, IndexSpecification, MongoServerError } from 'mongodb'
import type { Doc } from './documents.js'

const COLLECTIONS = [
  'assistants',
  'versions',
  'threads',
  'states',
  'runs',
  'checkpoints',
  'blobs',
  'writes',
  'records',
  'items',
  'item_vectors',
  'parts',
] as const
export type CollectionName = (typeof COLLECTIONS)[number]
export type Collections = { readonly [name in CollectionName]: Collection<Doc> }

interface IndexRow {
  on: CollectionName
  name: string
  key: { [field: string]: 1 | -1 }
  options?: CreateIndexesOptions
}

const index = (on: CollectionName, name: string, key: IndexRow['key'], options?: CreateIndexesOptions): IndexRow => ({
  on,
  name,
  key,
  ...(options ? { options } : {}),
})
const some = (partialFilterExpression: object): CreateIndexesOptions => ({ partialFilterExpression })
/** The server's error code for a missing collection. */
const NO_COLLECTION = 26

const LISTED = some({ temporary: false })

export const INDEXES: readonly IndexRow[] = [
  index('assistants', 'by_id', { app: 1, assistant_id: 1 }),
  index('assistants', 'by_created', { app: 1, created_at: 1, assistant_id: 1 }),
  index('assistants', 'by_updated', { app: 1, updated_at: 1, assistant_id: 1 }),
  index('assistants', 'by_name', { app: 1, name: 1, assistant_id: 1 }),
  index('assistants', 'by_graph', { app: 1, graph_id: 1, assistant_id: 1 }),
  index('assistants', 'of_graph_by_created', { app: 1, graph_id: 1, created_at: 1, assistant_id: 1 }),
  index('assistants', 'of_graph_by_updated', { app: 1, graph_id: 1, updated_at: 1, assistant_id: 1 }),
  index('assistants', 'of_graph_by_name', { app: 1, graph_id: 1, name: 1, assistant_id: 1 }),
  index('versions', 'by_assistant', { app: 1, assistant_id: 1, version: -1 }),
  // Hidden threads are in no list. `temporary` is a column of its index, too, so that counting reads no thread.
  index('threads', 'by_id', { app: 1, _id: 1 }, LISTED),
  index('threads', 'by_status', { app: 1, temporary: 1, status: 1, _id: 1 }, LISTED),
  index('threads', 'of_status_by_updated', { app: 1, temporary: 1, status: 1, updated_at: 1, _id: 1 }, LISTED),
  index('threads', 'by_created', { app: 1, created_at: 1, _id: 1 }, LISTED),
  index('threads', 'by_updated', { app: 1, updated_at: 1, _id: 1 }, LISTED),
  index('threads', 'by_state', { app: 1, state_updated_at: 1, _id: 1 }, LISTED),
  index('assistants', 'by_key', { app: 1, _keys: 1 }),
  index('threads', 'by_key', { app: 1, _keys: 1 }, LISTED),
  index('threads', 'expired', { expires_at: 1 }, some({ expires_at: { $gt: 0 } })),
  index('threads', 'busy_by_updated', { updated_at: 1, _id: 1 }, some({ status: 'busy' })),
  index('threads', 'removing', { _removing: 1 }, some({ _removing: { $gt: 0 } })),
  index('runs', 'by_thread', { thread_id: 1, created_at: -1, _id: -1 }),
  index('runs', 'open_by_created', { _open: 1, created_at: 1, _id: 1 }, some({ _open: true })),
  index('runs', 'by_created', { app: 1, created_at: 1, _id: 1 }),
  index('runs', 'by_status', { app: 1, status: 1, created_at: 1, _id: 1 }),
  index('runs', 'by_graph', { app: 1, graph_id: 1, created_at: 1, _id: 1 }),
  index('runs', 'by_assistant', { app: 1, assistant_id: 1, created_at: 1, _id: 1 }),
  index('runs', 'by_key', { app: 1, key_id: 1, created_at: 1, _id: 1 }, some({ key_id: { $gt: '' } })),
  index('runs', 'temporary', { app: 1, created_at: 1, _id: 1 }, some({ temporary: true })),
  index('runs', 'of_key', { key_id: 1 }, some({ _open: true, key_id: { $gt: '' } })),
  index('runs', 'running', { status: 1, _id: 1 }, some({ status: 'running' })),
  index('runs', 'start_due', { due_at: 1 }, some({ status: 'pending', due_at: { $gt: 0 } })),
  index(
    'runs',
    'ready',
    { app: 1, pool: 1, tenant: 1, priority: 1, created_at: 1, _id: 1 },
    some({ status: 'pending', ready_at: { $gt: 0 } }),
  ),
  index('runs', 'claimed', { thread_id: 1, claim_no: 1 }, some({ claim_no: { $gte: 0 } })),
  index('runs', 'webhook_due', { webhook_due_at: 1 }, some({ webhook_due_at: { $gt: 0 } })),
  index('runs', 'cancel_due', { cancel_due_at: 1 }, some({ cancel_due_at: { $gt: 0 } })),
  index('runs', 'expired', { ended_at: 1 }, some({ temporary: true, ended_at: { $gt: 0 } })),
  index('checkpoints', 'by_seq', { thread_id: 1, seq: -1 }),
  index('checkpoints', 'by_ns', { thread_id: 1, ns: 1, seq: -1 }),
  index('checkpoints', 'by_id', { thread_id: 1, id: 1, seq: -1 }),
  index('blobs', 'by_thread', { thread_id: 1, _id: 1 }),
  index('writes', 'by_thread', { thread_id: 1, _id: 1 }),
  index('writes', 'by_checkpoint', { of: 1 }),
  index('records', 'by_name', { kind: 1, app: 1, name: 1 }, { unique: true }),
  index('records', 'by_id', { kind: 1, id: 1 }),
  index('records', 'by_parent', { kind: 1, parent: 1 }),
  index('records', 'by_key', { kind: 1, keys: 1 }),
  index('records', 'by_created', { kind: 1, created_at: 1, id: 1 }),
  index('records', 'by_updated', { kind: 1, updated_at: 1, id: 1 }),
  index('records', 'due', { kind: 1, due_at: 1, id: 1 }, some({ due_at: { $gt: 0 } })),
  index('items', 'by_path', { app: 1, path: 1, updated_at: -1, key: 1 }),
  index('items', 'by_updated', { app: 1, updated_at: -1, path: -1, key: -1 }),
  index('items', 'indexed', { app: 1, updated_at: 1, path: 1, key: 1 }, some({ _indexed: true })),
  index('items', 'by_key', { app: 1, _keys: 1 }),
  index('items', 'uncopied', { app: 1, _copied: 1 }, some({ _indexed: true })),
  index('items', 'expired', { expires_at: 1 }, some({ expires_at: { $gt: 0 } })),
  index('item_vectors', 'of_item', { of: 1, updated_at: 1 }),
  index('parts', 'by_thread', { thread_id: 1, run_id: 1 }),
]

export const collections = (db: Db): Collections =>
  Object.fromEntries(COLLECTIONS.map(name => [name, db.collection<Doc>(name)])) as never

/**
 * Makes the indexes that are missing; throws one sentence when there is another one under a name of ours, or when one
 * cannot be made. Existing indexes are read first: not every server refuses a second index of the same name.
 */
export async function ensureIndexes(db: Db): Promise<void> {
  for (const on of COLLECTIONS) {
    const wanted = INDEXES.filter(row => row.on === on)
    const collection = db.collection(on)
    if (wanted.length === 0) continue
    const keys = new Map(wanted.map(({ name, key }) => [name, JSON.stringify(key)]))
    for (const { name, key } of await indexesOf(collection))
      if (keys.has(name) && keys.get(name) !== JSON.stringify(key))
        throw new Error(
          `The index ${name} of ${db.databaseName}.${on} is not the one Weft needs: drop it, Weft makes it again`,
        )
    await collection
      .createIndexes(
        wanted.map(({ name, key, options }) => ({ name, key: key as IndexSpecification as never, ...options })),
      )
      .catch(error => {
        throw new Error(`The indexes of ${db.databaseName}.${on} cannot be made: ${(error as Error).message}`)
      })
  }
}

/** None of a collection that is not there yet. */
async function indexesOf(collection: Collection): Promise<{ name: string; key: object }[]> {
  try {
    return (await collection.listIndexes().toArray()) as unknown as { name: string; key: object }[]
  } catch (error) {
    if ((error as MongoServerError).code === NO_COLLECTION) return []
    throw error
  }
}
