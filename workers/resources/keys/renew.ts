/** Checks the encryption keys at start against the store, and re-encrypts stored secrets with the first key. */
import type { Log } from '../../../bus/log.js'
import type { Config } from '../../../schemas/config.js'
import { fail } from '../../../schemas/errors.js'
import type { Store } from '../../../store/port.js'
import type { RecordRow } from '../../../store/rows/records.js'
import { each, onceInStore } from '../rows/record.js'
import { type KeyRing, keyRingOf, secretPlace, secretsPlace, tokenPlace, verifierPlace } from './ring.js'
import { WEBHOOKS, webhooksPlace } from './webhook-settings.js'

const PROOF = 'weft'

/**
 * The key ring, checked against a text that was sealed at the first start on this store. A worker that was started
 * with another key serves everything else, but neither reads nor writes secrets: 503 with the reason.
 */
export async function provedRing(config: Config, store: Store, log: Log): Promise<KeyRing> {
  const ring = keyRingOf(config)
  const { value: sealed, mine } = await onceInStore(store, 'encryption', () => ring.seal(PROOF, 'proof'))
  if (mine) return ring
  try {
    ring.open(sealed, 'proof')
  } catch (error) {
    const why = `secrets cannot be used: ${(error as Error).message}`
    log.error({ key: ring.id }, why)
    const refuse = (): never => {
      throw fail('unavailable', why)
    }
    return {
      ...ring,
      seal: refuse,
      open: refuse,
      sealBytes: refuse,
      openBytes: refuse,
      prints: refuse,
      renew: () => null,
    }
  }
  const renewed = ring.renew(sealed, 'proof')
  if (renewed !== null)
    await store.apply([
      { step: 'records.patch', kind: 'setting', id: 'encryption', where: {}, set: { body: JSON.stringify(renewed) } },
    ])
  return ring
}

/** Sealed members of records, and the location that each is bound to. */
const SEALED: readonly { kind: string; member: string; place: (row: RecordRow) => string }[] = [
  { kind: 'secrets', member: 'sealed', place: ({ id, parent }) => secretsPlace(parent, id) },
  { kind: 'provider', member: 'client_secret', place: ({ id }) => secretPlace(id) },
  { kind: WEBHOOKS, member: 'sealed', place: ({ id }) => webhooksPlace(id) },
  { kind: 'oauth_token', member: 'access_token', place: ({ id }) => tokenPlace(id, 'access_token') },
  { kind: 'oauth_token', member: 'refresh_token', place: ({ id }) => tokenPlace(id, 'refresh_token') },
  { kind: 'oauth_flow', member: 'verifier', place: ({ id }) => verifierPlace(id) },
]

/** Re-encrypts every sealed text with the first key of the ring, so that older keys can be removed; once per start. */
export async function renewSecrets({ store, ring, log }: { store: Store; ring: KeyRing; log: Log }): Promise<void> {
  let renewed = 0
  for (const { kind, member, place } of SEALED)
    for await (const row of each(store, { kind })) {
      const body = JSON.parse(row.body) as { [member: string]: unknown }
      const sealed = body[member]
      if (typeof sealed !== 'string') continue
      try {
        const text = ring.renew(sealed, place(row))
        if (text === null) continue
        const set = { body: JSON.stringify({ ...body, [member]: text }) }
        await store.apply([{ step: 'records.patch', kind, id: row.id, where: { rev: row.rev }, set }])
        renewed++
      } catch (error) {
        log.error({ err: error }, 'a secret cannot be read')
      }
    }
  if (renewed > 0) log.info({ key: ring.id, renewed }, 'all secrets are now encrypted with the first key')
}
