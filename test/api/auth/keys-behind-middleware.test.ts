/** A server with keys in front of the middleware of an application: it never gets a key, and callers stay who they are. */
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { root } from '../../../cli/root.js'
import { venvOf, withoutPython } from '../../../scripts/checks/venv.js'
import { type Roles, startCluster, startRoles } from '../../helpers/cluster.js'
import { runWeft } from '../../helpers/command.js'
import { sender } from '../../helpers/http.js'

t.setTimeout(180_000)

const skip = withoutPython() ?? false
const python: { [name: string]: string } =
  skip === false ? { WEFT_PYTHON: await venvOf(join(root, 'test/host-python/requirements.txt')) } : {}
const env = { ...python, WEFT_REQUIRE_KEYS: '1' }

/** A request as middleware saw it. */
interface Seen {
  path: string
  headers: { [name: string]: string }
}

interface Place {
  /** The addresses of the application: one for each edge. */
  urls: readonly string[]
  data: string
}

const builtIn =
  (folder: string) =>
  async (t: Test): Promise<Place> => {
    const cluster = await startCluster({ app: `test/apps/${folder}/langgraph.json`, env })
    t.teardown(() => cluster.stop())
    return { urls: [cluster.url], data: cluster.data }
  }

let others: Promise<Roles> | null = null
t.teardown(async () => (await others)?.stop())

/** A request that an application passes on may come back to another edge. */
const beside = (folder: string) => async (): Promise<Place> => {
  others ??= startRoles({ app: 'test/apps/basic', edges: 2, env })
  const { urls, add, nats } = await others
  await add('graphs', ['--app', `test/apps/${folder}/langgraph.json`, '--app-id', folder])
  return { urls: urls.map(url => `${url}/deployments/${folder}`), data: nats.data }
}

for (const [name, start, skipped] of [
  ['a Hono application, built-in', builtIn('custom-routes'), false],
  ['a Hono application, beside the built-in one', beside('custom-routes'), false],
  ['a FastAPI application, built-in', builtIn('custom-routes-py'), skip],
  ['a FastAPI application, beside the built-in one', beside('custom-routes-py'), skip],
] as const)
  t.test(name, { skip: skipped }, async t => {
    const { urls, data } = await start(t)
    const create = async (...flags: string[]) => {
      const { stdout } = await runWeft(['keys', 'create', 'x', ...flags, '--data', data], { WEFT_REQUIRE_KEYS: '1' })
      const key = stdout.trim()
      return { key, id: key.slice(5, 21) }
    }
    const { key, id } = await create('--scope', 'run')
    const reader = await create('--scope', 'read')
    const admin = await create('--scope', 'admin')
    const slow = await create('--scope', 'read', '--requests-per-second', '0.01')
    const by = (key: string) => ({ 'x-api-key': key })
    const [first, last] = [sender(urls[0]!), sender(urls.at(-1)!)]

    // Several times, so that a request comes back to every edge.
    for (let i = 0; i < 6; i++)
      for (const send of [first, last]) {
        const body = { assistant_id: 'agent', input: { said: 'hi' } }
        const run = await send('POST', '/runs/wait', body, i % 2 ? by(key) : { authorization: `Bearer ${key}` })
        t.match(run, { status: 200, body: { said: 'hi, changed' } })
        t.equal(run.headers.get('x-middleware'), 'yes')
      }
    const busy = await create('--scope', 'run', '--running-runs', '1')
    const wait = { assistant_id: 'agent', input: { said: 'x', wait: 60_000 } }
    const runs = [await first('POST', '/runs', wait, by(busy.key)), await first('POST', '/runs', wait, by(busy.key))]
    t.same(
      runs.map(({ status }) => status),
      [200, 429],
      'its runs are those of the key',
    )
    t.equal((await first('POST', '/runs/cancel', { status: 'all' }, by(busy.key))).status, 204)

    t.match(await first('POST', '/threads', {}), { status: 401, body: { detail: /needs a key/ } })
    t.match(await first('POST', '/threads', {}, by(reader.key)), {
      status: 403,
      body: { detail: /lacks the scope run/ },
    })
    for (const wrong of [`${key.slice(0, -1)}${key.endsWith('A') ? 'B' : 'A'}`, 'another'])
      t.match(await first('POST', '/threads', {}, by(wrong)), {
        status: 401,
        body: { detail: /not a key of this server/ },
      })
    for (const header of ['x-weft-caller', 'x-weft-key-id', 'x-weft-loopback'])
      t.equal((await first('POST', '/threads', {}, { [header]: id })).status, 401, header)
    const accept = { accept: 'application/json, text/event-stream' }
    const tools = { jsonrpc: '2.0', id: 1, method: 'tools/list' }
    t.match(await first('POST', '/mcp', tools, { ...by(key), ...accept }), {
      body: { result: { tools: [{ name: 'agent' }] } },
    })

    t.equal((await first('GET', '/custom/hello/x', undefined, by(admin.key))).status, 200)
    t.equal((await first('POST', '/threads/search', {}, by(admin.key))).status, 200)
    const all = await Promise.all(['1', '2'].map(() => first('POST', '/threads/search', {}, by(slow.key))))
    // Each edge counts by itself.
    if (urls.length === 1) t.same(all.map(({ status }) => status).sort(), [200, 429], 'a request counts once')

    const seen = (await first('GET', '/custom/seen')).body as Seen[]
    t.ok(seen.length > 20, `${seen.length} requests`)
    for (const secret of [key, reader.key, admin.key, slow.key, busy.key])
      t.notOk(JSON.stringify(seen).includes(secret.slice(-43)))
    const ofKey = seen.filter(({ headers }) => headers['x-weft-key-id'] === id)
    t.ok(ofKey.length >= 12 && ofKey.every(({ headers }) => headers['x-weft-key-scopes'] === 'run'), `${ofKey.length}`)
    // A ticket opens nothing from outside.
    const ticket = ofKey[0]!.headers['x-weft-caller']!
    for (const headers of [{ 'x-weft-caller': ticket }, by(ticket), { authorization: `Bearer ${ticket}` }] as {
      [name: string]: string
    }[])
      t.equal((await first('POST', '/threads', {}, headers)).status, 401)
  })
