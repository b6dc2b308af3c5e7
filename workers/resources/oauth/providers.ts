/** OAuth providers (docs/spec/oauth.md#providers). Clients take 200 for success and nothing else, create included. */
import { v7 } from 'uuid'
import { bytesHandler, fieldsHandler, type Reply } from '../../../bus/serve.js'
import type { CallHead } from '../../../schemas/calls.js'
import { fail, InvalidFields, type Problem } from '../../../schemas/errors.js'
import { BUILT_IN_APP } from '../../../schemas/ids.js'
import { time } from '../../../schemas/json.js'
import { isLoopback } from '../../../schemas/loopback.js'
import {
  type Provider,
  type ProviderCreate,
  type ProviderPatch,
  validateProviderCreate,
  validateProviderPatch,
} from '../../../schemas/providers.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import { secretPlace } from '../keys/ring.js'
import { each, newRecord } from '../rows/record.js'
import { findProvider, PROVIDER, type ProviderBody, parseProvider } from './provider-row.js'
import { endTokens } from './refresh.js'
import { FLOW, parse, type Row, TOKEN, type TokenBody } from './rows.js'

export const providers = (deps: Deps) => ({
  create: fieldsHandler<ProviderCreate>(validateProviderCreate, (body, { head }) => create(deps, body, head)),
  get: bytesHandler(async (_, { head }) =>
    answer(deps, await findProvider(deps.store, head.params?.provider_id ?? '')),
  ),
  search: bytesHandler(() => search(deps)),
  update: fieldsHandler<ProviderPatch>(validateProviderPatch, (body, { head }) =>
    update(deps, head.params?.provider_id ?? '', body, head),
  ),
  delete: bytesHandler((_, { head }) => remove(deps, head.params?.provider_id ?? '', head)),
})

async function create(deps: Deps, given: ProviderCreate, head: CallHead): Promise<Reply> {
  return answer(deps, await insertProvider(deps, given, head))
}

/** The audit line of a change: who, and the names of what changed (docs/spec/control-plane.md#security). */
const logChange = (
  { link }: Deps,
  { by }: CallHead,
  event: string,
  provider_id: string,
  members: string[] = [],
): void => link.log.info({ event, provider_id, members, by }, 'oauth provider event')

/** Throws conflict when the id is taken. */
export async function insertProvider(
  deps: Deps,
  given: ProviderCreate,
  head: CallHead,
  more: Partial<Pick<ProviderBody, 'mcp_server_url' | 'is_dynamic_client'>> = {},
): Promise<Row<ProviderBody>> {
  checkUrls(given)
  const id = v7()
  const body: ProviderBody = {
    name: given.name,
    client_id: given.client_id,
    client_secret: given.client_secret ? deps.ring.seal(given.client_secret, secretPlace(id)) : null,
    auth_url: given.auth_url,
    token_url: given.token_url,
    uses_pkce: given.uses_pkce ?? false,
    code_challenge_method: given.code_challenge_method ?? 'S256',
    provider_type: given.provider_type ?? 'custom',
    token_endpoint_auth_method: given.token_endpoint_auth_method ?? 'client_secret_post',
    issuer: given.issuer ?? null,
    revocation_url: given.revocation_url ?? null,
    mcp_server_url: null,
    is_dynamic_client: false,
    ...more,
  }
  const row = newRecord(PROVIDER, id, { name: given.provider_id, body: JSON.stringify(body) })
  if ((await deps.store.apply([{ step: 'records.insert', row }])) !== -1)
    throw fail('conflict', `OAuth provider ${given.provider_id} exists already.`)
  logChange(deps, head, 'created', given.provider_id)
  return { row, body }
}

const TRIES = 20

