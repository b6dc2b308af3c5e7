/** A server, a real OpenID provider that it knows under several ids, and the calls of an application. */
import type { Test } from 'tap'
import type { Authenticated, Waited } from '../../../schemas/oauth.js'
import { type Roles, startRoles } from '../../helpers/cluster.js'
import { type Control, KEY, openControl } from '../../helpers/control.js'
import { CLIENT, newPerson, type Oidc, openOidc } from '../../helpers/oidc.js'
import { isShared } from '../../helpers/stores/store.js'

/** The page of another server, for the provider `oidc`. */
export const FOREIGN = 'https://front.example/oauth/oidc'
const ID = /[^/]+$/

export interface OauthStage {
  oidc: Oidc
  roles: Roles
  url: string
  /** With the key of the control plane. */
  call: Control
  callbackOf(provider_id: string): string
  /** Makes a provider; `more` replaces members. */
  provider(provider_id: string, more?: object): Promise<void>
  /** Asks for a token of the user u1 at the provider `oidc`; `more` replaces members. */
  begin(more?: object, client?: Control): Promise<Authenticated>
  /** The same, where consent is needed. */
  pending(more?: object, client?: Control): Promise<Exclude<Authenticated, { status: 'completed' }>>
  /** The same, and the user gives it: the access token. */
  consented(more?: object, client?: Control): Promise<string>
  wait(auth_id: string, timeout: number, client?: Control): Promise<Waited>
  /** A new key. */
  keyed(...scopes: string[]): Promise<Control>
  /** Secrets that must appear nowhere but in answers: tokens, codes, states. */
  secrets(): string[]
}

export async function openOauth(t: Test): Promise<OauthStage> {
  const oidc = await openOidc()
  t.teardown(() => oidc.stop())
  const env = {
    WEFT_CONTROL_KEY: KEY,
    WEFT_ALLOW_HOSTS: oidc.host,
    WEFT_OAUTH_REDIRECTS: FOREIGN.replace(ID, '{provider_id}'),
    LOG_LEVEL: 'debug',
  }
  const roles = await startRoles({ graphs: 0, resources: isShared ? 2 : 1, env })
  t.teardown(() => roles.stop())
  const url = roles.urls[0]!
  const call = openControl(url)
  const callbackOf = (id: string) => `${url}/v2/auth/callback/${id}`
  const states: string[] = []
  const stage: OauthStage = {
    oidc,
    roles,
    url,
    call,
    callbackOf,
    async provider(provider_id, more = {}) {
      const made = await call('POST', '/v2/auth/providers', {
        provider_id,
        name: `The <b>${provider_id}</b> provider`,
        ...CLIENT,
        auth_url: `${oidc.issuer}/auth?prompt=consent`,
        token_url: `${oidc.issuer}/token`,
        revocation_url: `${oidc.issuer}/token/revocation`,
        issuer: oidc.issuer,
        uses_pkce: true,
        ...more,
      })
      t.equal(made.status, 200, made.text)
    },
    async begin(more = {}, client = call) {
      const asked = { provider: 'oidc', scopes: ['openid', 'repo'], user_id: 'u1', ...more }
      const { status, body, text, headers } = await client<Authenticated>('POST', '/v2/auth/authenticate', asked)
      t.equal(status, 200, text)
      t.equal(headers.get('cache-control'), 'no-store')
      if ('url' in body) states.push(new URL(body.url).searchParams.get('state')!)
      return body
    },
    async pending(more, client) {
      const begun = await stage.begin(more, client)
      if (begun.status === 'completed') throw new Error('expected a flow')
      return begun
    },
    async consented(more, client) {
      const { url, auth_id } = await stage.pending(more, client)
      t.equal((await newPerson().consent(url)).status, 200)
      return (await stage.wait(auth_id, 30, client)).token!
    },
    wait: async (auth_id, timeout, client = call) =>
      (await client<Waited>('GET', `/v2/auth/wait/${auth_id}?timeout=${timeout}`)).body,
    async keyed(...scopes) {
      const made = await call<{ key: string }>('POST', '/v2/keys', { name: scopes.join(' '), scopes })
      t.equal(made.status, 201, made.text)
      return openControl(url, made.body.key)
    },
    secrets: () => [...Object.values(oidc.issued).flat(), ...states, CLIENT.client_secret],
  }
  const IDS = ['oidc', 'other', 'basic', 'public']
  const OTHERS = ['/host-oauth-callback/oidc', '/api-host/v2/auth/callback/oidc'].map(path => `${url}${path}`)
  oidc.serve([...IDS.map(callbackOf), ...OTHERS, FOREIGN])
  await stage.provider('oidc')
  await stage.provider('other')
  return stage
}
