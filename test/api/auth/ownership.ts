/**
 * Every route, by its owner, by another user and by nobody: what is Alice's is hers alone. The rows come from the route
 * table, so a new route is covered, or fails for want of a body.
 */
import { request } from 'node:http'
import type { Test } from 'tap'
import { ROUTES, type Route } from '../../../edge/routes.js'

interface Answer {
  status: number
  text: string
}

/** One request; of an endless answer the head and the first bytes. */
export function send(
  url: string,
  method: string,
  path: string,
  user: string | null,
  body?: unknown,
  more: { [name: string]: string } = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const { hostname, port, pathname } = new URL(url)
    const text = body === undefined ? undefined : JSON.stringify(body)
    const headers = {
      accept: 'application/json, text/event-stream',
      ...(user === null ? {} : { authorization: `Bearer ${user}` }),
      ...(text === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }),
      ...more,
    }
    const req = request({ hostname, port, path: pathname.replace(/\/$/, '') + path, method, headers, agent: false })
    req.on('error', reject)
    req.on('response', res => {
      let answer = ''
      const endless = `${res.headers['content-type']}`.startsWith('text/event-stream')
      const done = () => resolve({ status: res.statusCode!, text: answer })
      res.on('error', () => {})
      res.on('data', part => {
        answer += part
        if (endless) {
          done()
          req.destroy()
        }
      })
      res.on('end', done)
    })
    req.end(text)
  })
}

export const SECRET = 'the-secret-of-alice'
const name = ({ method, path }: Route) => `${method} ${path}`
const YEARLY = '0 0 1 1 *'
/** Nobody listens there; the server must allow it (WEFT_ALLOW_HOSTS). */
export const RECEIVER = '127.0.0.1:9'
const WEBHOOK = `http://${RECEIVER}/`

/** The ids of what Alice owns, by the names of path parameters. */
export interface Owned {
  thread_id: string
  run_id: string
  checkpoint_id: string
  assistant_id: string
  cron_id: string
  [param: string]: string
}

