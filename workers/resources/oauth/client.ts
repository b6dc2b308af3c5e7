/**
 * Requests to OAuth providers: the exchange of a code, refresh, revocation. oauth4webapi makes the requests and validates
 * the answers; they travel through workers/outbound.ts. Answers of providers that differ from RFC 6749 are first brought
 * into its form (docs/spec/oauth.md#flow).
 */
import { hash } from 'node:crypto'
import * as oauth from 'oauth4webapi'
import { isObject } from '../../../schemas/json.js'
import { type Allowed, request } from '../../outbound.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import { secretPlace } from '../keys/ring.js'
import type { ProviderBody } from './provider-row.js'
import type { Row } from './rows.js'

export interface Granted {
  access_token: string
  refresh_token: string | null
  /** Milliseconds since the epoch; null: unlimited. */
  expires_at: number | null
  /** Null: as requested. */
  scopes: string[] | null
}

/** The provider refused, with an error code of OAuth. The message is the code alone: the rest is text of others. */
export class ProviderRefused extends Error {
  constructor(readonly code: string) {
    super(code)
    this.name = 'ProviderRefused'
  }
}

/** The provider could not be asked at all, or its answer is none of OAuth. */
export const isUnreachable = (error: unknown): boolean =>
  !(error instanceof oauth.OperationProcessingError) &&
  !(error instanceof oauth.UnsupportedOperationError) &&
  !(error instanceof oauth.ResponseBodyError) &&
  !(error instanceof oauth.WWWAuthenticateChallengeError)

/** For logs: errors of oauth4webapi have the answer of the provider, and with it tokens, in other members. */
export const reasonOf = (error: unknown): string =>
  (error instanceof Error ? error.message : String(error)).slice(0, 200)

/** Where the browser goes (docs/spec/oauth.md#flow, step 2). Query parameters of `auth_url` stay. */
export function authorizationUrl(
  { body }: Row<ProviderBody>,
  flow: { scopes: readonly string[]; redirect_uri: string },
  state: string,
  verifier: string | null,
): string {
  const url = new URL(body.auth_url)
  const { searchParams: query } = url
  query.set('response_type', 'code')
  query.set('client_id', body.client_id)
  query.set('redirect_uri', flow.redirect_uri)
  if (flow.scopes.length > 0) query.set('scope', flow.scopes.join(' '))
  query.set('state', state)
  if (verifier !== null) {
    const { code_challenge_method: method } = body
    query.set('code_challenge', method === 'plain' ? verifier : hash('sha256', verifier, 'base64url'))
    query.set('code_challenge_method', method)
  }
  if (body.mcp_server_url !== null) query.set('resource', body.mcp_server_url)
  return url.href
}

/** Redeems the code of a callback. `query`: its parameters, whose state was checked. Throws ProviderRefused, or any Error. */
export async function exchangeCode(
  deps: Deps,
  provider: Row<ProviderBody>,
  query: URLSearchParams,
  { redirect_uri, verifier }: { redirect_uri: string; verifier: string | null },
): Promise<Granted> {
  const { server, client, auth, options } = partsOf(deps, provider)
  return granted(async () => {
    const params = oauth.validateAuthResponse(server, client, paramsOf(provider, query), query.get('state') ?? '')
    const code = verifier ?? oauth.nopkce
    const answer = await oauth.authorizationCodeGrantRequest(server, client, auth, params, redirect_uri, code, options)
    return oauth.processAuthorizationCodeResponse(server, client, answer)
  })
}

/** Throws as `exchangeCode`; `invalid_grant` means that the grant has ended. */
export async function refreshGrant(deps: Deps, provider: Row<ProviderBody>, refresh_token: string): Promise<Granted> {
  const { server, client, auth, options } = partsOf(deps, provider)
  return granted(async () => {
    const answer = await oauth.refreshTokenGrantRequest(server, client, auth, refresh_token, options)
    return oauth.processRefreshTokenResponse(server, client, answer)
  })
}

/** RFC 7009; false when the provider has no such endpoint. Throws when it cannot be reached or refuses. */
export async function revokeAtProvider(
  deps: Deps,
  provider: Row<ProviderBody>,
  token: string,
  hint: 'access_token' | 'refresh_token',
): Promise<boolean> {
  if (provider.body.revocation_url === null) return false
  const { server, client, auth, options } = partsOf(deps, provider)
  const additionalParameters = { token_type_hint: hint }
  const answer = await oauth.revocationRequest(server, client, auth, token, { ...options, additionalParameters })
  await oauth.processRevocationResponse(answer)
  return true
}

