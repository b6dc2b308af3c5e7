import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { MongoClient } from 'mongodb'
import t from 'tap'
import { root } from '../../cli/root.js'
import { type CollectionName, INDEXES } from '../../store/mongo/collections.js'
import { openMongo } from '../../store/mongo.js'
import type { Store } from '../../store/port.js'
import { startMongo } from '../helpers/stores/mongo-server.js'
import { conformance } from './conformance.js'

t.setTimeout(300_000)
const mongo = await startMongo()
t.teardown(() => mongo.stop())

/** Everything that the promises ask of the database is called here, too: `every query has its index`. */
const commands: { name: string; command: { [field: string]: unknown } }[] = []
const onCommand = (name: string, command: { [field: string]: unknown }) => commands.push({ name, command })

conformance(
  'MongoDB',
  async () => {
    const url = mongo.url()
    let store: Store = await openMongo({ url, onCommand })
    return {
      store,
      async reopen() {
        await store.close()
        store = await openMongo({ url })
        return store
      },
      remove: () => store.close(),
    }
  },
  { samples: 300, many: 500 },
)

t.test('every query has its index', async t => {
  const shapes = new Map<string, { on: CollectionName; filter: Filter; sort: Filter }>()
  for (const { name, command } of commands)
    for (const shape of shapesOf(name, command).filter(({ filter }) => !EMPTIES.has(keysOf(filter).join())))
      shapes.set(JSON.stringify([shape.on, keysOf(shape.filter), shape.sort]), shape)
  t.ok(shapes.size > 40, `${shapes.size} shapes`)
  const served = new Set<string>()
  for (const [text, { on, filter, sort }] of shapes) {
    const indexes = indexesFor(on, filter, sort)
    t.ok(indexes.length > 0, text)
    for (const name of indexes) served.add(`${on}.${name}`)
  }
  for (const { on, name } of INDEXES) t.ok(served.has(`${on}.${name}`), `${on}.${name} is there for a query`)

  // A real server says itself what it does; one that has no explain says so.
  const url = mongo.url()
  await (await openMongo({ url })).close()
  const client = await new MongoClient(url).connect()
  t.teardown(() => client.close())
  const db = client.db()
  for (const [text, { on, filter, sort }] of shapes) {
    const plan = await db
      .command({
        explain: { find: on, filter, ...(Object.keys(sort).length > 0 ? { sort } : {}) },
        verbosity: 'queryPlanner',
      })
      .catch(error => (error as { codeName?: string }).codeName)
    if (plan === 'CommandNotFound') return t.comment('this server has no explain')
    t.notMatch(JSON.stringify(plan), /COLLSCAN/, text)
  }
})

/** Collections that are sharded, as docs/scaling.md says: the key, and how many shapes of queries ask all shards at most. */
const SHARDS = new Map(
  [
    ...(readFileSync(join(root, 'docs/scaling.md'), 'utf8').split('<!-- shard-keys -->')[1] ?? '').matchAll(
      /^\| `(\w+)` \| `(\w+)` \| (\d+) \|/gm,
    ),
  ].map(([, on = '', key = '', scattered = '']) => [on, { key, scattered: Number(scattered) }]),
)

t.test('the shard keys of docs/scaling.md: every write reaches one shard', async t => {
  t.ok(SHARDS.size > 0)
  const scattered = new Map([...SHARDS.keys()].map(on => [on, new Set<string>()]))
  for (const { name, command } of commands) {
    const on = command[name] as string
    const { key } = SHARDS.get(on) ?? {}
    if (key === undefined) continue
    if (name === 'insert') for (const doc of command.documents as Filter[]) t.ok(key in doc, `an insert into ${on}`)
    // An update of one document, and above all an insert by an update, is refused or sent to all without the key.
    const single = [
      ...(name === 'update' ? (command.updates as { q: Filter; multi?: boolean }[]).filter(({ multi }) => !multi) : []),
      ...(name === 'findAndModify' ? [{ q: command.query as Filter }] : []),
    ]
    for (const { q } of single) if (!names(q, key)) t.fail(`${name} of ${on} by ${keysOf(q)}`)
    for (const { filter } of shapesOf(name, command))
      if (!names(filter, key) && !EMPTIES.has(keysOf(filter).join())) scattered.get(on)!.add(keysOf(filter).join())
  }
  for (const [on, { scattered: most }] of SHARDS) {
    const found = [...scattered.get(on)!]
    t.ok(found.length <= most, `${on}: ${found.length} shapes instead of ${most}: ${found.join(' | ')}`)
  }
})

