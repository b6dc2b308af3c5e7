/**
 * Built-in keys (schemas/auth/keys.ts): made and revoked by the command `weft keys` and over HTTP, verified by edges. A
 * key creates no key that may do more, or longer, than itself.
 */
import { createHash, randomBytes } from 'node:crypto'
import { bytesHandler, fieldsHandler, jsonHandler, type Reply } from '../../../bus/serve.js'
import {
  allows,
  type KeyCreate,
  type KeyCreated,
  type KeyInfo,
  type KeyLimits,
  type KeyPage,
  type KeyRecord,
  type KeyRef,
  type KeyRevoked,
  type KeysUsed,
  validateKeyCreate,
  validateKeyRef,
  validateKeysUsed,
} from '../../../schemas/auth/keys.js'
import type { CallHead } from '../../../schemas/calls.js'
import { fail } from '../../../schemas/errors.js'
import { time } from '../../../schemas/json.js'
import { event } from '../../../schemas/subjects.js'
import type { Store } from '../../../store/port.js'
import type { RecordRow } from '../../../store/rows/records.js'
import { clock } from '../clock.js'
import { openQuery } from '../query.js'
import { each, newRecord, readPage } from '../rows/record.js'
import { bodyOf, isExpired, KEY, type KeyBody } from './row.js'

interface Deps {
  store: Store
  link: {
    nc: { publish(subject: string): void }
    log: { info(fields: object, message: string): void; warn(fields: object, message: string): void }
  }
  /** Pauses the crons of a key that was revoked; resolves to their number. */
  pauseCrons(key_id: string): Promise<number>
}

export const keys = (deps: Deps) => ({
  create: fieldsHandler<KeyCreate>(validateKeyCreate, (given, { head }) => create(deps, given, head)),
  list: bytesHandler((_, { head }) => list(deps.store, head)),
  revoke: bytesHandler((_, { head }) => revoke(deps, head)),
  /** For edges: the digest of a key and what it may do, or null. */
  get: jsonHandler<KeyRef>(validateKeyRef, async ({ id }) => {
    const row = await deps.store.records.get(KEY, id)
    if (row === null) return { body: 'null' }
    const { last_used_at: _, created_by: __, ...body } = bodyOf(row)
    return { body: JSON.stringify({ id, ...body } satisfies KeyRecord) }
  }),
  used: jsonHandler<KeysUsed>(validateKeysUsed, ({ used }) => noteUse(deps.store, used)),
})

async function create(
  { store, link }: Deps,
  { name, scopes: wanted, expires_at = null, limits: given }: KeyCreate,
  head: CallHead,
): Promise<Reply> {
  const by = authorOf(head)
  const id = randomBytes(8).toString('hex')
  const key = `weft_${id}_${randomBytes(32).toString('base64url')}`
  const scopes = [...new Set(wanted)]
  const expiry = expires_at === null ? null : Date.parse(expires_at)
  const limits: KeyLimits = { requests_per_second: null, running_runs: null, open_streams: null, ...given }
  if (expiry !== null && expiry <= clock.now()) throw fail('invalid', 'expires_at: expected a time in the future')
  if (by !== 'command' && by !== 'control')
    checkWithin(await store.records.get(KEY, by), { scopes, limits, expires_at: expiry })
  const body: KeyBody = {
    name,
    scopes,
    limits,
    expires_at: expiry,
    sha256: createHash('sha256').update(key).digest('hex'),
    last_used_at: null,
    created_by: by,
  }
  const row = newRecord(KEY, id, { body: JSON.stringify(body), due_at: expiry })
  if ((await store.apply([{ step: 'records.insert', row }])) !== -1) throw fail('conflict', 'Try again')
  link.log.info({ key_id: id, name, scopes, by }, 'key created')
  link.nc.publish(CHANGED)
  const created: KeyCreated = { key, ...infoOf(row) }
  return { head: { status: 201, headers: { 'Cache-Control': 'no-store' } }, body: JSON.stringify(created) }
}