function partsOf({ ring, allowed }: Deps, { row, body }: Row<ProviderBody>) {
  const server: oauth.AuthorizationServer = {
    issuer: body.issuer ?? new URL(body.auth_url).origin,
    token_endpoint: body.token_url,
    ...(body.revocation_url === null ? {} : { revocation_endpoint: body.revocation_url }),
    // A provider that names itself must do so in every answer: another one could send its code here (RFC 9207).
    authorization_response_iss_parameter_supported: body.issuer !== null,
  }
  const secret = body.client_secret === null ? null : ring.open(body.client_secret, secretPlace(row.id))
  const method = body.token_endpoint_auth_method
  const auth =
    secret === null || method === 'none'
      ? oauth.None()
      : method === 'client_secret_basic'
        ? oauth.ClientSecretBasic(secret)
        : oauth.ClientSecretPost(secret)
  const options = {
    ...requestOptions(allowed, response => normalized(response, body)),
    ...(body.mcp_server_url === null ? {} : { additionalParameters: { resource: body.mcp_server_url } }),
  }
  return { server, client: { client_id: body.client_id } satisfies oauth.Client, auth, options }
}

/** For every request: through our outgoing HTTP, which decides which hosts and protocols may be called. */
export const requestOptions = (
  allowed: Allowed,
  change: (response: Response) => Promise<Response> | Response = one => one,
) => ({
  [oauth.allowInsecureRequests]: true,
  [oauth.customFetch]: async (
    url: string,
    { method, headers, body }: { method: string; headers: { [name: string]: string }; body?: unknown },
  ): Promise<Response> => {
    const text = body === undefined || body === null ? undefined : Buffer.from(String(body))
    const sent = { method: method === 'GET' ? 'GET' : 'POST', headers: { ...headers }, body: text } as const
    const answer = await request(url, sent, allowed)
    const type = answer.headers['content-type']
    const noBody = answer.status === 204 || answer.status === 304
    return change(
      new Response(noBody ? null : new Uint8Array(answer.body), {
        status: answer.status,
        headers: type === undefined ? {} : { 'content-type': type },
      }),
    )
  },
})

/** The parameters of a callback; `iss` counts only where the provider is known to send it. */
function paramsOf({ body }: Row<ProviderBody>, query: URLSearchParams): URLSearchParams {
  const params = new URLSearchParams(query)
  if (body.issuer === null) params.delete('iss')
  return params
}

/**
 * JSON with a bearer token, or an OAuth error with status 400. Some providers answer a form, empty members, a list of
 * scopes, or errors with status 200, and Slack has its own members. ID tokens are left out: nothing here relies on them.
 */
async function normalized(response: Response, { provider_type }: ProviderBody): Promise<Response> {
  if (response.status >= 500 || response.body === null) return response
  const text = await response.text()
  const type = response.headers.get('content-type') ?? ''
  const members = membersOf(text, type)
  if (members === null) return new Response(text, { status: response.status, headers: { 'content-type': type } })
  const { id_token: _, ...rest } = members
  if (provider_type === 'slack') {
    const user = rest.authed_user as { [name: string]: unknown } | undefined
    if (rest.access_token === undefined && user?.access_token !== undefined) Object.assign(rest, user)
    if (rest.access_token !== undefined) rest.token_type = 'bearer'
  }
  if (rest.access_token !== undefined) rest.token_type ??= 'bearer'
  if (typeof rest.expires_in === 'string') rest.expires_in = Number(rest.expires_in)
  if (Array.isArray(rest.scope)) rest.scope = rest.scope.join(' ')
  const status = typeof rest.error === 'string' && response.status < 400 ? 400 : response.status
  return Response.json(rest, { status })
}

/** The members of JSON or of a form, without empty ones; null: the text is neither. */
function membersOf(text: string, type: string): { [name: string]: unknown } | null {
  const isForm = /form-urlencoded|text\/plain/.test(type) && !text.trimStart().startsWith('{')
  let read: unknown
  try {
    read = isForm ? Object.fromEntries(new URLSearchParams(text)) : JSON.parse(text)
  } catch {
    return null
  }
  if (!isObject(read)) return null
  return Object.fromEntries(Object.entries(read).filter(([, value]) => value !== null && value !== ''))
}

/** A hundred years: more is no date. */
const MAX_S = 100 * 365 * 24 * 3_600

async function granted(work: () => Promise<oauth.TokenEndpointResponse>): Promise<Granted> {
  try {
    const answer = await work()
    if (answer.token_type !== 'bearer') throw new ProviderRefused('unsupported_token_type')
    return {
      access_token: answer.access_token,
      refresh_token: answer.refresh_token ?? null,
      expires_at: answer.expires_in === undefined ? null : clock.now() + Math.min(answer.expires_in, MAX_S) * 1_000,
      scopes: answer.scope === undefined ? null : answer.scope.split(/[\s,]+/).filter(scope => scope !== ''),
    }
  } catch (error) {
    if (error instanceof oauth.ResponseBodyError || error instanceof oauth.AuthorizationResponseError)
      throw new ProviderRefused(ENDED.has(error.error) ? 'invalid_grant' : codeOf(error.error))
    throw error
  }
}

/** How GitHub and Slack say invalid_grant. */
const ENDED = new Set(['bad_refresh_token', 'invalid_refresh_token'])

/** An error code as RFC 6749 allows it, at most 64 characters: it is shown, logged and stored. */
export const codeOf = (text: string): string => text.replace(/[^\x21\x23-\x5b\x5d-\x7e]/g, '_').slice(0, 64) || 'error'
