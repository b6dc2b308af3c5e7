/**
 * Every row of the route table with wrong input: the documented status, the documented form of the error, and no
 * process dies. The rows come from edge/routes.ts, so the test covers every new route.
 */
import { randomUUID } from 'node:crypto'
import { request } from 'node:http'
import t, { type Test } from 'tap'
import { isRunning } from '../../cli/processes.js'
import { ROUTES, type Route } from '../../edge/routes.js'
import { type Cluster, startCluster } from '../helpers/cluster.js'

t.setTimeout(180_000)
const KEY = 'a-control-key-for-tests'
const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const
const JSON_TYPE = { 'content-type': 'application/json' }

/** Bodies that pass the validators where `{}` would not, so that only the id is wrong. */
const BODIES: { readonly [row: string]: object } = {
  'POST /assistants': { graph_id: 'absent' },
  'POST /assistants/:assistant_id/latest': { version: 1 },
  'POST /ui/:assistant_id': { name: 'x' },
  'POST /threads/:thread_id/runs': { assistant_id: 'echo' },
  'POST /threads/:thread_id/runs/stream': { assistant_id: 'echo' },
  'POST /threads/:thread_id/runs/wait': { assistant_id: 'echo' },
  'POST /threads/:thread_id/runs/crons': { assistant_id: 'echo', schedule: '0 0 1 1 *' },
  'POST /threads/:thread_id/state': { values: {} },
  'PATCH /threads/:thread_id/state': { metadata: {} },
  'POST /threads/:thread_id/state/checkpoint': { checkpoint: { checkpoint_id: randomUUID() } },
  'POST /threads/:thread_id/stream/events': { channels: ['values'] },
  'POST /a2a/:assistant_id': { jsonrpc: '2.0', id: 1, method: 'tasks/get' },
  'POST /threads/:thread_id/commands': { id: 1, method: 'state.get', params: { namespace: [] } },
  'POST /v2/auth/agents/:agent_id/connections': { oauth_token_id: randomUUID() },
  'POST /v2/auth/callback/:provider_id': { code: 'x', state: 'x' },
}
/** Routes that document another answer than 404 for an unknown id. */
const UNKNOWN: { readonly [row: string]: readonly number[] } = {
  // The first command creates the thread, and a client may open its events before that (docs/spec/protocol-v2.md).
  'POST /threads/:thread_id/stream/events': [200],
  'GET /threads/:thread_id/stream/events': [200, 400, 404, 426],
  'POST /threads/:thread_id/commands': [200, 404],
  // Links of OAuth flows: an unknown one is as invalid as a used one (docs/spec/oauth.md#flow).
  'GET /v2/auth/wait/:auth_id': [200],
  'GET /v2/auth/start/:auth_id': [400],
  'GET /v2/auth/callback/:provider_id': [400],
  'GET /v2/auth/setup/:provider_id': [400],
  'GET /host-oauth-callback/:provider_id': [400],
  'POST /v2/auth/callback/:provider_id': [400],
  // An id is unknown until its URL is signed.
  'PUT /v2/deployments/:deployment_id/uploads/:upload_id': [403],
  // Any name may be that of an agent.
  'GET /v2/auth/agents/:agent_id/connections': [200],
  // The page says that there is no such deployment, to those who have the key.
  'GET /o/:tenant_id/host/deployments/:deployment_id': [303],
}
/** Whose ids may be any text. */
const ANY_TEXT: ReadonlySet<string> = new Set([
  'GET /v2/auth/wait/:auth_id',
  'GET /v2/auth/agents/:agent_id/connections',
])

interface Answer {
  status: number
  headers: { [name: string]: string | string[] | undefined }
  body: string
}

/** One request without normalisation; of an endless answer only the head is read. */
function send(url: string, method: string, path: string, headers: object, body?: string | Buffer): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const { hostname, port } = new URL(url)
    const req = request({ hostname, port, path, method, headers: { 'x-api-key': KEY, ...headers }, agent: false })
    req.on('error', reject)
    req.on('response', res => {
      const answer: Answer = { status: res.statusCode!, headers: res.headers, body: '' }
      res.on('error', () => {})
      if (res.headers['content-type']?.startsWith('text/event-stream')) {
        resolve(answer)
        req.destroy()
        return
      }
      res.on('data', part => (answer.body += part))
      res.on('end', () => resolve(answer))
    })
    req.end(body)
  })
}

const name = ({ method, path }: Route) => `${method} ${path}`
const fill = (route: Route, value: (param: string) => string) =>
  route.path.replace(/:(\w+)/g, (_, param: string) => value(param))
const takesBody = ({ method }: Route) => method !== 'GET' && method !== 'DELETE'
/** They answer browsers with pages. */
const PAGES: ReadonlySet<string> = new Set(['oauth-start', 'oauth-callback'])
/** They answer what cannot be parsed as their protocols demand. */
const PARSES: ReadonlySet<string> = new Set(['mcp', 'a2a', 'command'])
const isControl = ({ control }: Route) => control

/**
 * `{"detail": string}`; A2A answers errors of JSON-RPC, too; on the control plane 422 is a list of {loc, msg, type}
 * (docs/spec/control-plane.md#error-bodies).
 */
