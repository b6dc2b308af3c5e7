/** An index changes how fast an answer is, and nothing else: also on the server of the tests, which has our own indexes. */
import { type Collection, type Filter, type FindOptions, MongoClient, type UpdateFilter } from 'mongodb'
import t from 'tap'
import { type Doc, key } from '../../store/mongo/documents.js'
import { randomOf } from '../faults/harness/random.js'
import { startMongo } from '../helpers/stores/mongo-server.js'

const SEED = 20_261_125
const ROUNDS = 400

const random = randomOf(SEED)
const mongo = await startMongo()
t.teardown(() => mongo.stop())
const client = await MongoClient.connect(mongo.url())
t.teardown(() => client.close())
const indexed = client.db().collection<Doc>('indexed')
const plain = client.db().collection<Doc>('plain')
await indexed.createIndexes([
  { name: 'by_status', key: { app: 1, status: 1, _id: 1 }, partialFilterExpression: { temporary: false } },
  { name: 'by_created', key: { app: 1, created_at: -1, _id: -1 } },
  { name: 'mixed', key: { app: 1, created_at: -1, status: 1 } },
  { name: 'due', key: { due_at: 1 }, partialFilterExpression: { status: 'pending', due_at: { $gt: 0 } } },
  { name: 'numbered', key: { number: 1 }, partialFilterExpression: { number: { $gte: 0 } } },
  { name: 'named', key: { name: 1 }, partialFilterExpression: { open: true, name: { $gt: '' } } },
  { name: 'running', key: { status: 1, _id: 1 }, partialFilterExpression: { status: 'running' } },
  { name: 'by_key', key: { app: 1, keys: 1 } },
])

const app = () => random.pick(['a', 'b'])
const status = () => random.pick(['pending', 'running', 'success'])
const number = () => random.between(-2, 6)
const name = () => random.pick(['', 'x', 'y', 'ä'])
const or = <T>(value: () => T): T | null => (random.next() < 0.2 ? null : value())
const fields = () => ({
  app: app(),
  status: status(),
  temporary: random.next() < 0.5,
  created_at: number(),
  due_at: or(number),
  ...(random.next() < 0.7 ? { number: number() } : {}),
  ...(random.next() < 0.5 ? { open: true } : {}),
  name: or(name),
  keys: random.pick([[], ['k'], ['k', 'l'], ['*']]),
})
const id = () => key('doc', random.between(1, 120))

const conditions: (() => Filter<Doc>)[] = [
  () => ({ app: app() }),
  () => ({ status: status() }),
  () => ({ temporary: false }),
  () => ({ status: { $in: [status(), status()] } }),
  () => ({ created_at: { $gte: number() } }),
  () => ({ created_at: { $gt: number(), $lte: number() } }),
  () => ({ due_at: { $gt: 0, $lte: number() } }),
  () => ({ due_at: null }),
  () => ({ number: { $gte: 0 } }),
  () => ({ number: { $gte: number() } }),
  () => ({ number: { $gt: number() } }),
  () => ({ name: { $eq: name(), $gt: '' } }),
  () => ({ open: true }),
  () => ({ keys: { $in: ['k', '*'] } }),
  () => ({ keys: { $elemMatch: { $gte: 'k', $lt: 'l' } } }),
  () => ({ keys: random.pick(['l', 'm']) }),
  () => ({ name: { $in: [name(), null] } }),
  () => ({ name: { $lte: name() }, due_at: { $gte: '' } }),
  () => ({ _id: { $gt: id() } }),
  () => ({ _id: { $in: [id(), id(), id()] } }),
  () => ({ $or: [{ status: status() }, { created_at: { $lt: number() } }] }),
]
const query = (): Filter<Doc> => {
  const all = Array.from({ length: random.between(0, 4) }, () => random.pick(conditions)())
  return random.next() < 0.5 ? Object.assign({}, ...all) : { $and: [{}, ...all] }
}
/** The id last: without it the order of equal values is the server's choice. */
const sort = (): NonNullable<FindOptions['sort']> => {
  const [by, ways] = [
    random.pick(['created_at', 'status', 'due_at']),
    random.pick([
      [1, 1],
      [-1, -1],
      [1, -1],
    ] as const),
  ]
  return random.pick([{ [by]: ways[0], _id: ways[1] }, { app: 1, [by]: ways[0], _id: ways[1] }, { _id: ways[1] }])
}
const update = (): UpdateFilter<Doc> =>
  random.pick([
    { $set: { status: status(), created_at: number() } },
    { $set: { keys: ['m'], due_at: number() } },
    { $unset: { open: '' } },
    { $push: { keys: 'k' } as never },
  ])

/** The same filter in a form that Matcher.java leaves to the library. */
const byLibrary = (filter: Filter<Doc>): Filter<Doc> => ({ $nor: [{ $nor: [filter] }] })

/** The same for both; what they answer must be equal. */
async function same<T>(
  t: { same(found: unknown, wanted: unknown, what: string): void },
  what: string,
  ask: (on: Collection<Doc>) => Promise<T>,
): Promise<void> {
  t.same(await ask(indexed), await ask(plain), what)
}

t.test(`${ROUNDS} changes and queries, seed ${SEED}`, async t => {
  for (let round = 0; round < ROUNDS; round++) {
    const [_id, doc, change, filter] = [id(), fields(), update(), query()]
    const changes: ((on: Collection<Doc>) => Promise<unknown>)[] = [
      on => on.replaceOne({ _id }, { ...doc }, { upsert: true }).then(({ matchedCount }) => matchedCount),
      on => on.updateOne({ _id }, change).then(({ matchedCount }) => matchedCount),
      on => on.deleteOne({ _id }).then(({ deletedCount }) => deletedCount),
      on => on.updateMany(filter, { $set: { marked: round } }).then(({ matchedCount }) => matchedCount),
    ]
    await same(t, `change ${round}`, changes[Math.floor(random.next() ** 2 * changes.length)]!)
    const asked = query()
    const options: FindOptions = { sort: sort(), skip: random.pick([0, 0, 2]), limit: random.pick([0, 1, 5]) }
    const text = JSON.stringify({ asked, options })
    await same(t, `query ${round}: ${text}`, on => on.find(on === plain ? byLibrary(asked) : asked, options).toArray())
    await same(t, `count ${round}: ${text}`, on => on.countDocuments(asked))
  }
})
