/** Deployments bring their own `auth`, which runs beside their graph workers. */
import t from 'tap'
import { startCluster } from '../helpers/cluster.js'
import { controlOf, deployEnv } from './control.js'
import { application, type Files, graphFile, makeRepository, sourcesFolder } from './repository.js'

/** Users of one deployment: everybody owns what they make, and `wish` asks for what a test needs. */
const authFile = (...users: string[]): string => `
import { Auth, HTTPException } from '@langchain/langgraph-sdk/auth'
const users = ${JSON.stringify(users)}
export const auth = new Auth()
  .authenticate(async request => {
    const wish = request.headers.get('x-wish')
    if (wish === 'exit') process.exit(3)
    if (process.env.TOKEN !== 'of-the-deployment') throw new Error('the variables of the deployment are missing')
    const name = request.headers.get('authorization')?.replace('Bearer ', '')
    if (!users.includes(name)) throw new HTTPException(401, { message: 'Who are you?' })
    return { identity: name, wish }
  })
  .on('*', ({ event, value, user }) => {
    if (user.wish === 'deny ' + event) return false
    if (value.metadata) value.metadata.owner = user.identity
    return { owner: user.identity }
  })
`
const guarded = (word: string, ...users: string[]): Files => ({
  ...application(word),
  'langgraph.json': JSON.stringify({
    graphs: { agent: './graph.mjs:graph', who: './who.mjs:graph' },
    auth: { path: './auth.mjs:auth', cache: { cache_keys: ['authorization', 'x-wish'], ttl_seconds: 60 } },
    store: { index: { embed: './embed.mjs:embed', dims: 2 } },
    ui: { agent: './ui.jsx' },
  }),
  'ui.jsx': `import './ui.css'
export default { greeting: ({ name }) => <p>${word} {name}</p> }`,
  'ui.css': 'p { color: red }',
  'auth.mjs': authFile(...users),
  // The letters a and b of a text.
  'embed.mjs': `
export function embed(texts) {
  if (process.env.TOKEN !== 'of-the-deployment') throw new Error('the variables of the deployment are missing')
  return texts.map(text => ['a', 'b'].map(letter => text.split(letter).length - 1 + 0.001))
}
`,
  'who.mjs': `
import { Annotation, StateGraph } from '@langchain/langgraph'
export const graph = new StateGraph(Annotation.Root({ who: Annotation() }))
  .addNode('node', (_, config) => ({ who: config.configurable.langgraph_auth_user_id }))
  .addEdge('__start__', 'node')
  .compile()
`,
})
/** Also answers below `/mine` itself, with a thread that it makes for nobody in particular. */
const withRoutes = (word: string, ...users: string[]): Files => ({
  ...guarded(word, ...users),
  'langgraph.json': JSON.stringify({
    graphs: { agent: './graph.mjs:graph' },
    auth: { path: './auth.mjs:auth' },
    http: { app: './app.mjs' },
    store: { path: './store.mjs' },
  }),
  'store.mjs': `
import { InMemoryStore } from '@langchain/langgraph'
const store = new InMemoryStore()
await store.put(['own'], 'token', { token: process.env.TOKEN, owner: 'carol' })
export default store
`,
  'app.mjs': `
import { Client } from '@langchain/langgraph-sdk'
export default {
  async fetch(request) {
    if (!new URL(request.url).pathname.startsWith('/mine')) return new Response(null, { status: 404 })
    const { answer } = await new Client().runs.wait(null, 'agent', { input: { text: await request.text() } })
    return Response.json({ answer, token: process.env.TOKEN })
  },
}
`,
})
const secrets = [{ name: 'TOKEN', value: 'of-the-deployment' }]

