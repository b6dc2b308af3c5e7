/** Checkpoints: one with its blobs and writes, lists of them, and the stored rows of a thread page by page. */
import { exact, plain } from '../columns.js'
import type { Store } from '../port.js'
import type { BlobRow, CheckpointRow, PageQuery, Tuple, WriteRow } from '../rows/checkpoints.js'
import type { Param, Query, Row } from './connection.js'
import { byId, byKeys, keyOf } from './grouped-reads.js'

const TUPLE = 'ns, id, parent, refs, type, meta_type, metadata, value'
/** Checkpoints of a list that are read together. */
const TOGETHER = 20
const NOTHING = new Uint8Array(0)

type Found = [string, string, string | null, string, string, string, Uint8Array, Uint8Array]

export function checkpointReads(query: Query): Store['checkpoints'] {
  const latestOf = byId(
    query,
    `SELECT threads.thread_id, ${TUPLE.split(', ').map(name => `checkpoints.${name}`)} FROM weft.threads JOIN weft.checkpoints
      ON checkpoints.thread_id = threads.thread_id AND ns = '' AND id = latest_checkpoint_id
      WHERE threads.thread_id = ANY (?::text[])`,
  )
  const blobsOf = byKeys(
    query,
    `SELECT thread_id, ns, channel, version, type, value FROM weft.blobs
      WHERE (thread_id, ns, channel, version) IN (SELECT * FROM unnest(?::text[], ?::text[], ?::text[], ?::text[]))`,
    4,
  )
  const writesOf = byKeys(
    query,
    `SELECT thread_id, ns, checkpoint_id, task_id, idx, channel, type, value, path FROM weft.writes
      WHERE (thread_id, ns, checkpoint_id) IN (SELECT * FROM unnest(?::text[], ?::text[], ?::text[]))
      ORDER BY task_id, idx`,
    3,
  )

  /** Adds blobs and writes to checkpoints of a thread. */
  async function complete(thread_id: string, found: readonly Found[]): Promise<Tuple[]> {
    if (found.length === 0) return []
    const refs = found.map(([, , , text]) => Object.entries(JSON.parse(text) as { [channel: string]: string }))
    const wanted = refs.flatMap((entries, i) =>
      entries.map(([channel, version]) => [found[i]![0], plain(channel), version] as const),
    )
    const [blobs, writes] = await Promise.all([
      wanted.length === 0 ? [] : blobsOf(wanted.map(keys => [thread_id, ...keys])),
      writesOf(found.map(([ns, id]) => [thread_id, ns, id])),
    ])
    const blobOf = new Map(blobs.map(([, ns, channel, version, ...blob]) => [keyOf(ns, channel, version), blob]))
    const writesById = new Map<string, Tuple['writes']>()
    for (const [, ns, id, ...write] of writes) {
      const key = keyOf(ns, id)
      const own = writesById.get(key) ?? []
      writesById.set(key, own)
      own.push(writeOf(write))
    }
    return found.map(([ns, id, parent, , type, meta_type, metadata, value], i) => ({
      ns: exact(ns),
      id,
      parent,
      type,
      value,
      meta_type,
      metadata,
      blobs: refs[i]!.flatMap(([channel, version]) => {
        const blob = blobOf.get(keyOf(ns, plain(channel), version)) as [string, Uint8Array] | undefined
        return blob === undefined ? [] : [{ channel, type: blob[0], value: blob[1] }]
      }),
      writes: writesById.get(keyOf(ns, id)) ?? [],
    }))
  }

  /** Rows up to the limit, or until their values hold enough. Sizes are read first. */
  async function walk<T>(
    { bare = false, bytes, limit, thread_id }: PageQuery<unknown>,
    { columns, values, table, where, order, keys }: Walk,
    bound: Param[],
    make: (row: Row, values: Uint8Array[]) => T,
  ): Promise<T[]> {
    const size = bare ? '0' : values.map(value => `octet_length(${value})`).join(' + ')
    const { rows: found } = await query(
      `SELECT ${columns}, ${size} FROM weft.${table} WHERE thread_id = ? ${where} ORDER BY ${order} LIMIT ?`,
      [thread_id, ...bound, limit],
    )
    let held = 0
    const end = found.findIndex(row => (held += row.at(-1) as number) >= bytes)
    const some = end === -1 ? found : found.slice(0, end + 1)
    if (bare)
      return some.map(row =>
        make(
          row,
          values.map(() => NOTHING),
        ),
      )
    const { rows } =
      some.length === 0
        ? { rows: [] }
        : await query(
            `SELECT ${[...keys.map(([name]) => name), ...values]} FROM weft.${table} WHERE thread_id = ? AND (${keys.map(([name]) => name)}) IN
              (SELECT * FROM unnest(${keys.map(([, type]) => `?::${type}[]`)}))`,
            [thread_id, ...columnsOf(some.map(row => keys.map(([, , at]) => row[at] as string)))],
          )
    const valuesOf = new Map(rows.map(row => [keyOf(...row.slice(0, keys.length)), row.slice(keys.length)]))
    return some.flatMap(row => {
      const own = valuesOf.get(keyOf(...keys.map(([, , at]) => row[at]!)))
      // Removed since its size was read.
      return own === undefined ? [] : [make(row, own as Uint8Array[])]
    })
  }

  return {
    async get({ thread_id, ns = '', checkpoint_id, without_run }) {
      const others = without_run === undefined ? '' : 'AND run_id IS DISTINCT FROM ?'
      const params = without_run === undefined ? [] : [without_run]
      const one = async (where: string, bound: Param[]) =>
        (await query(`SELECT ${TUPLE} FROM weft.checkpoints WHERE ${where}`, bound)).rows as Found[]
      const found =
        checkpoint_id !== undefined
          ? await one(`thread_id = ? AND id = ? AND ns = ? ${others}`, [thread_id, checkpoint_id, plain(ns), ...params])
          : ns === '' && without_run === undefined
            ? ([(await latestOf(thread_id))?.slice(1) ?? []].filter(row => row.length > 0) as Found[])
            : await one(`thread_id = ? AND ns = ? ${others} ORDER BY seq DESC LIMIT 1`, [
                thread_id,
                plain(ns),
                ...params,
              ])
      return (await complete(thread_id, found))[0] ?? null
    },

    async list({ thread_id, ns, checkpoint_id, before, limit, bytes, without_run }) {
      const wheres = ['thread_id = ?']
      const params: Param[] = [thread_id]
      const only = (where: string, ...values: Param[]) => {
        wheres.push(where)
        params.push(...values)
      }
      if (ns !== undefined) only('ns = ?', plain(ns))
      if (checkpoint_id !== undefined) only('id = ?', checkpoint_id)
      if (before !== undefined)
        only('seq < (SELECT max(seq) FROM weft.checkpoints WHERE thread_id = ? AND id = ?)', thread_id, before)
      if (without_run !== undefined) only('run_id IS DISTINCT FROM ?', without_run)
      const { rows: found } = await query(
        `SELECT seq FROM weft.checkpoints WHERE ${wheres.join(' AND ')} ORDER BY seq DESC LIMIT ?`,
        [...params, limit ?? null],
      )
      const tuples: Tuple[] = []
      let held = 0
      for (let i = 0; i < found.length; i += TOGETHER) {
        const { rows } = await query(
          `SELECT ${TUPLE} FROM weft.checkpoints WHERE thread_id = ? AND seq = ANY (?::bigint[]) ORDER BY seq DESC`,
          [thread_id, found.slice(i, i + TOGETHER).map(([seq]) => seq as number)],
        )
        for (const one of await complete(thread_id, rows as Found[])) {
          tuples.push(one)
          if (bytes !== undefined && (held += bytesOf(one)) >= bytes) return tuples
        }
      }
      return tuples
    },

    rows: page =>
      walk<CheckpointRow>(
        page,
        {
          columns: 'ns, id, parent, seq, type, meta_type, refs',
          values: ['value', 'metadata'],
          table: 'checkpoints',
          where: 'AND seq > ?',
          order: 'seq',
          keys: [
            ['id', 'text', 1],
            ['ns', 'text', 0],
          ],
        },
        [page.after?.seq ?? -1],
        (row, [value, metadata]) => {
          const [ns, id, parent, seq, type, meta_type, refs] = row as [
            string,
            string,
            string | null,
            number,
            ...string[],
          ]
          return {
            ns: exact(ns),
            id,
            parent,
            seq,
            type: type!,
            size: value!.length,
            meta_type: meta_type!,
            meta_size: metadata!.length,
            refs: JSON.parse(refs!),
            value: value!,
            metadata: metadata!,
          }
        },
      ),

    blobs: page =>
      walk<BlobRow>(
        page,
        {
          columns: 'ns, channel, version, type',
          values: ['value'],
          table: 'blobs',
          where: page.after === null ? '' : 'AND (ns, channel, version) > (?, ?, ?)',
          order: 'ns, channel, version',
          keys: [
            ['ns', 'text', 0],
            ['channel', 'text', 1],
            ['version', 'text', 2],
          ],
        },
        page.after === null ? [] : [plain(page.after.ns), plain(page.after.channel), page.after.version],
        (row, [value]) => {
          const [ns, channel, version, type] = row as [string, string, string, string]
          return { ns: exact(ns), channel: exact(channel), version, type, size: value!.length, value: value! }
        },
      ),

    writes: page =>
      walk<WriteRow>(
        page,
        {
          columns: 'ns, checkpoint_id, task_id, idx, channel, type, path',
          values: ['value'],
          table: 'writes',
          where: page.after === null ? '' : 'AND (ns, checkpoint_id, task_id, idx) > (?, ?, ?, ?)',
          order: 'ns, checkpoint_id, task_id, idx',
          keys: [
            ['ns', 'text', 0],
            ['checkpoint_id', 'text', 1],
            ['task_id', 'text', 2],
            ['idx', 'bigint', 3],
          ],
        },
        page.after === null
          ? []
          : [plain(page.after.ns), page.after.checkpoint_id, plain(page.after.task_id), page.after.idx],
        (row, [value]) => {
          const [ns, checkpoint_id, task_id, idx, channel, type, path] = row as [
            ...[string, string, string, number],
            ...[string, string, string | null],
          ]
          return {
            ns: exact(ns),
            checkpoint_id,
            task_id: exact(task_id),
            idx,
            channel: exact(channel),
            type,
            size: value!.length,
            value: value!,
            ...(path === null ? {} : { path: exact(path) }),
          }
        },
      ),

    async storage(thread_id) {
      const of = async (table: string, size: string) => {
        const { rows } = await query(
          `SELECT count(*), coalesce(sum(${size}), 0)::bigint FROM weft.${table} WHERE thread_id = ?`,
          [thread_id],
        )
        const [count, bytes] = rows[0] as [number, number]
        return { rows: count, bytes }
      }
      const { rows: channels } = await query(
        `SELECT channel, count(*), sum(octet_length(value))::bigint FROM weft.blobs WHERE thread_id = ?
          GROUP BY channel ORDER BY channel`,
        [thread_id],
      )
      const [checkpoints, blobs, writes] = await Promise.all([
        of('checkpoints', 'octet_length(value) + octet_length(metadata)'),
        of('blobs', 'octet_length(value)'),
        of('writes', 'octet_length(value)'),
      ])
      const each = (channels as [string, number, number][]).map(([channel, rows, bytes]) => {
        return { channel: exact(channel), rows, bytes }
      })
      return { checkpoints, blobs: { ...blobs, channels: each }, writes }
    },
  }
}

interface Walk {
  columns: string
  /** Columns of bytes. */
  values: string[]
  table: string
  where: string
  order: string
  /** The rest of the primary key: name, type, and its place among the columns. */
  keys: readonly (readonly [name: string, type: string, at: number])[]
}

/** Rows of texts and numbers, column by column. */
const columnsOf = (rows: readonly (readonly (string | number)[])[]): (string | number)[][] =>
  (rows[0] ?? []).map((_, column) => rows.map(row => row[column]!))

function writeOf(row: Row): Tuple['writes'][number] {
  const [task_id, idx, channel, type, value, path] = row as [string, number, string, string, Uint8Array, string | null]
  const write = { task_id: exact(task_id), idx, channel: exact(channel), type, value }
  return path === null ? write : { ...write, path: exact(path) }
}

function bytesOf({ value, metadata, blobs, writes }: Tuple): number {
  let all = value.length + metadata.length
  for (const blob of blobs) all += blob.value.length
  for (const write of writes) all += write.value.length
  return all
}
