/**
 * Vector search by the extension pgvector, where the database has it or may make it. The vectors of items are copied to a table for
 * each application and size, which names the write of the item that each is of. Copies are derived: the item is the truth, and a
 * vector of another write of it counts for nothing. Only applications that are searched this way have copies
 * (workers/resources/vectors/nearest.ts).
 */
import { createHash } from 'node:crypto'
import { exact, labelsOfPath, pathOf, plain } from '../columns.js'
import type { Store } from '../port.js'
import type { PostgresOptions, Query } from './connection.js'

/** The first version with an index of the kind HNSW, and the first whose index goes on when a condition leaves too few. */
export const VECTOR_SINCE = '0.5'
const ITERATIVE = '0.8'
/** The types that an index takes, with the most numbers of each and its first version (https://github.com/pgvector/pgvector, HNSW). */
const INDEXED = [
  { type: 'vector', dims: 2_000, since: VECTOR_SINCE },
  { type: 'halfvec', dims: 4_000, since: '0.7' },
] as const
/** Candidates of a walk through the index; the most that it takes. */
const CANDIDATES = 1_000
/** Below a prefix with at most this many vectors all are compared: a walk through the index would pass most of them by. */
const EXACT = 10_000
/** Items copied in one go; each may have 1 MB of vectors. */
const COPIED = 64
/** The extension is looked for again after this time. */
const LOOK_MS = 60_000

interface Extension {
  /** Its schema, quoted. */
  schema: string
  version: string
}

interface Index extends Extension {
  type: (typeof INDEXED)[number]['type']
}

