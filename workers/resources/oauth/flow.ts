/**
 * The consent of a user (docs/spec/oauth.md#flow):
 *
 *   begin     a flow with a state of 32 random bytes, of which the SHA-256 is stored; lives for 10 minutes
 *   start     our page binds the browser to the flow by a cookie, and sends it to the provider
 *   claim     the callback uses up the state, before anything else; a used state is dead even when the rest fails
 *   exchange  the code for tokens
 *   complete  the tokens and the end of the flow are stored
 *
 * A worker that dies between claim and complete leaves a flow that nobody finishes: it expires, and the user begins anew.
 * The code is used by then, and no other worker could redeem it.
 */
import { hash, randomBytes, randomUUID, timingSafeEqual } from 'node:crypto'
import { announceAuthEnd } from '../../../bus/events.js'
import type { CallHead } from '../../../schemas/calls.js'
import { fail } from '../../../schemas/errors.js'
import { BUILT_IN_APP, isUuid } from '../../../schemas/ids.js'
import type {
  Authenticate,
  Authenticated,
  AuthRef,
  BrowserVisit,
  CallbackPost,
  FlowEnd,
  FlowStart,
  Waited,
} from '../../../schemas/oauth.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import { verifierPlace } from '../keys/ring.js'
import { newRecord } from '../rows/record.js'
import {
  authorizationUrl,
  codeOf,
  exchangeCode,
  type Granted,
  isUnreachable,
  ProviderRefused,
  reasonOf,
} from './client.js'
import { matchingTokens } from './match.js'
import { findProvider, type ProviderBody, providerOf } from './provider-row.js'
import { redirectOf } from './redirects.js'
import { freshToken } from './refresh.js'
import {
  audit,
  callerOf,
  FLOW,
  type FlowBody,
  parse,
  patched,
  patchOf,
  type Row,
  type Subject,
  type TokenBody,
} from './rows.js'
import { saveGrant } from './save.js'

/** Also for a client to ask for the token once the flow is completed. */
const FLOW_MS = 10 * 60_000

/** A stored token, or the address where the user gives consent. */
export async function authenticate(deps: Deps, given: Authenticate, head: CallHead): Promise<Authenticated> {
  const provider = await findProvider(deps.store, given.provider)
  const subject: Subject = {
    user_id: given.user_id ?? given.ls_user_id ?? null,
    agent_id: given.agent_id ?? null,
    owner: callerOf(head),
  }
  const scopes = [...new Set(given.scopes.flatMap(text => text.split(/\s+/).filter(scope => scope !== '')))]
  const tokens = given.force_new ? [] : await matchingTokens(deps.store, provider, subject, scopes)
  const wanted = given.token_id?.toLowerCase() ?? null
  const fresh = await firstFresh(
    deps,
    tokens.filter(({ row }) => wanted === null || row.id === wanted),
  )
  if (fresh !== null) {
    const { token, access_token } = fresh
    return { status: 'completed', token: access_token, user_id: subject.user_id, metadata: token.body.metadata }
  }
  const { auth_id, url } = await begin(deps, provider, { ...subject, scopes }, given, head)
  return { status: wanted === null || given.force_new ? 'pending' : 'token_expired', url, auth_id }
}

async function firstFresh(deps: Deps, tokens: readonly Row<TokenBody>[]): ReturnType<typeof freshToken> {
  for (const { row } of tokens) {
    const fresh = await freshToken(deps, row.id)
    if (fresh !== null) return fresh
  }
  return null
}

