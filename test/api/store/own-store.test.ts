/** A store that the application brings (`store.path`): what graphs and clients read and write there, in both languages. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Libsql from 'libsql'
import t, { type Test } from 'tap'
import { root } from '../../../cli/root.js'
import { venvOf, withoutPython } from '../../../scripts/checks/venv.js'
import { startCluster } from '../../helpers/cluster.js'
import { type Send, sender } from '../../helpers/http.js'
import { until } from '../../helpers/until.js'

t.setTimeout(240_000)

const ITEMS = '/store/items'
const get = (send: Send, namespace: string, key: string, headers = {}) =>
  send('GET', `${ITEMS}?namespace=${namespace}&key=${key}`, undefined, headers)
const search = async (send: Send, body: object, headers = {}) => {
  const answer = await send('POST', `${ITEMS}/search`, body, headers)
  return (answer.body as { items: { key: string }[] }).items.map(({ key }) => key)
}
const namespaces = async (send: Send, body: object, headers = {}) =>
  ((await send('POST', '/store/namespaces', body, headers)).body as { namespaces: string[][] }).namespaces

/** Runs the graph with this input; resolves to its state. */
async function run(send: Send, assistant_id: string, input: object) {
  const { status, body } = await send('POST', '/runs/wait', { assistant_id, input })
  if (status !== 200) throw new Error(`${status} ${JSON.stringify(body)}`)
  return body as { found: unknown }
}

t.test('a store in JavaScript', async t => {
  const cluster = await startCluster({ app: 'test/apps/own-store/langgraph.json', env: { WEFT_HOSTS: '2' } })
  t.teardown(() => cluster.stop())
  const send = sender(cluster.url)
  t.match(cluster.output(), /store\.ttl has no effect: items are in the store of store\.path/)

  await t.test('serves graphs and clients from one process', async t => {
    const { found } = await run(send, 'memory', {
      steps: [
        ['put', ['notes', 'a'], 'one', { text: 'hi', size: 2 }],
        ['get', ['notes', 'a'], 'one'],
        ['get', ['notes'], 'process'],
        ['search', ['notes'], { filter: { size: { $gt: 1 } } }],
        ['listNamespaces', { prefix: ['notes'] }],
        ['get', ['notes'], 'broken'],
      ],
    })
    const [, one, own, all, spaces, broken] = found as { value: { pid: number } }[]
    t.match(one, { namespace: ['notes', 'a'], key: 'one', value: { text: 'hi', size: 2 }, createdAt: true })
    t.match(all, [{ key: 'one' }])
    t.same(spaces, [['notes', 'a']])
    t.match(broken, /the database is gone/, 'the node gets the error of the store')
    const answer = await get(send, 'notes.a', 'one')
    t.match(answer, { status: 200, body: { key: 'one', value: { text: 'hi', size: 2 }, created_at: /Z$/ } })
    t.match((await get(send, 'notes', 'process')).body, { value: { pid: own!.value.pid } })
  })

  await t.test('every route reaches it', async t => {
    const put = { namespace: ['routes'], key: 'k', value: { n: 12345678901234567890n.toString(), list: [1, null] } }
    t.equal((await send('PUT', ITEMS, put)).status, 204)
    t.match((await get(send, 'routes', 'k')).body, put)
    t.same(await search(send, { namespace_prefix: ['routes'] }), ['k'])
    t.same(await namespaces(send, { prefix: ['routes'], max_depth: 1 }), [['routes']])
    t.equal((await send('DELETE', ITEMS, { namespace: ['routes'], key: 'k' })).status, 204)
    t.match(await get(send, 'routes', 'k'), { status: 200, body: null })
    t.match(await get(send, 'notes', 'broken'), { status: 500, body: { detail: /store.*the database is gone/ } })
    t.match(await send('PUT', ITEMS, { ...put, ttl: 5 }), { status: 422, body: { detail: /ttl: / } })
    t.match(await send('PUT', ITEMS, { ...put, namespace: ['a.b'] }), { status: 422, body: { detail: /no dot/ } })
  })

  await t.test('filters of authorization hold', t => filters(t, send))
})

