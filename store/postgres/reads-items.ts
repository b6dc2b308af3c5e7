/** The queries of items. A namespace is stored as a path, so that a prefix of labels is a range of the primary key. */
import type { KeyCondition } from '../../schemas/items/keys.js'
import { exact, ITEM, labelsOfPath, pathOf, plain } from '../columns.js'
import type { Store } from '../port.js'
import type { ItemKey, ItemQuery, ItemRow } from '../rows/items.js'
import type { Param, Query, Row } from './connection.js'
import { FEW, fewest, type Narrow, RARE } from './fewest.js'

/** Takes the place of FEW (fewest.ts) when a walk over this many rows has not filled the page. */
const MANY = 50_000
const WALKED = 20_000
/** Rows that are walked first, for each row of the page: enough for a condition that every seventh item meets. */
const FIRST = 8

const COLUMNS = ITEM.map(column => `items.${column}`).join()
const LIVES = '(expires_at IS NULL OR expires_at > ?)'
const ORDER = 'ORDER BY items.updated_at DESC, items.path DESC, items.key DESC'

export function itemReads(query: Query): Store['items'] {
  const items = async (text: string, params: Param[]) => (await query(text, params)).rows.map(itemOf)

  /** The time of the row after `walked` others in the order of the list; null: there are not so many. */
  async function boundOf({ app, after }: ItemQuery, walked: number): Promise<number | null> {
    const { rows } = await query(
      `SELECT updated_at FROM weft.items WHERE app = ? ${after === undefined ? '' : 'AND (updated_at, path, key) < (?, ?, ?)'}
        ORDER BY updated_at DESC, path DESC, key DESC LIMIT 1 OFFSET ?`,
      [app, ...(after === undefined ? [] : placeOf(after)), walked],
    )
    return (rows[0]?.[0] as number | undefined) ?? null
  }

  /** `few`: the rows that are followed; null: all, in order, down to the time `bound`. Ids first: values may be large. */
  async function page(wanted: ItemQuery, few: Narrow | null, bound: number | null): Promise<ItemRow[]> {
    const { app, prefix, now, after, limit, conditions = [] } = wanted
    // Those that are followed are below the prefix.
    const [range, params] = few === null ? below(prefix) : [[], []]
    // A condition on an expression: the walk is in the order of the list, not in that of the paths.
    const ranges = range.map(one => one.replace('path', "(items.path || '')"))
    const wheres = ['items.app = ?', ...ranges, LIVES, ...conditions.map(meets)]
    const values: Param[] = [...(few === null ? [] : [...few.params, app]), app, ...params, now]
    values.push(...conditions.flatMap(ranges => ranges.flatMap(({ from, to }) => [from, to])))
    if (after !== undefined) {
      wheres.push('(items.updated_at, items.path, items.key) < (?, ?, ?)')
      values.push(...placeOf(after))
    }
    if (bound !== null) {
      wheres.push('items.updated_at >= ?')
      values.push(bound)
    }
    values.push(limit)
    const rest = `WHERE ${wheres.join(' AND ')} ${ORDER} LIMIT ?`
    // A walk in order reads no more than it answers.
    if (few === null) return items(`SELECT ${COLUMNS} FROM weft.items ${rest}`, values)
    return items(
      `WITH few AS MATERIALIZED (SELECT DISTINCT path, item FROM (${few.text}) AS each), found AS MATERIALIZED (
        SELECT items.path, items.key FROM few CROSS JOIN LATERAL (
          SELECT * FROM weft.items AS all_of WHERE all_of.app = ? AND all_of.path = few.path AND all_of.key = few.item OFFSET 0
        ) AS items ${rest})
        SELECT ${COLUMNS} FROM found JOIN weft.items ON items.app = ? AND items.path = found.path AND items.key = found.key
        ${ORDER}`,
      [...values, app],
    )
  }

  const keyed = (items: readonly ItemKey[]) => [
    items.map(({ namespace }) => pathOf(namespace)),
    items.map(({ key }) => plain(key)),
  ]
  const OF = '(path, key) IN (SELECT * FROM unnest(?::text[], ?::text[]))'

  return {
    async get(app, { namespace, key }, now) {
      const found = await items(`SELECT ${ITEM} FROM weft.items WHERE app = ? AND path = ? AND key = ? AND ${LIVES}`, [
        app,
        pathOf(namespace),
        plain(key),
        now,
      ])
      return found[0] ?? null
    },

    many: (app, wanted, now) =>
      items(`SELECT ${ITEM} FROM weft.items WHERE app = ? AND ${OF} AND ${LIVES}`, [app, ...keyed(wanted), now]),

    async indexed(app, after, limit) {
      const { rows } = await query(
        `SELECT path, key, updated_at FROM weft.items WHERE app = ? AND vectors IS NOT NULL
          AND (updated_at, path, key) > (?, ?, ?) ORDER BY updated_at, path, key LIMIT ?`,
        [app, ...placeOf(after), limit],
      )
      return (rows as [string, string, number][]).map(([path, key, updated_at]) => {
        return { namespace: labelsOfPath(path), key: exact(key), updated_at }
      })
    },

    async vectors(app, wanted) {
      const { rows } = await query(
        `SELECT path, key, updated_at, vectors FROM weft.items WHERE app = ? AND ${OF} AND vectors IS NOT NULL`,
        [app, ...keyed(wanted)],
      )
      return (rows as [string, string, number, Uint8Array][]).map(([path, key, updated_at, vectors]) => {
        return { namespace: labelsOfPath(path), key: exact(key), updated_at, vectors }
      })
    },

    /**
     * Conditions that few meet are followed, and so is a prefix without conditions. Among more, the walk in the order of the list
     * mostly finds a page soon, so that a short one comes before a longer count; when a long one does not, they are the older
     * ones, and following the conditions is shorter again.
     */
    async list(wanted) {
      const { prefix, conditions = [], limit } = wanted
      const narrows = conditions.length === 0 && prefix.length > 0 ? [within(wanted)] : conditions.map(meeting(wanted))
      if (narrows.length === 0) return page(wanted, null, null)
      for (const [most, walked] of [
        [RARE, Math.min(WALKED, FIRST * limit)],
        [FEW, WALKED],
      ] as const) {
        const few = await fewest(query, narrows, [most])
        if (few !== null) return page(wanted, few, null)
        const bound = await boundOf(wanted, walked)
        const near = await page(wanted, null, bound)
        if (bound === null || near.length === limit) return near
      }
      return page(wanted, await fewest(query, narrows, [MANY]), null)
    },

    /** One look into the index for each namespace: the items between two namespaces are not read. */
    async namespaces({ app, prefix, now, after, limit }) {
      const [range, params] = below(prefix)
      const next = (last: string) =>
        `SELECT path FROM weft.items WHERE ${['app = ?', `path > ${last}`, ...range, LIVES].join(' AND ')} ORDER BY path LIMIT 1`
      const { rows } = await query(
        `WITH RECURSIVE found AS (
          (${next('?')}) UNION ALL SELECT (${next('found.path')}) FROM found WHERE found.path IS NOT NULL
        ) SELECT path FROM found WHERE path IS NOT NULL LIMIT ?`,
        [app, after === undefined ? '' : pathOf(after), ...params, now, app, ...params, now, limit],
      )
      return rows.map(([path]) => labelsOfPath(path as string))
    },

    async expired(now, limit) {
      const { rows } = await query(
        'SELECT app, path, key FROM weft.items WHERE expires_at <= ? ORDER BY expires_at LIMIT ?',
        [now, limit],
      )
      return (rows as [string, string, string][]).map(([app, path, key]) => {
        return { app, namespace: labelsOfPath(path), key: exact(key) }
      })
    },
  }
}