export function nearestVectors(query: Query, log: PostgresOptions['log']): NonNullable<Store['nearest']> {
  let looked: { at: number; found: Promise<Extension | null> } | null = null
  const sizes = new Map<string, number>()

  function extension(): Promise<Extension | null> {
    if (looked === null || performance.now() - looked.at > LOOK_MS)
      looked = { at: performance.now(), found: look(query, log) }
    looked.found.catch(() => (looked = null))
    return looked.found
  }

  async function indexOf(dims: number): Promise<Index> {
    const found = await extension()
    const type = found === null ? null : indexedAs(dims, found.version)
    if (found === null || type === null) throw new Error(`this database has no index for vectors of ${dims} numbers`)
    return { ...found, type }
  }

  return {
    async prepare(dims) {
      const found = await extension()
      return found === null || indexedAs(dims, found.version) === null ? 'none' : 'ready'
    },

    async copy(app, dims) {
      const index = await indexOf(dims)
      const { schema } = index
      const table = await tableOf(query, app, dims, index, sizes)
      const { rows } = await query(
        `SELECT path, key, updated_at, vectors FROM weft.items WHERE app = ? AND vectors IS NOT NULL AND copied < ?
          UNION ALL SELECT path, key, updated_at, vectors FROM weft.items
          WHERE app = ? AND vectors IS NOT NULL AND copied > ? LIMIT ?`,
        [app, dims, app, dims, COPIED],
      )
      if (rows.length === 0) return false
      const items = rows as [string, string, number, Uint8Array][]
      const keys = [items.map(([path]) => path), items.map(([, key]) => key), items.map(([, , at]) => at)]
      const made = items.flatMap(([path, key, updated_at, vectors]) =>
        textsOf(vectors, dims).map((text, n) => [path, key, updated_at, n, text] as const),
      )
      await query(
        `DELETE FROM weft.${table} AS old USING unnest(?::text[], ?::text[], ?::bigint[]) AS now (path, key, updated_at)
          WHERE old.path = now.path AND old.key = now.key AND old.updated_at < now.updated_at`,
        keys,
      )
      await query(
        `INSERT INTO weft.${table} (path, key, updated_at, n, v)
          SELECT path, key, updated_at, n, v::${schema}.vector
          FROM unnest(?::text[], ?::text[], ?::bigint[], ?::int[], ?::text[]) AS made (path, key, updated_at, n, v)
          ON CONFLICT DO NOTHING`,
        [0, 1, 2, 3, 4].map(column => made.map(row => row[column]!)) as never,
      )
      // Not one that was written meanwhile: it is copied again.
      await query(
        `UPDATE weft.items SET copied = ? FROM unnest(?::text[], ?::text[], ?::bigint[]) AS done (path, key, updated_at)
          WHERE app = ? AND items.path = done.path AND items.key = done.key AND items.updated_at = done.updated_at`,
        [dims, ...keys, app],
      )
      return items.length === COPIED
    },

    // A search sees what a commit before it has written.
    mark: async () => '',
    reached: async () => true,

    async find({ app, prefix, query: vector, limit }) {
      const index = await indexOf(vector.length)
      const { schema, version } = index
      const table = await tableOf(query, app, vector.length, index, sizes)
      const text = textOf(vector)
      const [wheres, params] = below(prefix)
      const distance = `v OPERATOR(${schema}.<=>) ?::${schema}.vector`
      const order = `${indexed(vector.length, index)} OPERATOR(${schema}.<=>) ?::${schema}.${index.type}`
      const columns = 'path, key, updated_at'
      const few = prefix.length > 0 && (await isFew(query, table, wheres, params))
      const { rows } = few
        ? await query(
            `WITH compared AS MATERIALIZED (SELECT ${columns}, ${distance} AS distance FROM weft.${table} WHERE ${wheres})
              SELECT ${columns}, distance FROM compared ORDER BY distance LIMIT ?`,
            [text, ...params, limit],
          )
        : // The limit names the setting, so that it is in force before the walk begins.
          await query(
            `WITH settings AS MATERIALIZED (SELECT set_config('hnsw.ef_search', ?, true) AS candidates${
              isSince(version, ITERATIVE) ? ", set_config('hnsw.iterative_scan', 'relaxed_order', true)" : ''
            })
              SELECT found.* FROM settings CROSS JOIN LATERAL (
                SELECT ${columns}, ${distance} AS distance FROM weft.${table} ${prefix.length > 0 ? `WHERE ${wheres}` : ''}
                ORDER BY ${order} LIMIT CASE WHEN candidates = '' THEN 0 ELSE ?::int END) AS found ORDER BY distance`,
            [`${CANDIDATES}`, text, ...(prefix.length > 0 ? params : []), text, limit],
          )
      return (rows as [string, string, number, number][]).map(([path, key, updated_at, far]) => ({
        namespace: labelsOfPath(path),
        key: exact(key),
        updated_at,
        score: 1 - far,
      }))
    },

    async drop(app, stale) {
      const dims = sizes.get(app)
      if (dims === undefined) return
      // Never those of the present write: it may be hidden because it has expired.
      await query(
        `DELETE FROM weft.${nameOf(app, dims)} AS old USING unnest(?::text[], ?::text[], ?::bigint[]) AS stale (path, key, updated_at)
          WHERE old.path = stale.path AND old.key = stale.key AND old.updated_at = stale.updated_at AND NOT EXISTS (
            SELECT 1 FROM weft.items WHERE items.app = ? AND items.path = stale.path AND items.key = stale.key
              AND items.updated_at = stale.updated_at)`,
        [
          stale.map(({ namespace }) => pathOf(namespace)),
          stale.map(({ key }) => plain(key)),
          stale.map(({ updated_at }) => updated_at),
          app,
        ],
      )
    },
  }
}

/** The extension, made when that is allowed; null: the database has none that serves. */
async function look(query: Query, log: PostgresOptions['log']): Promise<Extension | null> {
  const found = async () => {
    const { rows } = await query(
      `SELECT quote_ident(nspname), extversion FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
        WHERE extname = 'vector'`,
    )
    const [schema, version] = (rows[0] ?? []) as [string?, string?]
    return schema === undefined || version === undefined ? null : { schema, version }
  }
  const since = (version: string) => isSince(version, VECTOR_SINCE)
  const there = await found()
  if (there !== null) return since(there.version) ? there : null
  const { rows } = await query("SELECT default_version FROM pg_available_extensions WHERE name = 'vector'")
  if (rows.length === 0 || !since(rows[0]![0] as string)) return null
  try {
    await query('CREATE EXTENSION IF NOT EXISTS vector')
  } catch (error) {
    log?.warn(
      { err: error },
      'PostgreSQL has pgvector, and this user may not make it: run CREATE EXTENSION vector as one who may',
    )
  }
  return found()
}

