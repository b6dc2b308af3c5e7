/** What all of the control plane shares: its key, its keys for secrets, the ids of the one workspace. */
import { createHash, randomBytes } from 'node:crypto'
import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { v7 } from 'uuid'
import { open } from '../bus/serve.js'
import type { Config } from '../schemas/config.js'
import { fail } from '../schemas/errors.js'
import { BUILT_IN_APP } from '../schemas/ids.js'
import type { RecordRow, Store } from '../store/port.js'
import type { Tools } from './context.js'
import { secretsPlace } from './deployment-rows.js'
import { each } from './deployment-search.js'
import { kept } from './kept.js'
import { secretPlace } from './providers.js'
import { type KeyRing, keyRingOf } from './secrets.js'

export interface Workspace {
  tenant_id: string
  organization_id: string
}

/** An edge that has no key of its own learns by this which one fits; the digest of a random key tells nothing. */
export const control = (sha256: string) => ({ key: open(() => ({ body: JSON.stringify({ sha256 }) })) })

/**
 * The SHA-256 of the key of the control plane: the given one, else one that is made once and kept in the data folder
 * (mode 0600). Of several workers on one store the first makes it, and the digest is kept in the store for the others.
 */
export async function controlDigest({ control_key, data, mongodb_url }: Config, store: Store): Promise<string> {
  if (control_key !== '') return sha256(control_key)
  const path = join(data, 'control.key')
  const own = () => sha256(kept(path, () => `weft_${randomBytes(32).toString('base64url')}`))
  if (mongodb_url === '') return own()
  const stored = async () => {
    const row = await store.records.get('setting', 'control_key')
    return row === null ? null : (JSON.parse(row.body) as string)
  }
  const before = await stored()
  if (before !== null) return before
  const had = existsSync(path)
  const mine = own()
  const row = newRecord('setting', 'control_key', { body: JSON.stringify(mine) })
  if ((await store.apply([{ step: 'records.insert', row }])) === -1) return mine
  // Another worker was faster: a key that opens nothing must not lie about.
  if (!had) rmSync(path, { force: true })
  return (await stored())!
}

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')

/** A record as it is first written. */
export const newRecord = (kind: string, id: string, more: Partial<RecordRow> & { body: string }): RecordRow => {
  const now = Date.now()
  return {
    kind,
    app: BUILT_IN_APP,
    id,
    parent: '',
    name: null,
    rev: 0,
    keys: [],
    due_at: null,
    created_at: now,
    updated_at: now,
    ...more,
  }
}

/** The ids of the one organisation and workspace, made at the first start of the store. */
export async function workspaceOf(store: Store): Promise<Workspace> {
  const found = await store.records.get('setting', 'workspace')
  if (found !== null) return JSON.parse(found.body) as Workspace
  const made: Workspace = { tenant_id: v7(), organization_id: v7() }
  const row = newRecord('setting', 'workspace', { body: JSON.stringify(made) })
  return (await store.apply([{ step: 'records.insert', row }])) === -1 ? made : workspaceOf(store)
}

const PROOF = 'weft'

/**
 * The ring, proved against what this store's secrets were sealed with. A worker that was started with another key
 * serves everything else, but neither reads nor writes secrets: 503 with the sentence that says so.
 */
export async function provedRing(config: Config, store: Store, log: Tools['link']['log']): Promise<KeyRing> {
  const ring = keyRingOf(config)
  const row = newRecord('setting', 'encryption', { body: JSON.stringify(ring.seal(PROOF, 'proof')) })
  if ((await store.apply([{ step: 'records.insert', row }])) === -1) return ring
  const found = await store.records.get('setting', 'encryption')
  const sealed = JSON.parse(found!.body) as string
  try {
    ring.open(sealed, 'proof')
  } catch (error) {
    const why = `secrets cannot be used: ${(error as Error).message}`
    log.error({ key: ring.id }, why)
    const refuse = (): never => {
      throw fail('unavailable', why)
    }
    return { id: ring.id, seal: refuse, open: refuse, prints: refuse, renew: () => null }
  }
  const renewed = ring.renew(sealed, 'proof')
  if (renewed !== null)
    await store.apply([
      { step: 'records.patch', kind: 'setting', id: 'encryption', where: {}, set: { body: JSON.stringify(renewed) } },
    ])
  return ring
}

/** Every sealed text under the first key of the ring, so that older keys can be taken away: done once per start. */
export async function renewSecrets(tools: Tools): Promise<void> {
  const { store, ring, link } = tools
  let renewed = 0
  for (const [kind, member] of [
    ['secrets', 'sealed'],
    ['provider', 'client_secret'],
  ] as const)
    for await (const row of each(store, { kind })) {
      const body = JSON.parse(row.body) as { [member: string]: unknown }
      const sealed = body[member]
      if (typeof sealed !== 'string') continue
      const place = kind === 'secrets' ? secretsPlace(row.parent, row.id) : secretPlace(row.id)
      try {
        const text = ring.renew(sealed, place)
        if (text === null) continue
        const set = { body: JSON.stringify({ ...body, [member]: text }) }
        await store.apply([{ step: 'records.patch', kind, id: row.id, where: { rev: row.rev }, set }])
        renewed++
      } catch (error) {
        link.log.error({ err: error }, 'a secret cannot be read')
      }
    }
  if (renewed > 0) link.log.info({ key: ring.id, renewed }, 'all secrets are encrypted with the first key now')
}
