/** The stored rows of a thread, page by page in the order of the primary keys. */

import { exact, plain } from '../columns.js'
import type { BlobKey, PageQuery, WriteKey } from '../rows/checkpoints.js'
import type { Storage } from '../rows/threads.js'
import type { Param, Row } from './database.js'
import { type Ask, give, type Read } from './query.js'

export const checkpointReads = ({ get, all }: Ask) => {
  /** Rows up to the limit, or until their values hold enough. Sizes are read first, then one row after the other. */
  function walk<T>(
    transfer: ArrayBuffer[],
    { bare = false, bytes, limit }: PageQuery<unknown>,
    { columns, values, table, where, order }: Walk,
    params: Param[],
    make: (row: Row, values: Uint8Array[]) => T,
  ): T[] {
    const size = bare ? '0' : values.map(value => `length(${value})`).join(' + ')
    const found = all(
      `SELECT ${columns}, rowid, ${size} FROM ${table} WHERE thread_id = ? ${where} ORDER BY ${order} LIMIT ?`,
      [...params, limit],
    )
    const out: T[] = []
    let held = 0
    for (const row of found) {
      const [rowid, size] = row.slice(-2)
      const read = () => give(transfer, get(`SELECT ${values} FROM ${table} WHERE rowid = ?`, [rowid!]))
      out.push(make(row, bare ? values.map(() => NOTHING) : (read() as Uint8Array[])))
      if ((held += size as number) >= bytes) break
    }
    return out
  }

  return {
    'checkpoints.rows': (transfer, query: PageQuery<{ seq: number }>) =>
      walk(
        transfer,
        query,
        {
          columns: 'ns, id, parent, seq, type, meta_type, refs',
          values: ['value', 'metadata'],
          table: 'checkpoints',
          where: 'AND seq > ?',
          order: 'seq',
        },
        [query.thread_id, query.after?.seq ?? -1],
        ([ns, id, parent, seq, type, meta_type, refs], [value, metadata]) => ({
          ns: exact(ns as string),
          id,
          parent,
          seq,
          type,
          size: value!.length,
          meta_type,
          meta_size: metadata!.length,
          refs: JSON.parse(refs as string),
          value,
          metadata,
        }),
      ),

    'checkpoints.blobs': (transfer, query: PageQuery<BlobKey>) => {
      const { after } = query
      const beyond = after === null ? '' : 'AND (ns, channel, version) > (?, ?, ?)'
      const bound = after === null ? [] : [plain(after.ns), plain(after.channel), after.version]
      return walk(
        transfer,
        query,
        {
          columns: 'ns, channel, version, type',
          values: ['value'],
          table: 'blobs',
          where: beyond,
          order: 'ns, channel, version',
        },
        [query.thread_id, ...bound],
        ([ns, channel, version, type], [value]) => ({
          ns: exact(ns as string),
          channel: exact(channel as string),
          version,
          type,
          size: value!.length,
          value,
        }),
      )
    },

    'checkpoints.writes': (transfer, query: PageQuery<WriteKey>) => {
      const { after } = query
      const beyond = after === null ? '' : 'AND (ns, checkpoint_id, task_id, idx) > (?, ?, ?, ?)'
      const bound = after === null ? [] : [plain(after.ns), after.checkpoint_id, plain(after.task_id), after.idx]
      return walk(
        transfer,
        query,
        {
          columns: 'ns, checkpoint_id, task_id, idx, channel, type, path',
          values: ['value'],
          table: 'writes',
          where: beyond,
          order: 'ns, checkpoint_id, task_id, idx',
        },
        [query.thread_id, ...bound],
        ([ns, checkpoint_id, task_id, idx, channel, type, path], [value]) => ({
          ns: exact(ns as string),
          checkpoint_id,
          task_id: exact(task_id as string),
          idx,
          channel: exact(channel as string),
          type,
          size: value!.length,
          value,
          ...(path === null ? {} : { path: exact(path as string) }),
        }),
      )
    },

    'checkpoints.storage': (_, thread_id: string): Storage => {
      const of = (table: string, size: string) => {
        const [rows, bytes] = get(`SELECT count(*), coalesce(sum(${size}), 0) FROM ${table} WHERE thread_id = ?`, [
          thread_id,
        ]) as [number, number]
        return { rows, bytes }
      }
      const channels = all(
        'SELECT channel, count(*), sum(length(value)) FROM blobs WHERE thread_id = ? GROUP BY channel ORDER BY channel',
        [thread_id],
      ).map(([channel, rows, bytes]) => ({
        channel: exact(channel as string),
        rows: rows as number,
        bytes: bytes as number,
      }))
      return {
        checkpoints: of('checkpoints', 'length(value) + length(metadata)'),
        blobs: { ...of('blobs', 'length(value)'), channels },
        writes: of('writes', 'length(value)'),
      }
    },
  } satisfies { [name: string]: Read }
}

interface Walk {
  columns: string
  /** Columns of bytes. */
  values: string[]
  table: string
  where: string
  order: string
}

const NOTHING = new Uint8Array(0)
