/** A real OpenID provider on this machine, and a person with a browser who logs in there. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import Provider, { type Configuration } from 'oidc-provider'

export const CLIENT = { client_id: 'weft', client_secret: 'a-client-secret-of-tests' }

export interface Oidc {
  issuer: string
  /** `host:port`, for WEFT_ALLOW_HOSTS. */
  host: string
  /** Serves from now on, for these callbacks. */
  serve(redirects: string[]): void
  /** How long access tokens live that are issued from now on. */
  seconds: number
  /** Values that it has issued: access tokens, refresh tokens, codes; the newest last. */
  issued: { access: string[]; refresh: string[]; code: string[] }
  /** Paths of requests so far. */
  requests: string[]
  /** Called before each request; it may hold the request up, or reject: the connection is closed then. */
  before: (path: string) => Promise<void>
  stop(): Promise<void>
}

/** Listens at once, because its address is part of the settings of the server under test. */
export async function openOidc(): Promise<Oidc> {
  let handle: ((request: never, response: never) => void) | null = null
  const server = createServer((request, response) => {
    const path = request.url!.split('?')[0]!
    oidc.requests.push(path)
    const answer = () => (handle === null ? response.destroy() : handle(request as never, response as never))
    void oidc.before(path).then(answer, () => response.destroy())
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`
  const issuer = `http://${host}`
  const oidc: Oidc = {
    issuer,
    host,
    requests: [],
    before: async () => {},
    seconds: 3_600,
    issued: { access: [], refresh: [], code: [] },
    serve(redirects) {
      const provider = new Provider(
        issuer,
        configOf(redirects, () => oidc.seconds),
      )
      const keep = (list: string[]) => (one: { jti: string }) => void (list.includes(one.jti) || list.push(one.jti))
      provider.on('access_token.saved', keep(oidc.issued.access))
      provider.on('refresh_token.saved', keep(oidc.issued.refresh))
      provider.on('authorization_code.saved', keep(oidc.issued.code))
      handle = provider.callback() as never
    },
    async stop() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
  return oidc
}

const configOf = (redirect_uris: string[], seconds: () => number): Configuration => ({
  clients: (['client_secret_post', 'client_secret_basic', 'none'] as const).map(method => ({
    client_id: method === 'client_secret_post' ? CLIENT.client_id : `${CLIENT.client_id}-${method}`,
    ...(method === 'none' ? {} : { client_secret: CLIENT.client_secret }),
    token_endpoint_auth_method: method,
    redirect_uris,
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
  })),
  scopes: ['openid', 'offline_access', 'repo', 'mail'],
  pkce: { required: () => false },
  features: { revocation: { enabled: true }, registration: { enabled: true }, introspection: { enabled: true } },
  issueRefreshToken: async () => true,
  rotateRefreshToken: true,
  ttl: {
    AccessToken: () => seconds(),
    AuthorizationCode: 60,
    Grant: 86_400,
    IdToken: 3_600,
    Interaction: 3_600,
    RefreshToken: 86_400,
    Session: 86_400,
  },
  cookies: { keys: ['a key of tests'] },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
})

export interface Visit {
  url: string
  status: number
  headers: Headers
  text: string
}

/** A browser with cookies, and without scripts. */
export interface Person {
  cookies: Map<string, string>
  /** Follows redirects, also those of pages, until an address that `stop` matches, which is not opened. */
  open(url: string, stop?: RegExp): Promise<Visit>
  /** Opens the link, logs in, consents, and comes back to the server: its page. `stop`: not opened. */
  consent(url: string, stop?: RegExp): Promise<Visit>
}

export function newPerson(login = 'alice'): Person {
  const cookies = new Map<string, string>()

  async function send(url: string, form?: { [name: string]: string }): Promise<Response> {
    const { host } = new URL(url)
    const mine = [...cookies].filter(([name]) => name.startsWith(`${host} `))
    const answer = await fetch(url, {
      method: form === undefined ? 'GET' : 'POST',
      redirect: 'manual',
      headers: {
        cookie: mine.map(([name, value]) => `${name.slice(host.length + 1)}=${value}`).join('; '),
        ...(form === undefined ? {} : { 'content-type': 'application/x-www-form-urlencoded' }),
      },
      ...(form === undefined ? {} : { body: new URLSearchParams(form).toString() }),
    })
    for (const cookie of answer.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(cookie)!
      cookies.set(`${host} ${name}`, value!)
    }
    return answer
  }

  async function follow(url: string, stop?: RegExp, form?: { [name: string]: string }): Promise<Visit> {
    for (let hops = 0; hops < 20; hops++) {
      if (stop?.test(url)) return { url, status: 0, headers: new Headers(), text: '' }
      const answer = await send(url, form)
      form = undefined
      const text = await answer.text()
      const location = answer.headers.get('location')
      if (location === null) return { url, status: answer.status, headers: answer.headers, text }
      url = new URL(location, url).href
    }
    throw new Error('too many redirects')
  }

  return {
    cookies,
    open: (url, stop) => follow(url, stop),
    async consent(url, stop) {
      let visit = await follow(url, stop)
      for (let pages = 0; visit.status === 200 && /name="prompt"/.test(visit.text) && pages < 5; pages++) {
        const action = /action="([^"]+)"/.exec(visit.text)![1]!
        const prompt = /name="prompt" value="(\w+)"/.exec(visit.text)![1]!
        visit = await follow(new URL(action, visit.url).href, stop, { prompt, login, password: 'any' })
      }
      return visit
    },
  }
}
