/** OAuth providers (API: contract, control-plane 9.1). Clients take 200 for success and nothing else, create included. */
import { v7 } from 'uuid'
import { bytesHandler, fieldsHandler, type Reply } from '../../bus/serve.js'
import { fail, InvalidFields, type Problem } from '../../schemas/errors.js'
import { BUILT_IN_APP } from '../../schemas/ids.js'
import { time } from '../../schemas/json.js'
import { isLoopback } from '../../schemas/loopback.js'
import {
  type Provider,
  type ProviderCreate,
  type ProviderPatch,
  validateProviderCreate,
  validateProviderPatch,
} from '../../schemas/providers.js'
import type { RecordRow, Store } from '../../store/port.js'
import type { Deps } from './context.js'
import { secretPlace } from './keys/ring.js'
import { each, newRecord } from './rows/record.js'

interface ProviderBody extends Omit<Provider, 'id' | 'organization_id' | 'provider_id' | 'created_at' | 'updated_at'> {
  /** Encrypted, bound to `secretPlace`; null: a public client. */
  client_secret: string | null
}

export const providers = (deps: Deps) => ({
  create: fieldsHandler<ProviderCreate>(validateProviderCreate, body => create(deps, body)),
  get: bytesHandler(async (_, { head }) => answer(deps, await find(deps.store, head.params?.provider_id ?? ''))),
  search: bytesHandler(() => search(deps)),
  update: fieldsHandler<ProviderPatch>(validateProviderPatch, (body, { head }) =>
    update(deps, head.params?.provider_id ?? '', body),
  ),
  delete: bytesHandler((_, { head }) => remove(deps.store, head.params?.provider_id ?? '')),
})

async function create(deps: Deps, given: ProviderCreate): Promise<Reply> {
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
  }
  const row = newRecord('provider', id, { name: given.provider_id, body: JSON.stringify(body) })
  if ((await deps.store.apply([{ step: 'records.insert', row }])) !== -1)
    throw fail('conflict', `OAuth provider ${given.provider_id} exists already.`)
  return answer(deps, row)
}

const TRIES = 20

/** Absent and null leave a member as it is. */
async function update(deps: Deps, provider_id: string, given: ProviderPatch): Promise<Reply> {
  checkUrls(given)
  for (let i = 0; i < TRIES; i++) {
    const row = await find(deps.store, provider_id)
    const { client_secret, ...members } = given
    const before = JSON.parse(row.body) as ProviderBody
    const body: ProviderBody = { ...before }
    for (const name of MEMBERS)
      if (members[name] !== undefined && members[name] !== null) body[name] = members[name] as never
    if (client_secret) body.client_secret = deps.ring.seal(client_secret, secretPlace(row.id))
    if (!client_secret && MEMBERS.every(name => body[name] === before[name])) return answer(deps, row)
    const set = { body: JSON.stringify(body), updated_at: Math.max(Date.now(), row.updated_at + 1) }
    const { id, rev } = row
    if ((await deps.store.apply([{ step: 'records.patch', kind: 'provider', id, where: { rev }, set }])) === -1)
      return answer(deps, { ...row, ...set })
  }
  throw fail('unavailable', 'The provider is being changed by too many requests at once')
}

const MEMBERS = ['name', 'client_id', 'auth_url', 'token_url', 'uses_pkce', 'code_challenge_method'] as const

async function search(deps: Deps): Promise<Reply> {
  const found: Provider[] = []
  const query = { kind: 'provider', app: BUILT_IN_APP, sort: 'created_at', order: 'asc' } as const
  for await (const row of each(deps.store, query)) found.push(providerOut(deps, row))
  return { body: JSON.stringify(found) }
}

async function remove(store: Store, provider_id: string): Promise<Reply> {
  const { id } = await find(store, provider_id)
  await store.apply([{ step: 'records.remove', kind: 'provider', id, where: {} }])
  return { body: JSON.stringify({ message: `OAuth provider ${provider_id} was deleted.` }) }
}

async function find(store: Store, provider_id: string): Promise<RecordRow> {
  const row = await store.records.named('provider', BUILT_IN_APP, provider_id)
  if (row === null) throw fail('not_found', `OAuth provider ID ${provider_id} not found.`)
  return row
}

const answer = (deps: Deps, row: RecordRow): Reply => ({ body: JSON.stringify(providerOut(deps, row)) })

function providerOut({ workspace }: Deps, { id, name, body, created_at, updated_at }: RecordRow): Provider {
  const { client_secret: _, ...shown } = JSON.parse(body) as ProviderBody
  return {
    id,
    organization_id: workspace.organization_id,
    provider_id: name!,
    ...shown,
    created_at: time(created_at),
    updated_at: time(updated_at),
  }
}

/** Absolute https, or http on this machine; throws InvalidFields. */
function checkUrls(given: Pick<ProviderPatch, 'auth_url' | 'token_url'>): void {
  const problems: Problem[] = []
  for (const name of ['auth_url', 'token_url'] as const) {
    const text = given[name]
    if (text === undefined || text === null || isProviderUrl(text)) continue
    const msg = 'expected an absolute https URL without user, password and fragment'
    problems.push({ loc: ['body', name], msg, type: 'url_parsing' })
  }
  if (problems.length > 0) throw new InvalidFields(problems)
}

function isProviderUrl(text: string): boolean {
  if (/[\x00-\x20\x7f]/.test(text)) return false
  try {
    const { protocol, hostname, username, password, hash } = new URL(text)
    const safe = protocol === 'https:' || (protocol === 'http:' && isLoopback(hostname))
    return safe && username === '' && password === '' && hash === ''
  } catch {
    return false
  }
}