function wellFormed(route: Route, { status, body, headers }: Answer): boolean {
  if (status < 400) return true
  if (PAGES.has(route.answer) && String(headers['content-type']).startsWith('text/html')) return true
  if (!String(headers['content-type']).startsWith('application/json')) return false
  const parsed = JSON.parse(body) as { detail?: unknown; type?: string; message?: unknown; error?: { code: unknown } }
  if (route.path.startsWith('/a2a/') && typeof parsed.error?.code === 'number') return true
  // The envelope of protocol v2 (docs/spec/protocol-v2.md).
  if (route.path.endsWith('/commands') && parsed.type === 'error') return typeof parsed.message === 'string'
  if (status === 422 && isControl(route) && Array.isArray(parsed.detail))
    return parsed.detail.every(item => Array.isArray(item.loc) && typeof item.msg === 'string')
  return typeof parsed.detail === 'string' && parsed.detail !== ''
}

function check(t: Test, route: Route, answer: Answer, allowed: readonly number[], what: string): void {
  const fine = allowed.includes(answer.status) && wellFormed(route, answer)
  t.ok(fine, `${name(route)} ${what}: ${answer.status}`, fine ? {} : { allowed, ...answer, headers: undefined })
}

t.test('every route with every kind of invalid input', async t => {
  const cluster: Cluster = await startCluster({ app: 'test/apps/basic', env: { WEFT_CONTROL_KEY: KEY } })
  t.teardown(() => cluster.stop())
  const { url } = cluster
  const before = cluster.pids()
  const { thread_id } = JSON.parse((await send(url, 'POST', '/threads', JSON_TYPE, '{}')).body) as { thread_id: string }
  const run = await send(url, 'POST', `/threads/${thread_id}/runs/wait`, JSON_TYPE, '{"assistant_id":"echo"}')
  t.equal(run.status, 200)
  const known = (param: string) => (param === 'thread_id' ? thread_id : randomUUID())

  for (const route of ROUTES)
    await t.test(name(route), async t => {
      const body = takesBody(route) ? JSON.stringify(BODIES[name(route)] ?? {}) : undefined
      const type = takesBody(route) ? JSON_TYPE : {}
      const at = fill(route, known)

      const others = ROUTES.filter(({ path }) => path === route.path).map(({ method }) => method)
      for (const method of METHODS.filter(method => !others.includes(method))) {
        const answer = await send(
          url,
          method,
          fill(route, () => randomUUID()),
          {},
        )
        if (answer.status === 404) continue // another row with a literal where this one has a parameter
        check(t, route, answer, [405], `by ${method}`)
        for (const other of others) t.match(answer.headers.allow, other)
      }

      if (route.params.length > 0) {
        const unknown = await send(
          url,
          route.method,
          fill(route, () => randomUUID()),
          type,
          body,
        )
        check(t, route, unknown, UNKNOWN[name(route)] ?? [404], 'with an unknown id')
        for (const id of ['no-uuid', '*', '%3E', '%2e%2e%2f', '%00', '%0d%0aX:1', '%ff', 'a%20b', 'x'.repeat(2_000)])
          for (const bad of route.params) {
            const path = fill(route, param => (param === bad ? id : known(param)))
            const answer = await send(url, route.method, path, type, body)
            const allowed = [400, 404, 414, 422, 431, ...(ANY_TEXT.has(name(route)) ? [200] : [])]
            check(t, route, answer, allowed, `with ${bad} = ${id.slice(0, 12)}`)
          }
      }

      if (takesBody(route)) {
        // Nothing of a body counts without its signature.
        const refused = route.auth === 'signed' ? [403] : [400, 404, 405, 409, 422]
        for (const text of ['{', '{"a":1,}', '\ufeff', 'NaN', `${'['.repeat(100_000)}`, '"\ud800"'])
          check(
            t,
            route,
            await send(url, route.method, at, JSON_TYPE, text),
            refused,
            `with the body ${text.slice(0, 8)}`,
          )
        const raw = Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x3a, 0x31, 0x7d])
        check(t, route, await send(url, route.method, at, JSON_TYPE, raw), refused, 'with a body that is no UTF-8')
        for (const text of ['[]', '"text"', '17', 'true', '[{}]'])
          check(t, route, await send(url, route.method, at, JSON_TYPE, text), refused, `with the body ${text}`)
        // JSON.parse takes both: what no value can hold is invalid, never stored.
        const unfit = route.auth === 'signed' ? [403] : PARSES.has(route.answer) ? [400] : [404, 422]
        for (const value of ['"\\ud83d"', '1e400', '{"\\udc00":1}']) {
          const text = `{"x":${value},${(body ?? '{}').slice(1)}`.replace(/,}$/, '}')
          check(t, route, await send(url, route.method, at, JSON_TYPE, text), unfit, `with a member ${value}`)
        }
        // An empty body may be a complete request (copy, cancel): it must not be a 5xx.
        const empty = await send(url, route.method, at, {})
        t.ok(empty.status < 500 && wellFormed(route, empty), `${name(route)} with no body: ${empty.status}`)
        const huge = { ...JSON_TYPE, 'content-length': String(65 * 1024 * 1024) }
        // An upload may be as large, with a signature.
        const tooLarge = route.answer === 'upload' ? 403 : 413
        check(t, route, await send(url, route.method, at, huge).catch(cut), [tooLarge], 'with 65 MB announced')
      }

      if (isControl(route)) {
        const answer = await send(url, route.method, at, { ...type, 'x-api-key': 'wrong' }, body)
        check(t, route, answer, [401, 403], 'with a wrong key')
      }
    })

  // The graph worker may have started one more host: the others kept their work waiting.
  t.same(
    before.filter(pid => !isRunning(pid)),
    [],
    'no process has ended',
  )
  t.equal((await send(url, 'POST', '/runs/wait', JSON_TYPE, '{"assistant_id":"echo"}')).status, 200)
})

/** The server may close before the client has sent its announced body. */
const cut = (error: NodeJS.ErrnoException): Answer => {
  throw new Error(`the connection was cut without an answer: ${error.code}`)
}
