/** Built-in keys (schemas/auth/keys.ts): made and revoked by the command `weft keys`, verified by edges. */
import { createHash, randomBytes } from 'node:crypto'
import { bytesHandler, jsonHandler } from '../../../bus/serve.js'
import {
  type KeyCreate,
  type KeyInfo,
  type KeyRecord,
  type KeyRef,
  type KeysUsed,
  validateKeyCreate,
  validateKeyRef,
  validateKeysUsed,
} from '../../../schemas/auth/keys.js'
import { fail } from '../../../schemas/errors.js'
import { time } from '../../../schemas/json.js'
import { event } from '../../../schemas/subjects.js'
import type { RecordRow, Store } from '../../../store/port.js'
import { each, newRecord } from '../rows/record.js'

const KIND = 'key'

/** The body of a key's record; times in ms. */
interface KeyBody extends Omit<KeyRecord, 'id'> {
  last_used_at: number | null
}

interface Deps {
  store: Store
  link: { nc: { publish(subject: string): void }; log: { info(fields: object, message: string): void } }
}

export const keys = ({ store, link }: Deps) => ({
  /** The answer has the key itself: it is shown once and not stored. */
  create: jsonHandler<KeyCreate>(validateKeyCreate, async ({ name, scopes, expires_at, limits }) => {
    const id = randomBytes(8).toString('hex')
    const key = `weft_${id}_${randomBytes(32).toString('base64url')}`
    const expiry = expires_at === null ? null : Date.parse(expires_at)
    if (expiry !== null && expiry <= Date.now()) throw fail('invalid', 'expires_at: expected a time in the future')
    const body: KeyBody = {
      name,
      scopes: [...new Set(scopes)],
      limits,
      expires_at: expiry,
      sha256: createHash('sha256').update(key).digest('hex'),
      last_used_at: null,
    }
    const row = newRecord(KIND, id, { body: JSON.stringify(body), due_at: expiry })
    if ((await store.apply([{ step: 'records.insert', row }])) !== -1) throw fail('conflict', 'Try again')
    link.log.info({ key_id: id, name, scopes }, 'key created')
    link.nc.publish(CHANGED)
    return { body: JSON.stringify({ key, ...infoOf(row) }) }
  }),
  list: bytesHandler(async () => {
    const all: KeyInfo[] = []
    for await (const row of each(store, { kind: KIND, sort: 'created_at', order: 'asc' })) all.push(infoOf(row))
    return { body: JSON.stringify(all) }
  }),
  /** Edges stop accepting the key at once, or within half a minute when they miss the message. */
  revoke: jsonHandler<KeyRef>(validateKeyRef, async ({ id }) => {
    const failed = await store.apply([{ step: 'records.remove', kind: KIND, id, where: {} }])
    if (failed !== -1) throw fail('not_found', `There is no key ${id}`)
    link.log.info({ key_id: id }, 'key revoked')
    link.nc.publish(CHANGED)
    return { body: '{}' }
  }),
  /** For edges: the digest of a key and what it may do, or null. */
  get: jsonHandler<KeyRef>(validateKeyRef, async ({ id }) => {
    const row = await store.records.get(KIND, id)
    if (row === null) return { body: 'null' }
    const { last_used_at: _, ...body } = bodyOf(row)
    return { body: JSON.stringify({ id, ...body } satisfies KeyRecord) }
  }),
  used: jsonHandler<KeysUsed>(validateKeysUsed, async ({ used }) => {
    for (const { id, at } of used) {
      const row = await store.records.get(KIND, id)
      if (row === null) continue
      const body = bodyOf(row)
      if ((body.last_used_at ?? 0) >= at) continue
      const set = { body: JSON.stringify({ ...body, last_used_at: at }) }
      // Another edge may report the same key at the same time: either time is right.
      await store.apply([{ step: 'records.patch', kind: KIND, id, where: { rev: row.rev }, set }])
    }
    return { body: '{}' }
  }),
})

const CHANGED = event('keys', 'changed')

const bodyOf = ({ body }: RecordRow): KeyBody => JSON.parse(body) as KeyBody
const timeOrNull = (ms: number | null): string | null => (ms === null ? null : time(ms))

function infoOf(row: RecordRow): KeyInfo {
  const { name, scopes, limits, expires_at, last_used_at } = bodyOf(row)
  return {
    id: row.id,
    name,
    scopes,
    limits,
    created_at: time(row.created_at),
    expires_at: timeOrNull(expires_at),
    last_used_at: timeOrNull(last_used_at),
  }
}

/** Removes keys that expired a while ago; until then a list shows them. */
export async function sweepKeys({ store }: Pick<Deps, 'store'>): Promise<void> {
  for (;;) {
    const expired = await store.records.due(KIND, Date.now() - SHOWN_MS, PAGE)
    for (const { id } of expired) await store.apply([{ step: 'records.remove', kind: KIND, id, where: {} }])
    if (expired.length < PAGE) return
  }
}

const SHOWN_MS = 30 * 24 * 3_600_000
const PAGE = 500