async function filters(t: Test, send: Send) {
  const [ann, bob] = [{ 'x-user': 'ann' }, { 'x-user': 'bob' }]
  const put = (key: string, owner: string, headers: object) =>
    send('PUT', ITEMS, { namespace: ['shared', key], key, value: { owner } }, headers as { [name: string]: string })
  t.equal((await put('hers', 'ann', ann)).status, 204)
  t.equal((await put('his', 'bob', bob)).status, 204)
  t.equal((await put('his', 'ann', ann)).status, 404, 'that of another')
  t.equal((await put('new', 'bob', ann)).status, 403, 'in the name of another')
  t.equal((await get(send, 'shared.his', 'his', ann)).status, 404)
  t.match((await get(send, 'shared.hers', 'hers', ann)).body, { value: { owner: 'ann' } })
  t.equal((await send('DELETE', ITEMS, { namespace: ['shared', 'his'], key: 'his' }, ann)).status, 404)
  for (let i = 0; i < 250; i++) await put(`x${i}`, 'bob', {})
  const query = { namespace_prefix: ['shared'], limit: 10 }
  t.same(await search(send, query, ann), ['hers'], 'also behind a page of items of others')
  t.equal((await search(send, { ...query, offset: 245 }, bob)).length, 6)
  t.same(await namespaces(send, { prefix: ['shared'] }, ann), [], 'no namespace has the member of the filter')
  t.same(await namespaces(send, { prefix: ['shared'], max_depth: 1 }), [['shared']])
}

t.test('a store that cannot be opened stops the start', async t => {
  const folder = mkdtempSync(join(tmpdir(), 'weft-own-store-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const apps = join(root, 'test/apps')
  for (const [path, reason] of [
    [`${apps}/own-store/store.mjs:nothing`, 'is no store; expected a BaseStore of @langchain/langgraph'],
    ['./absent.mjs:store', 'store.path: the file'],
  ] as const) {
    const app = join(folder, 'langgraph.json')
    writeFileSync(app, JSON.stringify({ graphs: { memory: `${apps}/memory/graphs.mjs:memory` }, store: { path } }))
    await t.rejects(startCluster({ app }), { message: new RegExp(`the application cannot be served.*${reason}`) })
  }
})

const skip = withoutPython() ?? false

t.test('a store in Python', { skip }, async t => {
  const python = await venvOf(join(root, 'test/apps/import-py/requirements.txt'))
  const folder = mkdtempSync(join(tmpdir(), 'weft-own-store-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'items.sqlite')
  const app = 'test/apps/own-store-py/langgraph.json'
  const cluster = await startCluster({ app, env: { WEFT_PYTHON: python, WEFT_HOSTS: '2', OWN_STORE: file } })
  const send = sender(cluster.url)

  const { found } = await run(send, 'python', { text: 'hello' })
  t.same(found, [{ text: 'hello', length: 5 }, ['first'], [['notes', 'python']]])
  t.match((await get(send, 'notes.python', 'first')).body, { value: { text: 'hello', length: 5 } })
  t.equal((await send('PUT', ITEMS, { namespace: ['notes', 'api'], key: 'k', value: { length: 7 } })).status, 204)
  const steps = [
    ['get', ['notes', 'api'], 'k'],
    ['search', ['notes'], { filter: { length: 7 } }],
    ['listNamespaces', { prefix: ['notes'] }],
  ]
  const javascript = await run(send, 'javascript', { steps })
  t.match(javascript.found, [
    { value: { length: 7 } },
    [{ key: 'k' }],
    [
      ['notes', 'api'],
      ['notes', 'python'],
    ],
  ])
  t.match(await send('PUT', ITEMS, { namespace: ['notes'], key: 'k', value: {}, ttl: 60 }), { status: 204 })
  t.match(await search(send, { namespace_prefix: ['notes'], limit: 1, offset: 1 }), { length: 1 })

  t.equal(cluster.output().match(/the store is open/g)?.length, 1, 'one process opens it')
  await cluster.stop()
  await until(() => cluster.output().includes('the store is closed'))
  const database = new Libsql(file, { readonly: true })
  const rows = database.prepare('select key from store order by key').all() as { key: string }[]
  database.close()
  t.same(
    rows.map(({ key }) => key),
    ['first', 'k', 'k'],
  )
})