t.setTimeout(240_000)
t.test('deployments with an auth', async t => {
  const { folder, remove } = sourcesFolder()
  t.teardown(remove)
  const cluster = await startCluster({ app: 'test/apps/basic', env: deployEnv(folder) })
  t.teardown(() => cluster.stop())
  const control = controlOf(cluster.url)
  const one = makeRepository(folder, 'one', guarded('one', 'alice', 'bob'))
  const other = makeRepository(folder, 'other', withRoutes('other', 'carol'))
  const made = await Promise.all([
    control.create('one', one.url, { secrets }),
    control.create('other', other.url, { secrets }),
  ])
  await Promise.all(made.map(deployment => control.deployed(deployment)))
  const [first, second] = made.map(deployment => control.urlOf(deployment)) as [string, string]

  async function send(url: string, user: string | null, path: string, body?: object, wish?: string) {
    const answer = await fetch(url + path, {
      method: body === undefined ? 'GET' : 'POST',
      headers: {
        ...(user === null ? {} : { authorization: `Bearer ${user}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(wish === undefined ? {} : { 'x-wish': wish }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = (await answer.text()).trim()
    const parsed = /^[[{]/.test(text) ? JSON.parse(text) : text
    return { status: answer.status, retry: answer.headers.get('retry-after'), body: parsed }
  }
  const run = { assistant_id: 'agent', input: { text: 'hello' } }
  const threadOf = async (url: string, user: string) =>
    (await send(url, user, '/threads', { metadata: {} })).body.thread_id as string

  await t.test('callers are who the auth of the deployment says, and see what it allows', async t => {
    t.match(await send(first, null, '/threads', {}), { status: 401, body: { detail: 'Who are you?' } })
    t.match(await send(first, 'alice', '/threads', {}, 'deny threads:create'), { status: 403 })
    const thread_id = await threadOf(first, 'alice')
    t.match(await send(first, 'alice', `/threads/${thread_id}`), {
      status: 200,
      body: { metadata: { owner: 'alice' } },
    })
    t.equal((await send(first, 'bob', `/threads/${thread_id}`)).status, 404)
    t.same((await send(first, 'bob', '/threads/search', {})).body, [])
    t.match(await send(first, 'alice', `/threads/${thread_id}/runs/wait`, run), { body: { answer: 'one hello' } })
    t.equal((await send(first, 'bob', `/threads/${thread_id}/runs/wait`, run)).status, 404)
    t.match(await send(first, 'alice', '/runs/wait', { assistant_id: 'who', input: {} }), { body: { who: 'alice' } })
    t.match((await send(first, 'bob', '/runs/stream', run)).body, /one hello/)
    t.equal((await send(first, null, '/runs/stream', run)).status, 401)
    t.equal((await send(first, null, '/ok')).status, 200, 'probes are public')
    const byId = (id: string, user: string) =>
      fetch(`${cluster.url}/threads/${thread_id}`, {
        headers: { 'x-deployment-id': id, authorization: `Bearer ${user}` },
      })
    t.equal((await byId(made[0]!.id, 'alice')).status, 200, 'the header names the deployment, too')
    t.equal((await byId(made[0]!.id, 'bob')).status, 404)
    t.equal((await byId(made[0]!.id, 'carol')).status, 401)
  })

  await t.test('the auth of one deployment is not that of another, nor of the built-in application', async t => {
    const thread_id = await threadOf(first, 'alice')
    t.equal((await send(second, 'alice', '/threads', {})).status, 401)
    t.equal((await send(first, 'carol', '/threads', {})).status, 401)
    t.equal((await send(second, 'carol', `/threads/${thread_id}`)).status, 404)
    t.match(await send(second, 'carol', '/runs/wait', run), { body: { answer: 'other hello' } })
    t.equal((await send(cluster.url, null, '/threads', {})).status, 200)
  })

  await t.test('items are in the store of the deployment that brings one', async t => {
    const token = '/store/items?namespace=own&key=token'
    t.match(await send(second, 'carol', token), { status: 200, body: { value: { token: 'of-the-deployment' } } })
    t.match(await send(first, 'alice', token), { status: 200, body: 'null' })
    t.match(await send(cluster.url, null, token), { status: 200, body: 'null' })
  })

  await t.test('items are found by meaning, with the embedder of the deployment', async t => {
    for (const text of ['xa', 'xb', 'xab']) {
      const answer = await fetch(`${first}/store/items`, {
        method: 'PUT',
        headers: { authorization: 'Bearer alice', 'content-type': 'application/json' },
        body: JSON.stringify({ namespace: ['texts'], key: text, value: { text, owner: 'alice' } }),
      })
      t.equal(answer.status, 204, await answer.text())
    }
    const search = async (url: string, user: string | null) => {
      const { body } = await send(url, user, '/store/items/search', { namespace_prefix: ['texts'], query: 'b' })
      return (body.items as { key: string }[]).map(({ key }) => key)
    }
    t.same(await search(first, 'alice'), ['xb', 'xab', 'xa'])
    t.same(await search(first, 'bob'), [], 'of another user')
    t.same(await search(cluster.url, null), [], 'of another application')
  })

  await t.test('the user interface of a deployment is served under its address', async t => {
    const ask = (url: string, user: string | null, path = '/ui/agent') => send(url, user, path, { name: 'greeting' })
    const { status, body } = await ask(first, 'alice')
    t.equal(status, 200)
    const files = [...(body as string).matchAll(/(?:src|href)="([^"]+)"/g)].map(([, url]) => `http:${url}`)
    t.equal(files.length, 2, 'a script and a style sheet')
    for (const file of files) {
      t.ok(file.startsWith(`${first}/ui/agent/`), file)
      const answer = await fetch(file)
      t.equal(answer.status, 200, 'public: a browser sends no key for it')
      t.match(await answer.text(), file.endsWith('.css') ? 'color:red' : 'greeting')
    }
    const byId = await fetch(`${cluster.url}/ui/agent`, {
      method: 'POST',
      headers: { 'x-deployment-id': made[0]!.id, authorization: 'Bearer alice', 'content-type': 'application/json' },
      body: '{"name": "greeting"}',
    })
    t.equal(await byId.text(), body, 'the same address: the elements cannot send the header')
    t.equal((await ask(first, null)).status, 401)
    t.equal((await ask(first, 'alice', '/ui/who')).status, 404, 'a graph without one')
    t.equal((await ask(second, 'carol')).status, 404, 'of another deployment')
    t.equal((await fetch(`${first}/ui/none/x.js`)).status, 404)
  })

  await t.test('the routes of a deployment are served, and its code calls its own API', async t => {
    const answer = await fetch(`${second}/mine/x`, { method: 'POST', body: 'a body' })
    t.same(await answer.json(), { answer: 'other a body', token: 'of-the-deployment' })
    t.equal((await fetch(`${first}/mine/x`, { method: 'POST', body: 'a body' })).status, 404)
    t.equal((await fetch(`${cluster.url}/mine/x`, { method: 'POST', body: 'a body' })).status, 404)
    t.equal((await send(second, null, '/threads', {})).status, 401, 'what it does not serve is authenticated')
    t.equal((await send(second, 'carol', '/threads', {})).status, 200)
    const loopback = await fetch(`${second}/threads`, { method: 'POST', headers: { 'x-weft-loopback': '1' } })
    t.equal(loopback.status, 401)
  })

  await t.test('while the app host is away nobody passes; then it is back', async t => {
    const thread_id = await threadOf(first, 'alice')
    t.match(await send(first, 'bob', '/threads', {}, 'exit'), { status: 503, retry: /^\d+$/ })
    const seen = new Set<number>()
    for (;;) {
      t.match((await send(first, null, `/threads/${thread_id}`)).status, /^(401|503)$/)
      const { status } = await send(first, 'alice', `/threads/${thread_id}`)
      seen.add(status)
      if (status === 200) break
    }
    t.same(
      [...seen].filter(status => status !== 503),
      [200],
    )
    t.equal((await send(second, 'carol', '/threads', {})).status, 200)
  })

  await t.test('each revision has its own auth', async t => {
    const [{ id, active_revision_id }] = [await control.get(made[0]!.id)]
    one.commit({ 'auth.mjs': authFile('dave') })
    await control.deployed(await control.again(id))
    t.equal((await send(first, 'alice', '/threads', {})).status, 401)
    t.equal((await send(first, 'dave', '/threads', {})).status, 200)

    one.commit({ 'auth.mjs': 'export const auth = 1\n' })
    t.match(await control.over(await control.again(id)), {
      status: 'DEPLOY_FAILED',
      status_message: /auth\.path: .* is no Auth/,
    })
    t.equal((await send(first, 'dave', '/threads', {})).status, 200, 'the revision before still serves')

    const back = await control.ask('POST', `/v2/deployments/${id}/revisions/${active_revision_id}/redeploy`)
    t.equal(back.status, 200)
    await control.deployed(await control.get(id))
    t.equal((await send(first, 'dave', '/threads', {})).status, 401)
    t.equal((await send(first, 'alice', '/threads', {})).status, 200)

    one.commit({
      'langgraph.json': JSON.stringify({ graphs: { agent: './graph.mjs:graph' } }),
      'graph.mjs': graphFile('open'),
    })
    await control.deployed(await control.again(id))
    t.match(await send(first, null, '/runs/wait', run), { body: { answer: 'open hello' } })
    one.commit(guarded('closed', 'erin'))
    await control.deployed(await control.again(id))
    t.match((await send(first, null, '/runs/wait', run)).status, /^(401|503)$/, 'closed at once')
    t.match(await send(first, 'erin', '/runs/wait', run), { body: { answer: 'closed hello' } })
  })
})