/** Whether a filter gives one value, or a list of values, of a column. */
const names = (filter: Filter, column: string): boolean =>
  isEqual(filter, column) ||
  (typeof filter[column] === 'object' && filter[column] !== null && '$in' in (filter[column] as object))

/** The columns by which `truncate`, a call for tests, reads whole collections; no other query has these alone. */
const EMPTIES = new Set(['', 'settled', 'status'])

type Filter = { [field: string]: unknown }
const COMMANDS: { [name: string]: string } = { find: 'filter', findAndModify: 'query' }

/** Where, by what and in which order a command looks for documents. */
function shapesOf(name: string, command: Filter): { on: CollectionName; filter: Filter; sort: Filter }[] {
  const on = command[name] as CollectionName
  const sort = plain((command.sort ?? {}) as Filter | Map<string, unknown>)
  if (on === ('meta' as string)) return []
  if (name === 'update' || name === 'delete')
    return (command[`${name}s`] as { q: Filter }[]).map(({ q }) => ({ on, filter: q, sort: {} }))
  if (name === 'aggregate') {
    const [{ $match }] = command.pipeline as [{ $match?: Filter }]
    return $match === undefined ? [] : [{ on, filter: $match, sort: {} }]
  }
  const field = COMMANDS[name]
  return field === undefined ? [] : [{ on, filter: command[field] as Filter, sort }]
}

const plain = (sort: Filter | Map<string, unknown>): Filter => (sort instanceof Map ? Object.fromEntries(sort) : sort)

/** The columns that a filter names, those of `$and` included: their values differ from call to call. */
const keysOf = (filter: Filter): string[] =>
  [
    ...Object.keys(filter).filter(name => !name.startsWith('$')),
    ...((filter.$and ?? []) as Filter[]).flatMap(keysOf),
  ].sort()

/**
 * The indexes that can serve a query, `_id` by itself or those of the table: each of its columns before those of the order is
 * asked for, those of the order follow in one direction, and a partial one is of the documents that are asked for.
 */
function indexesFor(on: CollectionName, filter: Filter, sort: Filter): string[] {
  const asked = new Set(keysOf(filter))
  if (asked.has('_id') && (isOne(filter) || Object.keys(sort).length === 0)) return ['_id']
  const order = Object.entries(sort) as [string, number][]
  return INDEXES.filter(({ on: of, key, options }) => {
    if (of !== on) return false
    const partial = (options?.partialFilterExpression ?? {}) as Filter
    if (!Object.keys(partial).every(column => asked.has(column) && filter[column] !== null)) return false
    const columns = Object.entries(key)
    // The documents with a key are few: the server sorts them.
    if (columns.some(([column]) => column === '_keys')) return asked.has('_keys')
    let at = 0
    while (at < columns.length && isEqual(filter, columns[at]![0])) at++
    if (order.length === 0) return at > 0 || asked.has(columns[0]![0])
    // One value needs no order.
    const left = order.filter(([column]) => !isEqual(filter, column))
    const rest = columns.slice(at)
    const ways = left.map(([column, way], i) => (rest[i]?.[0] === column ? rest[i]![1] * way : 0))
    return ways.every(way => way !== 0 && way === ways[0]) && (at > 0 || left.length > 0)
  }).map(({ name }) => name)
}

const isOne = ({ _id }: Filter): boolean => typeof _id === 'string'
const isEqual = (filter: Filter, column: string): boolean =>
  column in filter
    ? typeof filter[column] !== 'object'
    : ((filter.$and ?? []) as Filter[]).some(one => isEqual(one, column))
