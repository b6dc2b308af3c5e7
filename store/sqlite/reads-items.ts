/** The queries of items. A namespace is stored as a path, so that a prefix of labels is a range of the primary key. */
import type { KeyCondition } from '../../schemas/items/keys.js'
import { ITEM, labelsOfPath, pathOf } from '../columns.js'
import type { ItemKey, ItemQuery, ItemRow } from '../rows/items.js'
import type { Param, Row } from './database.js'
import { type Ask, FEW, fewest, give, type Query, type Read } from './query.js'

/** Takes the place of FEW when a walk over this many rows has not filled the page. */
const MANY = 50_000
const WALKED = 20_000
/** Rows that are walked first, for each row of the page: enough for a condition that every seventh item meets. */
const FIRST = 8

export function itemReads(ask: Ask) {
  const { get, all } = ask

  /**
   * Few items below the prefix are read and sorted; among many, the walk in the order of the list finds a page soon.
   * Without statistics SQLite would always walk.
   */
  function indexOf(app: string, range: readonly string[], params: readonly Param[]): string {
    if (range.length === 0) return 'items_by_updated'
    const below = `SELECT 1 FROM items WHERE ${['app = ?', ...range].join(' AND ')} LIMIT ${FEW + 1}`
    const [count] = get(`SELECT count(*) FROM (${below})`, [app, ...params]) as [number]
    return count > FEW ? 'items_by_updated' : 'sqlite_autoindex_items_1'
  }

  /** The rows with a key in one of the ranges. */
  const meeting =
    ({ app, prefix }: ItemQuery) =>
    (ranges: KeyCondition) => {
      const [range, params] = below(prefix)
      return {
        sql: [...ranges.map(() => 'key BETWEEN ? AND ?'), "key = '*'"]
          .map(one => `SELECT path, item FROM item_keys WHERE ${['app = ?', one, ...range].join(' AND ')}`)
          .join(' UNION ALL '),
        params: [...ranges.flatMap(({ from, to }) => [app, from, to, ...params]), app, ...params],
      }
    }

  /** The time of the row after `walked` others in the order of the list; null: there are not so many. */
  function boundOf({ app, after }: ItemQuery, walked: number): number | null {
    const beyond = after === undefined ? [] : [after.updated_at, pathOf(after.namespace), after.key]
    const where = after === undefined ? '' : 'AND (updated_at, path, key) < (?, ?, ?)'
    const row = get(
      `SELECT updated_at FROM items INDEXED BY items_by_updated WHERE app = ? ${where}
        ORDER BY updated_at DESC, path DESC, key DESC LIMIT 1 OFFSET ?`,
      [app, ...beyond, walked],
    )
    return row === undefined ? null : (row[0] as number)
  }

  /** `few`: the rows that are followed; null: all, in order, down to the time `bound`. Ids first: values may be large. */
  function page(
    { app, prefix, now, after, limit, conditions = [] }: ItemQuery,
    few: Query | null,
    bound: number | null,
  ): Row[] {
    const [range, params] = below(prefix)
    const wheres = ['items.app = ?', ...range.map(one => `items.${one}`), LIVES, ...conditions.map(meets)]
    const values: Param[] = [...(few?.params ?? []), app, ...params, now]
    values.push(...conditions.flatMap(ranges => ranges.flatMap(({ from, to }) => [from, to])))
    if (after !== undefined) {
      wheres.push('(items.updated_at, items.path, items.key) < (?, ?, ?)')
      values.push(after.updated_at, pathOf(after.namespace), after.key)
    }
    if (bound !== null) {
      wheres.push('items.updated_at >= ?')
      values.push(bound)
    }
    if (few !== null) wheres.push('items.path = few.path AND items.key = few.item')
    const from =
      few === null ? `items INDEXED BY ${indexOf(app, range, params)}` : `(${few.sql}) AS few CROSS JOIN items`
    const order = 'ORDER BY items.updated_at DESC, items.path DESC, items.key DESC'
    const found = `FROM ${from} WHERE ${wheres.join(' AND ')} ${order} LIMIT ?`
    const columns = ITEM.map(column => `items.${column}`)
    // A walk in order reads no more than it answers.
    if (few === null) return all(`SELECT ${columns} ${found}`, [...values, limit])
    return all(`SELECT ${columns} FROM items WHERE rowid IN (SELECT items.rowid ${found}) ${order}`, [...values, limit])
  }

  return {
    'items.get': (_, app: string, { namespace, key }: ItemKey, now: number) =>
      get(`SELECT ${ITEM} FROM items WHERE app = ? AND path = ? AND key = ? AND ${LIVES}`, [
        app,
        pathOf(namespace),
        key,
        now,
      ]),

    'items.many': (_, app: string, items: readonly ItemKey[], now: number) =>
      items.flatMap(
        ({ namespace, key }) =>
          [
            get(`SELECT ${ITEM} FROM items WHERE app = ? AND path = ? AND key = ? AND ${LIVES}`, [
              app,
              pathOf(namespace),
              key,
              now,
            ]),
          ].filter(row => row !== undefined) as Row[],
      ),

    'items.indexed': (_, app: string, after: ItemKey & { updated_at: number }, limit: number) =>
      all(
        `SELECT path, key, updated_at FROM items INDEXED BY items_indexed WHERE app = ? AND vectors IS NOT NULL
          AND (updated_at, path, key) > (?, ?, ?) ORDER BY updated_at, path, key LIMIT ?`,
        [app, after.updated_at, pathOf(after.namespace), after.key, limit],
      ),

    'items.vectors': (transfer, app: string, items: readonly ItemKey[]) =>
      items.flatMap(({ namespace, key }) => {
        const row = get(
          'SELECT path, key, updated_at, vectors FROM items WHERE app = ? AND path = ? AND key = ? AND vectors IS NOT NULL',
          [app, pathOf(namespace), key],
        )
        return row === undefined ? [] : [give(transfer, row)]
      }),

    /**
     * Conditions that few meet are followed. Among many, the walk in the order of the list mostly finds a page soon; when it
     * does not among the next rows, they are the older ones, and following the conditions is shorter again.
     */
    'items.list': (_, query: ItemQuery) => {
      const { conditions = [], limit } = query
      const queries = conditions.map(meeting(query))
      const few = fewest(ask, queries)
      if (few !== null || conditions.length === 0) return page(query, few, null)
      for (const walked of [Math.min(WALKED, FIRST * limit), WALKED]) {
        const bound = boundOf(query, walked)
        const near = page(query, null, bound)
        if (bound === null || near.length === limit) return near
      }
      return page(query, fewest(ask, queries, MANY), null)
    },

    /** One look into the index for each namespace: the items between two namespaces are not read. */
    'items.namespaces': (
      _,
      { app, prefix, now, after, limit }: Omit<ItemQuery, 'after'> & { after?: readonly string[] },
    ) => {
      const [[begin = 'path >= ?', ...ends], [from = '', ...to]] = below(prefix)
      const found: string[] = []
      for (let last = after === undefined ? null : pathOf(after); found.length < limit; ) {
        // One lower bound: SQLite begins at the first that it reads, and compares another one with every row in between.
        const row = get(
          `SELECT path FROM items WHERE ${['app = ?', last === null ? begin : 'path > ?', ...ends, LIVES].join(' AND ')}
            ORDER BY path LIMIT 1`,
          [app, last ?? from, ...to, now],
        )
        if (row === undefined) break
        found.push((last = row[0] as string))
      }
      return found
    },

    'items.expired': (_, now: number, limit: number) =>
      all('SELECT app, path, key FROM items WHERE expires_at <= ? ORDER BY expires_at LIMIT ?', [now, limit]),
  } satisfies { [name: string]: Read }
}

/** The row of a raw result; null when there is none. */
export function itemOf(row: Row | undefined | null): ItemRow | null {
  if (!row) return null
  const [app, path, key, value, created_at, updated_at, ttl, expires_at] = row as [
    ...[string, string, string, string],
    ...[number, number, number | null, number | null],
  ]
  return { app, namespace: labelsOfPath(path), key, value, created_at, updated_at, ttl, expires_at }
}

/** The item has a key in one of the ranges, or too many to tell. Its own list is shorter than any walk of the index. */
const meets = (ranges: KeyCondition): string =>
  `EXISTS (SELECT 1 FROM json_each(items.keys) AS own WHERE ${[...ranges.map(() => 'own.value BETWEEN ? AND ?'), "own.value = '*'"].join(' OR ')})`
const LIVES = '(expires_at IS NULL OR expires_at > ?)'

/** The conditions that a path is at or below the prefix. */
function below(prefix: readonly string[]): [wheres: string[], params: Param[]] {
  if (prefix.length === 0) return [[], []]
  const path = pathOf(prefix)
  // `/` is the character after the dot.
  return [
    ['path >= ?', 'path < ?'],
    [path, `${path.slice(0, -1)}/`],
  ]
}