/** The rows below the prefix. */
function within({ app, prefix }: ItemQuery): Narrow {
  const [range, params] = below(prefix)
  return {
    text: `SELECT path, key AS item FROM weft.items WHERE ${['app = ?', ...range].join(' AND ')}`,
    params: [app, ...params],
  }
}

/** The rows with a key in one of the ranges. */
const meeting =
  ({ app, prefix }: ItemQuery) =>
  (ranges: KeyCondition): Narrow => {
    const [range, params] = below(prefix)
    return {
      text: [...ranges.map(() => 'key BETWEEN ? AND ?'), "key = '*'"]
        .map(one => `SELECT path, item FROM weft.item_keys WHERE ${['app = ?', one, ...range].join(' AND ')}`)
        .join(' UNION ALL '),
      params: [...ranges.flatMap(({ from, to }) => [app, from, to, ...params]), app, ...params],
    }
  }

/** The item has a key in one of the ranges, or too many to tell. Its own list is shorter than any walk of the index. */
const meets = (ranges: KeyCondition): string =>
  `EXISTS (SELECT 1 FROM unnest(items.keys) AS own WHERE ${[...ranges.map(() => 'own BETWEEN ? AND ?'), "own = '*'"].join(' OR ')})`

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

const placeOf = ({ updated_at, namespace, key }: ItemKey & { updated_at: number }): Param[] => [
  updated_at,
  pathOf(namespace),
  plain(key),
]

function itemOf(row: Row): ItemRow {
  const [app, path, key, value, created_at, updated_at, ttl, expires_at] = row as [
    ...[string, string, string, string],
    ...[number, number, number | null, number | null],
  ]
  return { app, namespace: labelsOfPath(path), key: exact(key), value, created_at, updated_at, ttl, expires_at }
}
