/** A grant becomes a stored token. */
import { randomUUID } from 'node:crypto'
import type { JsonObject } from '../../../schemas/json.js'
import type { RecordRow } from '../../../store/rows/records.js'
import type { Step } from '../../../store/steps.js'
import type { Deps } from '../context.js'
import { each, newRecord } from '../rows/record.js'
import type { Granted } from './client.js'
import { type ProviderBody, providerOf } from './provider-row.js'
import { materialOf, removeToken, revokeToken } from './refresh.js'
import { audit, ownerKey, parse, type Row, type Subject, subjectKey, TOKEN, type TokenBody } from './rows.js'

interface Grant extends Subject {
  provider_id: string
  /** The requested scopes: a provider that names none has granted them. */
  scopes: string[]
  is_default: boolean
  metadata?: JsonObject
}

/**
 * Stores the tokens, and by `also` what depends on them; null when `also` fails or the provider was deleted, and then the
 * grant is revoked. A default token replaces earlier default ones of the same user and agent that have no other scopes.
 * They are not revoked at the provider: many providers would end the new grant with them.
 */
export async function saveGrant(
  deps: Deps,
  provider: Row<ProviderBody>,
  { provider_id, user_id, agent_id, owner, ...grant }: Grant,
  granted: Granted,
  type: 'granted' | 'imported',
  also?: (token_id: string) => Step,
): Promise<string | null> {
  const id = randomUUID()
  const subject: Subject = { user_id, agent_id, owner }
  const body: TokenBody = {
    ...subject,
    provider_id,
    scopes: granted.scopes ?? grant.scopes,
    refresh_token: null,
    ...materialOf(deps, id, granted),
    is_default: grant.is_default,
    metadata: grant.metadata ?? {},
    provider_account_label: null,
    lease: null,
  }
  const row = newRecord(TOKEN, id, {
    parent: provider.row.id,
    keys: [subjectKey(provider.row, subject), ownerKey(owner)],
    body: JSON.stringify(body),
    due_at: dueAt(body),
  })
  const steps: Step[] = [{ step: 'records.insert', row }]
  if (also !== undefined) steps.push(also(id))
  const failed = await deps.store.apply([...steps, audit(deps, type, body, { token_id: id })])
  // The deletion of a provider ends the tokens that it finds.
  if (failed !== -1 || (await providerOf(deps.store, row)) === null) {
    await deps.store.apply([{ step: 'records.remove', kind: TOKEN, id, where: {} }])
    await revokeToken(deps, provider, { row, body })
    return null
  }
  if (grant.is_default) await replaceDefaults(deps, provider, { row, body })
  return id
}

/** A token that cannot be refreshed is swept once it has expired. */
export const dueAt = ({ refresh_token, expires_at }: Pick<TokenBody, 'refresh_token' | 'expires_at'>): number | null =>
  refresh_token === null ? expires_at : null

/** When two grants come at the same time, the later one stays. */
async function replaceDefaults(deps: Deps, provider: Row<ProviderBody>, { row, body }: Row<TokenBody>): Promise<void> {
  const scopes = new Set(body.scopes)
  const isEarlier = (other: RecordRow) =>
    other.created_at === row.created_at ? other.id < row.id : other.created_at < row.created_at
  for (const old of await siblings(deps, provider.row.id, { row, body }))
    if (old.body.is_default && isEarlier(old.row) && old.body.scopes.every(scope => scopes.has(scope)))
      await removeToken(deps, old, 'deleted')
}

/** The other tokens of the same user and agent at the provider. */
export async function siblings(
  { store }: Deps,
  parent: string,
  { row, body }: Row<TokenBody>,
): Promise<Row<TokenBody>[]> {
  const found: Row<TokenBody>[] = []
  for await (const other of each(store, { kind: TOKEN, parent, keys: [row.keys[0]!] })) {
    const token = parse<TokenBody>(other)
    const isSame = token.body.user_id === body.user_id && token.body.agent_id === body.agent_id
    if (other.id !== row.id && isSame) found.push(token)
  }
  return found
}