async function begin(
  deps: Deps,
  provider: Row<ProviderBody>,
  { scopes, ...subject }: Subject & { scopes: string[] },
  given: Authenticate,
  head: CallHead,
): Promise<{ auth_id: string; url: string }> {
  const { provider: provider_id } = given
  const redirect = redirectOf(deps.config, head, provider_id, given.redirect_uri)
  const auth_id = randomUUID()
  const state = randomBytes(32).toString('base64url')
  const verifier = provider.body.uses_pkce ? randomBytes(48).toString('base64url') : null
  const body: FlowBody = {
    ...subject,
    provider_id,
    scopes,
    redirect_uri: redirect.uri,
    verifier: verifier === null ? null : deps.ring.seal(verifier, verifierPlace(auth_id)),
    is_default: given.is_default ?? true,
    bound: redirect.isForeign ? 'key' : deps.config.oauth_same_browser ? 'cookie' : 'none',
    status: 'pending',
    token_id: null,
    error: null,
  }
  const row = newRecord(FLOW, auth_id, {
    parent: provider.row.id,
    name: hash('sha256', state),
    body: JSON.stringify(body),
  })
  const due_at = row.created_at + FLOW_MS
  if ((await deps.store.apply([{ step: 'records.insert', row: { ...row, due_at } }])) !== -1) throw fail('unavailable')
  const url =
    body.bound === 'cookie'
      ? `${head.origin ?? ''}/v2/auth/start/${auth_id}?state=${state}`
      : authorizationUrl(provider, body, state, verifier)
  return { auth_id, url }
}

/** Throws bad_request for a link that is unknown, used or expired. */
export async function start(deps: Deps, auth_id: string, { query }: BrowserVisit): Promise<FlowStart> {
  const state = new URLSearchParams(query).get('state') ?? ''
  const flow = await findByState(deps, state)
  if (flow === null || flow.row.id !== auth_id.toLowerCase() || flow.body.bound !== 'cookie')
    throw fail('bad_request', DEAD)
  const provider = await providerOf(deps.store, flow.row)
  if (provider === null) throw fail('bad_request', DEAD)
  const { verifier } = flow.body
  const plain = verifier === null ? null : deps.ring.open(verifier, verifierPlace(flow.row.id))
  return {
    url: authorizationUrl(provider, flow.body, state, plain),
    cookie: { name: cookieName(state), value: cookieValues(deps, state)[0]!, seconds: FLOW_MS / 1_000 },
  }
}

/** The browser comes back from the provider. Throws bad_request for a state that is unknown, used, expired or of others. */
export async function callback(deps: Deps, provider_id: string, visit: BrowserVisit): Promise<FlowEnd> {
  const query = new URLSearchParams(visit.query)
  const flow = await claim(deps, provider_id, query, ({ body }, state) => {
    if (body.bound === 'cookie') return hasCookie(deps, state, visit.cookies)
    return body.bound === 'none'
  })
  const { provider, error } = await finish(deps, flow, query)
  if (error === null)
    return { ok: true, title: `Connected to ${provider.body.name}`, text: 'You can close this window.' }
  const text = SENTENCES[error] ?? `The provider answered ${error}.`
  return { ok: false, title: `Not connected to ${provider.body.name}`, text: `${text} To try again, start over.` }
}

/** A page of others brings the answer of the provider, with the key that began the flow. Throws bad_request. */
export async function finalize(deps: Deps, provider_id: string, given: CallbackPost, head: CallHead): Promise<FlowEnd> {
  const query = new URLSearchParams({ code: given.code, state: given.state })
  if (given.iss !== undefined && given.iss !== null) query.set('iss', given.iss)
  const caller = callerOf(head)
  const flow = await claim(deps, provider_id, query, ({ body }) => body.owner === caller)
  const { provider, error } = await finish(deps, flow, query)
  if (error !== null) throw fail('bad_request', `The provider did not grant access: ${error}`)
  return { ok: true, title: `Connected to ${provider.body.name}`, text: '' }
}

const SENTENCES: { readonly [error: string]: string } = {
  access_denied: 'Access was denied.',
  invalid_response: 'The answer of the provider is not valid.',
  unreachable: 'The provider could not be reached.',
  provider_deleted: 'The provider was deleted meanwhile.',
}

const DEAD = 'This link is invalid, or it was used or has expired. Start over.'

async function findByState({ store }: Deps, state: string): Promise<Row<FlowBody> | null> {
  const row = await store.records.named(FLOW, BUILT_IN_APP, hash('sha256', state))
  if (row === null || row.due_at === null || row.due_at <= clock.now()) return null
  const flow = parse<FlowBody>(row)
  return flow.body.status === 'pending' ? flow : null
}

interface Claimed {
  flow: Row<FlowBody>
  verifier: string | null
  provider: Row<ProviderBody>
}