/** Absent and null leave a member as it is. */
async function update(deps: Deps, provider_id: string, given: ProviderPatch, head: CallHead): Promise<Reply> {
  checkUrls(given)
  for (let i = 0; i < TRIES; i++) {
    const provider = await findProvider(deps.store, provider_id)
    const { row, body: before } = provider
    const { client_secret, ...members } = given
    const body: ProviderBody = { ...before }
    for (const name of MEMBERS)
      if (members[name] !== undefined && members[name] !== null) body[name] = members[name] as never
    if (client_secret) body.client_secret = deps.ring.seal(client_secret, secretPlace(row.id))
    const changed = CHANGEABLE.filter(name => body[name] !== before[name])
    if (changed.length === 0) return answer(deps, provider)
    const set = { body: JSON.stringify(body), updated_at: Math.max(clock.now(), row.updated_at + 1) }
    const { id, rev } = row
    if ((await deps.store.apply([{ step: 'records.patch', kind: PROVIDER, id, where: { rev }, set }])) !== -1) continue
    logChange(deps, head, 'changed', provider_id, changed)
    return answer(deps, { row: { ...row, ...set }, body })
  }
  throw fail('unavailable', 'The provider is being changed by too many requests at once')
}

const MEMBERS = [
  'name',
  'client_id',
  'auth_url',
  'token_url',
  'uses_pkce',
  'code_challenge_method',
  'issuer',
  'revocation_url',
] as const
const CHANGEABLE = [...MEMBERS, 'client_secret'] as const

async function search(deps: Deps): Promise<Reply> {
  const found: Provider[] = []
  const query = { kind: PROVIDER, app: BUILT_IN_APP, sort: 'created_at', order: 'asc' } as const
  for await (const row of each(deps.store, query)) found.push(providerOut(deps, parseProvider(row)))
  return { body: JSON.stringify(found) }
}

/** Its tokens first, so that a repeated request finds what is left; then those that were stored meanwhile. */
async function remove(deps: Deps, provider_id: string, head: CallHead): Promise<Reply> {
  const provider = await findProvider(deps.store, provider_id)
  const { id } = provider.row
  await endTokens(deps, provider, tokensOf(deps, id))
  await deps.store.apply([
    { step: 'records.clear', kind: FLOW, parent: id },
    { step: 'records.remove', kind: PROVIDER, id, where: {} },
  ])
  await endTokens(deps, provider, tokensOf(deps, id))
  logChange(deps, head, 'deleted', provider_id)
  return { body: JSON.stringify({ message: `OAuth provider ${provider_id} was deleted.` }) }
}

async function* tokensOf({ store }: Deps, parent: string): AsyncIterable<Row<TokenBody>> {
  for await (const row of each(store, { kind: TOKEN, parent })) yield parse<TokenBody>(row)
}

const answer = (deps: Deps, provider: Row<ProviderBody>): Reply => ({
  body: JSON.stringify(providerOut(deps, provider)),
})

export function providerOut({ workspace }: Deps, { row, body }: Row<ProviderBody>): Provider {
  const { id, name, created_at, updated_at } = row
  const { client_secret: _, ...shown } = body
  return {
    id,
    organization_id: workspace.organization_id,
    provider_id: name!,
    ...shown,
    created_at: time(created_at),
    updated_at: time(updated_at),
  }
}

const URLS = ['auth_url', 'token_url', 'issuer', 'revocation_url'] as const

/** Absolute https, or http on this machine; throws InvalidFields. */
function checkUrls(given: Pick<ProviderPatch, (typeof URLS)[number]>): void {
  const problems: Problem[] = []
  for (const name of URLS) {
    const text = given[name]
    if (text === undefined || text === null || isProviderUrl(text)) continue
    const msg = 'expected an absolute https URL without user, password and fragment'
    problems.push({ loc: ['body', name], msg, type: 'url_parsing' })
  }
  if (problems.length > 0) throw new InvalidFields(problems)
}

export function isProviderUrl(text: string): boolean {
  if (/[\x00-\x20\x7f]/.test(text)) return false
  try {
    const { protocol, hostname, username, password, hash } = new URL(text)
    const safe = protocol === 'https:' || (protocol === 'http:' && isLoopback(hostname))
    return safe && username === '' && password === '' && hash === ''
  } catch {
    return false
  }
}