/** Throws `forbidden` for rights that the creating key does not have itself. */
function checkWithin(
  creator: RecordRow | null,
  { scopes, limits, expires_at }: Pick<KeyRecord, 'scopes' | 'limits' | 'expires_at'>,
): void {
  const own = creator === null ? null : bodyOf(creator)
  if (own === null || isExpired(own)) throw fail('unauthorized', 'This key was revoked or has expired')
  const missing = (['admin', ...scopes] as const).find(scope => !allows(own.scopes, [scope]))
  if (missing !== undefined) throw fail('forbidden', `The creating key lacks the scope ${missing}`)
  if (own.expires_at !== null && (expires_at === null || expires_at > own.expires_at))
    throw fail('forbidden', `expires_at: expected at most that of the creating key, ${time(own.expires_at)}`)
  for (const [name, most] of Object.entries(own.limits) as [keyof KeyLimits, number | null][])
    if (most !== null && (limits[name] === null || limits[name] > most))
      throw fail('forbidden', `limits.${name}: expected at most that of the creating key, ${most}`)
}

/** Newest first. */
async function list(store: Store, head: CallHead): Promise<Reply> {
  authorOf(head)
  const query = openQuery(head.query)
  const wanted = query.page()
  query.done()
  const { rows, offset } = await readPage(each(store, { kind: KEY }), () => true, wanted)
  return { body: JSON.stringify({ resources: rows.map(infoOf), offset } satisfies KeyPage) }
}

/**
 * Edges stop accepting the key at once, or within half a minute when they miss the message. A cron that is not paused
 * here is paused at its next time.
 */
async function revoke({ store, link, pauseCrons }: Deps, head: CallHead): Promise<Reply> {
  const by = authorOf(head)
  const id = head.params?.key_id ?? ''
  const failed = await store.apply([{ step: 'records.remove', kind: KEY, id, where: {} }])
  if (failed !== -1) throw fail('not_found', `Key ID ${id} not found.`)
  link.nc.publish(CHANGED)
  const paused_crons = await pauseCrons(id).catch(error => {
    link.log.warn(
      { err: error, key_id: id },
      'the crons of a revoked key could not be paused: each is, at its next time',
    )
    return null
  })
  link.log.info({ key_id: id, by, paused_crons }, 'key revoked')
  return { body: JSON.stringify({ id, paused_crons } satisfies KeyRevoked) }
}

/** Who asks: nothing is created, listed or revoked for a caller that was not identified. */
function authorOf({ by }: CallHead): string {
  if (by === undefined) throw fail('unauthorized')
  return by
}

async function noteUse(store: Store, used: KeysUsed['used']): Promise<Reply> {
  for (const { id, at } of used) {
    const row = await store.records.get(KEY, id)
    if (row === null) continue
    const body = bodyOf(row)
    if ((body.last_used_at ?? 0) >= at) continue
    const set = { body: JSON.stringify({ ...body, last_used_at: at }) }
    // Another edge may report the same key at the same time: either time is right.
    await store.apply([{ step: 'records.patch', kind: KEY, id, where: { rev: row.rev }, set }])
  }
  return { body: '{}' }
}

const CHANGED = event('keys', 'changed')

const timeOrNull = (ms: number | null): string | null => (ms === null ? null : time(ms))

function infoOf(row: RecordRow): KeyInfo {
  const { name, scopes, limits, expires_at, last_used_at, created_by = 'command' } = bodyOf(row)
  return {
    id: row.id,
    name,
    scopes,
    limits,
    created_at: time(row.created_at),
    expires_at: timeOrNull(expires_at),
    last_used_at: timeOrNull(last_used_at),
    created_by,
  }
}

/** Removes keys that expired a while ago; until then a list shows them. */
export async function sweepKeys({ store }: Pick<Deps, 'store'>): Promise<void> {
  for (;;) {
    const expired = await store.records.due(KEY, clock.now() - SHOWN_MS, PAGE)
    for (const { id } of expired) await store.apply([{ step: 'records.remove', kind: KEY, id, where: {} }])
    if (expired.length < PAGE) return
  }
}

const SHOWN_MS = 30 * 24 * 3_600_000
const PAGE = 500