/** Uses up the state, by one compare-and-set. */
async function claim(
  deps: Deps,
  provider_id: string,
  query: URLSearchParams,
  isInitiator: (flow: Row<FlowBody>, state: string) => boolean,
): Promise<Claimed> {
  const states = query.getAll('state')
  const flow = states.length === 1 ? await findByState(deps, states[0]!) : null
  const provider = flow === null ? null : await providerOf(deps.store, flow.row)
  if (flow === null || provider === null || flow.body.provider_id !== provider_id || !isInitiator(flow, states[0]!))
    throw fail('bad_request', DEAD)
  const { verifier } = flow.body
  const plain = verifier === null ? null : deps.ring.open(verifier, verifierPlace(flow.row.id))
  const change = { status: 'exchanging', verifier: null } as const
  if ((await deps.store.apply([patchOf(flow, change)])) !== -1) throw fail('bad_request', DEAD)
  return { flow: patched(flow, change), verifier: plain, provider }
}

/** `error`: a code, when the user, the provider or a check refused. */
async function finish(
  deps: Deps,
  { flow, verifier, provider }: Claimed,
  query: URLSearchParams,
): Promise<{ provider: Row<ProviderBody>; error: string | null }> {
  const error = await complete(deps, flow, verifier, provider, query)
  if (error !== null)
    await deps.store.apply([
      patchOf(flow, { status: 'failed', error }),
      audit(deps, 'consent_failed', flow.body, { error }),
    ])
  announceAuthEnd(deps.link, flow.row.id)
  return { provider, error }
}

async function complete(
  deps: Deps,
  flow: Row<FlowBody>,
  verifier: string | null,
  provider: Row<ProviderBody>,
  query: URLSearchParams,
): Promise<string | null> {
  const { redirect_uri } = flow.body
  let granted: Granted
  try {
    granted = await exchangeCode(deps, provider, query, { redirect_uri, verifier })
  } catch (error) {
    if (error instanceof ProviderRefused) return error.code
    deps.link.log.warn(
      { reason: reasonOf(error), provider_id: flow.body.provider_id },
      'an OAuth provider gave no valid answer',
    )
    return isUnreachable(error) ? 'unreachable' : 'invalid_response'
  }
  const ended = (token_id: string) =>
    patchOf(flow, { status: 'completed', token_id }, { due_at: clock.now() + FLOW_MS })
  return (await saveGrant(deps, provider, flow.body, granted, 'granted', ended)) === null ? 'provider_deleted' : null
}

/** The answer that a waiting client gets now. A token of no user is shown to its own key only. */
export async function peek(deps: Deps, { auth_id }: AuthRef, head: CallHead): Promise<Waited> {
  const row = isUuid(auth_id) ? await deps.store.records.get(FLOW, auth_id.toLowerCase()) : null
  if (row === null || row.due_at === null || row.due_at <= clock.now()) return { status: 'not_found' }
  const { body } = parse<FlowBody>(row)
  const { status, token_id, error, user_id, owner } = body
  if (user_id === null && owner !== callerOf(head)) return { status: 'not_found' }
  if (status === 'failed') return { status: 'not_found', error: codeOf(error ?? 'error') }
  if (status !== 'completed') return { status: 'pending' }
  // Another consent of the user may have replaced the token.
  const provider = await providerOf(deps.store, row)
  const token =
    (token_id === null ? null : await freshToken(deps, token_id)) ??
    (provider === null ? null : await firstFresh(deps, await matchingTokens(deps.store, provider, body, body.scopes)))
  return token === null ? { status: 'not_found' } : { status: 'completed', token: token.access_token }
}

/** The cookie proves that the browser was at the start page of this flow: only this server can make its value. */
const cookieName = (state: string): string => `weft_oauth_${hash('sha256', state).slice(0, 16)}`
const cookieValues = ({ ring }: Deps, state: string): string[] =>
  ring.prints(`browser of OAuth flow ${hash('sha256', state)}`)

function hasCookie(deps: Deps, state: string, cookies: { [name: string]: string }): boolean {
  const name = cookieName(state)
  const given = hash('sha256', cookies[name] ?? '', 'buffer')
  return cookieValues(deps, state).some(value => timingSafeEqual(given, hash('sha256', value, 'buffer')))
}
