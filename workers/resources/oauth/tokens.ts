/** Stored tokens: list, exists, import, change, delete (docs/spec/oauth.md#tokens). Nothing here answers with a token. */
import type { CallHead } from '../../../schemas/calls.js'
import { fail } from '../../../schemas/errors.js'
import type { TokenEvent, TokenImport, TokenPatch, TokenSummary } from '../../../schemas/oauth.js'
import type { RecordQuery } from '../../../store/rows/records.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import { openQuery, pathIds } from '../query.js'
import { each, readPage } from '../rows/record.js'
import { findProvider, providerOf } from './provider-row.js'
import { endToken, endTokens, findToken } from './refresh.js'
import {
  callerOf,
  EVENT,
  eventOut,
  ownerKey,
  owns,
  parse,
  patched,
  patchOf,
  type Row,
  summaryOf,
  TOKEN,
  type TokenBody,
} from './rows.js'
import { saveGrant, siblings } from './save.js'

/** Tokens that the key obtained, all for the key of the control plane; of one provider and one user if the query says so. */
export async function list(deps: Deps, head: CallHead): Promise<TokenSummary[]> {
  const query = openQuery(head.query)
  const provider_id = query.text('provider_id')
  const user_id = query.text('user_id')
  query.done()
  const provider = provider_id === null ? null : (await findProvider(deps.store, provider_id)).row.id
  const found: TokenSummary[] = []
  for await (const token of tokensOf(deps, callerOf(head), provider, user_id)) found.push(summaryOf(token))
  return found
}

/** The same of one provider: whether there are any. */
export async function exists(deps: Deps, head: CallHead): Promise<{ has_token: boolean }> {
  const { provider, user_id } = await selectionOf(deps, head)
  for await (const _ of tokensOf(deps, callerOf(head), provider.row.id, user_id)) return { has_token: true }
  return { has_token: false }
}

/** The same: revokes and removes them. */
export async function removeAll(deps: Deps, head: CallHead): Promise<{ message: string; provider_id: string }> {
  const { provider, provider_id, user_id } = await selectionOf(deps, head)
  const removed = await endTokens(deps, provider, tokensOf(deps, callerOf(head), provider.row.id, user_id))
  const message = `${removed} ${removed === 1 ? 'token' : 'tokens'} of OAuth provider ${provider_id} deleted.`
  return { message, provider_id }
}

async function selectionOf({ store }: Deps, head: CallHead) {
  const query = openQuery(head.query)
  const provider_id = query.text('provider_id')
  const user_id = query.text('user_id')
  if (provider_id === null) query.missing('provider_id')
  query.done()
  return { provider: await findProvider(store, provider_id!), provider_id: provider_id!, user_id }
}

async function* tokensOf(
  { store }: Deps,
  caller: string,
  provider: string | null,
  user_id: string | null,
): AsyncIterable<Row<TokenBody>> {
  const query: Omit<RecordQuery, 'limit' | 'after'> = {
    kind: TOKEN,
    ...(provider === null ? {} : { parent: provider }),
    ...(caller === 'control' ? {} : { keys: [ownerKey(caller)] }),
  }
  for await (const row of each(store, query)) {
    const token = parse<TokenBody>(row)
    if (owns(caller, token.body) && (user_id === null || token.body.user_id === user_id)) yield token
  }
}

/** Throws not_found, also for the token of another key. */
export async function ownToken(deps: Deps, head: CallHead, id: string): Promise<Row<TokenBody>> {
  const token = await findToken(deps, id)
  if (token === null || !owns(callerOf(head), token.body)) throw fail('not_found', `OAuth token ID ${id} not found.`)
  return token
}

export async function remove(deps: Deps, head: CallHead): Promise<void> {
  const [id] = pathIds(head.params, 'token_id')
  const token = await ownToken(deps, head, id!)
  await endToken(deps, await providerOf(deps.store, token.row), token)
}

/** Absent and null leave a member as it is; a token that becomes the default takes that from its siblings. */
export async function update(
  deps: Deps,
  { provider_account_label, is_default }: TokenPatch,
  head: CallHead,
): Promise<TokenSummary> {
  const [id] = pathIds(head.params, 'token_id')
  for (;;) {
    const token = await ownToken(deps, head, id!)
    const change: Partial<TokenBody> = {}
    if (provider_account_label !== undefined && provider_account_label !== null)
      change.provider_account_label = provider_account_label
    if (is_default !== undefined && is_default !== null) change.is_default = is_default
    // A refresh has changed it meanwhile: read it again.
    if ((await deps.store.apply([patchOf(token, change)])) !== -1) continue
    if (change.is_default)
      for (const other of await siblings(deps, token.row.parent, token))
        if (other.body.is_default) await deps.store.apply([patchOf(other, { is_default: false })])
    return summaryOf(patched(token, change))
  }
}

/** A token that was obtained elsewhere. */
export async function importToken(deps: Deps, given: TokenImport, head: CallHead): Promise<{ token_id: string }> {
  const provider = await findProvider(deps.store, given.provider_id)
  const seconds = given.expires_in_seconds ?? null
  const grant = {
    provider_id: given.provider_id,
    user_id: given.user_id ?? null,
    agent_id: given.agent_id ?? null,
    owner: callerOf(head),
    scopes: [...new Set(given.scopes ?? [])],
    is_default: given.is_default ?? true,
    metadata: given.metadata ?? {},
  }
  const granted = {
    access_token: given.access_token,
    refresh_token: given.refresh_token ?? null,
    expires_at: seconds === null ? null : clock.now() + seconds * 1_000,
    scopes: null,
  }
  const token_id = await saveGrant(deps, provider, grant, granted, 'imported')
  if (token_id === null) throw fail('unavailable')
  return { token_id }
}

/** The audit list of the last 90 days, newest first. */
export async function events(deps: Deps, head: CallHead): Promise<TokenEvent[]> {
  const caller = callerOf(head)
  const query = openQuery(head.query)
  const page = query.page(200, 50)
  query.done()
  const keys = caller === 'control' ? {} : { keys: [ownerKey(caller)] }
  const { rows } = await readPage(each(deps.store, { kind: EVENT, ...keys }), () => true, page)
  return rows.map(eventOut)
}