/** The type whose index takes vectors of this size; null: this version has none. */
const indexedAs = (dims: number, version: string) =>
  INDEXED.find(one => dims <= one.dims && isSince(version, one.since))?.type ?? null

/** The most numbers of a vector that an index of this version takes. */
export const mostDims = (version: string): number =>
  Math.max(...INDEXED.map(({ dims, since }) => (isSince(version, since) ? dims : 0)))

/**
 * The expression that the index is of. The table has all digits, so that scores are exact; an index of half of them says only
 * which vectors are near.
 */
const indexed = (dims: number, { schema, type }: Index): string =>
  type === 'vector' ? 'v' : `(v::${schema}.${type}(${dims}))`

export const isSince = (version: string, first: string): boolean => {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const [least = 0, lesser = 0] = first.split('.').map(Number)
  return major > least || (major === least && minor >= lesser)
}

const nameOf = (app: string, dims: number): string =>
  `nearest_${dims}_${createHash('sha256').update(app).digest('hex').slice(0, 16)}`

/** The table of an application for vectors of this size, with its index. */
async function tableOf(
  query: Query,
  app: string,
  dims: number,
  index: Index,
  sizes: Map<string, number>,
): Promise<string> {
  const table = nameOf(app, dims)
  if (sizes.get(app) === dims) return table
  const { schema, type } = index
  await query(
    `CREATE TABLE IF NOT EXISTS weft.${table} (
      path TEXT COLLATE "C" NOT NULL, key TEXT COLLATE "C" NOT NULL, updated_at BIGINT NOT NULL, n INTEGER NOT NULL,
      v ${schema}.vector(${dims}) NOT NULL, PRIMARY KEY (path, key, updated_at, n))`,
  )
  await query(
    `CREATE INDEX IF NOT EXISTS ${table}_v ON weft.${table}
      USING hnsw (${indexed(dims, index)} ${schema}.${type}_cosine_ops)`,
  )
  sizes.set(app, dims)
  return table
}

/** Whether no more than EXACT vectors are below a prefix. */
async function isFew(query: Query, table: string, wheres: string, params: readonly string[]): Promise<boolean> {
  const { rows } = await query(
    `SELECT count(*) FROM (SELECT 1 FROM weft.${table} WHERE ${wheres} ORDER BY path LIMIT ?) AS found`,
    [...params, EXACT + 1],
  )
  return (rows[0]![0] as number) <= EXACT
}

/** The paths that begin with a prefix: those before its last byte + 1. A path ends with a dot. */
function below(prefix: readonly string[]): [wheres: string, params: readonly string[]] {
  const path = pathOf(prefix)
  return ['path >= ? AND path < ?', [path, `${path.slice(0, -1)}/`]]
}

/** Each vector of an item as the extension reads it. One without a direction is similar to nothing, and is left out. */
function textsOf(vectors: Uint8Array, dims: number): string[] {
  const all = new Float32Array(new Uint8Array(vectors).buffer)
  if (all.length % dims !== 0) return []
  const texts: string[] = []
  for (let at = 0; at < all.length; at += dims) {
    const vector = all.subarray(at, at + dims)
    if (!vector.every(number => number === 0)) texts.push(textOf(vector))
  }
  return texts
}

/** A cosine does not depend on the length, and the squares of a vector of length 1 fit into each type. */
function textOf(vector: Float32Array): string {
  const length = Math.hypot(...vector)
  return `[${Array.from(vector, number => number / length).join()}]`
}