/** Bodies that work for the owner. */
const BODIES: { readonly [row: string]: (owned: Owned) => unknown } = {
  'POST /ui/:assistant_id': () => ({ name: 'x' }),
  'POST /a2a/:assistant_id': () => ({
    jsonrpc: '2.0',
    id: 1,
    method: 'message/send',
    params: { message: { role: 'user', messageId: 'm', parts: [{ kind: 'data', data: { text: SECRET } }] } },
  }),
  'POST /mcp': () => ({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
  'POST /assistants': ({ assistant_id }) => ({ assistant_id, graph_id: 'echo', if_exists: 'do_nothing' }),
  'PATCH /assistants/:assistant_id': () => ({ name: 'changed' }),
  'POST /assistants/:assistant_id/latest': () => ({ version: 1 }),
  'POST /threads': ({ thread_id }) => ({ thread_id, if_exists: 'do_nothing' }),
  'POST /threads/prune': ({ thread_id }) => ({ thread_ids: [thread_id] }),
  'PATCH /threads/:thread_id': () => ({ metadata: { changed: true } }),
  'POST /threads/:thread_id/state': () => ({ values: { text: 'changed' }, as_node: 'node' }),
  'PATCH /threads/:thread_id/state': () => ({ metadata: { changed: true } }),
  'POST /threads/:thread_id/state/checkpoint': ({ checkpoint_id }) => ({ checkpoint: { checkpoint_id } }),
  'POST /threads/:thread_id/stream/events': () => ({ channels: ['values'] }),
  'POST /threads/:thread_id/commands': ({ assistant_id }) => ({
    id: 1,
    method: 'run.start',
    params: { assistant_id, input: { text: 'command' } },
  }),
  'POST /threads/:thread_id/runs/crons': ({ assistant_id }) => ({ assistant_id, schedule: YEARLY }),
  'POST /runs/crons': ({ assistant_id }) => ({ assistant_id, schedule: YEARLY }),
  'PATCH /runs/crons/:cron_id': () => ({ metadata: { changed: true } }),
  'POST /runs': ({ assistant_id }) => ({ assistant_id }),
  'POST /runs/batch': ({ assistant_id }) => [{ assistant_id }, { assistant_id }],
  'POST /runs/stream': ({ assistant_id }) => ({ assistant_id }),
  'POST /runs/wait': ({ assistant_id }) => ({ assistant_id }),
  'POST /runs/cancel': ({ thread_id, run_id }) => ({ thread_id, run_ids: [run_id] }),
  'POST /threads/:thread_id/runs': ({ assistant_id }) => ({ assistant_id, if_not_exists: 'create' }),
  'POST /threads/:thread_id/runs/stream': ({ assistant_id }) => ({ assistant_id, if_not_exists: 'create' }),
  'POST /threads/:thread_id/runs/wait': ({ assistant_id }) => ({ assistant_id, if_not_exists: 'create' }),
  'PUT /store/items': () => ({ namespace: ['docs', 'alice'], key: 'k', value: { text: 'changed' } }),
  'DELETE /store/items': () => ({ namespace: ['docs', 'alice'], key: 'k' }),
}
const QUERIES: { readonly [row: string]: (owned: Owned) => string } = {
  'GET /store/items': () => '?namespace=docs.alice&key=k',
  'GET /.well-known/agent-card.json': ({ assistant_id }) => `?assistant_id=${assistant_id}`,
}
/** Status of the owner where it is no success: the run has ended, an upgrade is needed. */
const OWNER: { readonly [row: string]: number } = {
  // The application has no user interface.
  'POST /ui/:assistant_id': 404,
  'POST /threads/:thread_id/runs/:run_id/cancel': 409,
  'GET /threads/:thread_id/stream/events': 426,
  // The graph echo has no subgraphs.
  'GET /assistants/:assistant_id/subgraphs/:namespace': 200,
}
/** It searches, counts or changes several: another user finds nothing. What names an object is refused. */
export const isSearch = ({ path }: Route): boolean =>
  !path.includes(':') && /\/(search|count|prune|namespaces|mcp)$/.test(path)

/** Path and body of a request that works for the owner. */
export function requestOf(route: Route, owned: Owned): { path: string; body: unknown } {
  const row = name(route)
  const path = route.path.replace(/:(\w+)/g, (_, param: string) => owned[param]!) + (QUERIES[row]?.(owned) ?? '')
  const takesBody = route.method !== 'GET' && (route.method !== 'DELETE' || row in BODIES)
  return { path, body: takesBody ? (BODIES[row]?.(owned) ?? {}) : undefined }
}

/** Creates what Alice owns; `alice` sends her requests. */
export async function createOwned(
  // biome-ignore lint/suspicious/noExplicitAny: rows of any kind, of which ids are read.
  alice: (method: string, path: string, body?: unknown) => Promise<any>,
): Promise<Owned> {
  const metadata = { note: SECRET }
  const { assistant_id } = await alice('POST', '/assistants', { graph_id: 'echo', name: SECRET, metadata })
  const { thread_id } = await alice('POST', '/threads', { metadata })
  await alice('POST', `/threads/${thread_id}/runs/wait`, { assistant_id, input: { text: SECRET }, webhook: WEBHOOK })
  const [{ run_id }] = await alice('GET', `/threads/${thread_id}/runs`)
  const { checkpoint } = await alice('GET', `/threads/${thread_id}/state`)
  const { cron_id } = await alice('POST', `/threads/${thread_id}/runs/crons`, {
    assistant_id,
    schedule: YEARLY,
    metadata,
  })
  await alice('PUT', '/store/items', { namespace: ['docs', 'alice'], key: 'k', value: { text: SECRET } })
  const { checkpoint_id } = checkpoint
  return { thread_id, run_id, checkpoint_id, assistant_id, cron_id, namespace: 'x' }
}

/** Asks a server with the rules of test/apps/auth. */
export async function matrix(t: Test, url: string): Promise<void> {
  const alice = async (method: string, path: string, body?: unknown) => {
    const answer = await send(url, method, path, 'alice', body)
    t.ok(answer.status < 300, `alice: ${method} ${path}: ${answer.status} ${answer.status < 300 ? '' : answer.text}`)
    return answer.text === '' ? null : JSON.parse(answer.text)
  }

  /** All that Alice sees of her own. */
  async function seen({ thread_id, run_id, assistant_id, cron_id }: Owned): Promise<unknown> {
    return Promise.all([
      alice('GET', `/threads/${thread_id}`),
      alice('GET', `/threads/${thread_id}/runs`),
      alice('GET', `/threads/${thread_id}/runs/${run_id}`),
      alice('GET', `/threads/${thread_id}/state`),
      alice('GET', `/assistants/${assistant_id}`),
      alice('POST', `/assistants/${assistant_id}/versions`, {}),
      alice('GET', `/runs/crons/${cron_id}`),
      alice('GET', '/store/items?namespace=docs.alice&key=k'),
    ])
  }

  for (const route of ROUTES) {
    if (typeof route.auth === 'string') continue
    const row = name(route)
    await t.test(row, async t => {
      const owned = await createOwned(alice)
      const { path, body } = requestOf(route, owned)
      const before = await seen(owned)

      const nobody = await send(url, route.method, path, null, body)
      t.equal(nobody.status, 401, `nobody: ${nobody.text}`)
      const other = await send(url, route.method, path, 'bob', body)
      const finds = isSearch(route)
      if (finds) t.equal(other.status, 200)
      // The upgrade of a WebSocket is another test.
      else if (route.answer === 'socket') t.equal(other.status, 426)
      // An answer to a command of protocol v2 has status 200 even when it is an error.
      else if (route.answer === 'command') t.match(JSON.parse(other.text), { type: 'error' })
      else t.ok([403, 404, 409].includes(other.status), `bob: ${other.status} ${other.text.slice(0, 300)}`)
      t.notOk(other.text.includes(SECRET), 'nothing leaks')
      t.same(await seen(owned), before, 'nothing changed')

      const mine = await send(url, route.method, path, 'alice', body)
      const good = OWNER[row] === undefined ? mine.status < 300 : mine.status === OWNER[row]
      t.ok(good, `alice: ${mine.status} ${good ? '' : mine.text.slice(0, 300)}`)
      if (finds && route.path.endsWith('/search')) t.ok(mine.text.includes(SECRET), 'the owner finds it')
      if (finds && route.path.endsWith('/search')) t.notOk(JSON.stringify(JSON.parse(other.text)).includes('alice'))
      if (finds && route.path.endsWith('/count')) t.equal(other.text, '0')
      if (finds && route.path.endsWith('/prune')) t.match(JSON.parse(other.text), { pruned_count: 0 })
    })
  }
}
