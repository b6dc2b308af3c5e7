import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { openLog } from '../../bus/log.js'
import { findApplication } from '../../cli/commands/application.js'
import { root } from '../../cli/root.js'
import { startEdgeAppHost } from '../../edge/app/host.js'
import type { AuthEvent } from '../../schemas/auth/auth.js'
import { readConfig } from '../../schemas/config.js'
import { type AppHost, openAppHost } from '../../workers/child/app-host.js'
import { until } from '../helpers/until.js'

process.env.WEFT_CONTROL_KEY = 'a-key-of-sixteen-characters'
process.env.MONGODB_URL = 'mongodb://user:password@127.0.0.1/'
const app = join(root, 'test/apps/app-host/langgraph.json')
const log = openLog('edge', 'silent', 'json')
const config = readConfig({})
const options = { memory_mb: 128, user: null, sandbox: null, log }
const embedding = { parts: ['embed'] as const, ...options }

const started = (await startEdgeAppHost({ config, application: (await findApplication(app))!, log }))!
t.teardown(() => started.stop())

const ask = (headers: { [name: string]: string }, events: AuthEvent[] = [], body?: unknown, more = {}) =>
  started.check(
    { method: 'POST', url: 'http://weft/x', headers: Object.entries(headers), events, params: {}, query: '', ...more },
    body === undefined ? new Uint8Array(0) : Buffer.from(JSON.stringify(body)),
  )

t.test('a request gets the user and the filters of its events, and its body with the changes of handlers', async t => {
  const { answer, body } = await ask({ 'x-user': 'ada' }, ['threads:create'], { metadata: { a: 1 } })
  t.match(answer, {
    passed: {
      user: { identity: 'ada', permissions: ['read'], display_name: 'ada', is_authenticated: true, leaked: [] },
      filters: { 'threads:create': { owner: 'ada' } },
      body: true,
    },
  })
  t.same(JSON.parse(Buffer.from(body).toString()), { metadata: { a: 1, owner: 'ada' } })
})

t.test('authenticate reads the body, and a known user is not authenticated again', async t => {
  t.match((await ask({ 'x-wish': 'body' }, [], { who: 'eve' })).answer, { passed: { user: { identity: 'eve' } } })
  const user = { identity: 'kay', permissions: [], display_name: 'kay', is_authenticated: true }
  const { answer } = await ask({ 'x-wish': 'throw' }, ['threads:read'], undefined, { user })
  t.match(answer, { passed: { user, filters: { 'threads:read': { owner: 'kay' } } } })
})

t.test('a handler changes the query', async t => {
  const { answer } = await ask({ 'x-user': 'ada' }, ['store:get'], undefined, { query: 'namespace=a.b&key=k' })
  t.match(answer, { passed: { query: 'key=k&namespace=ada.a.b' } })
})

for (const [wish, status, detail] of [
  ['refuse', 401, 'Who are you?'],
  ['throw', 500, /^The authentication of the application failed$/],
  ['nothing', 500, /^The authentication/],
] as const)
  t.test(`a request is refused when authenticate does this: ${wish}`, async t => {
    const { answer } = await ask({ 'x-wish': wish })
    t.match(answer, { refused: { status, detail } })
    if (wish === 'refuse') t.match(answer, { refused: { headers: { 'www-authenticate': 'X' } } })
  })

t.test('a request is refused when a handler says so, and when it returns nonsense', async t => {
  t.match((await ask({ 'x-user': 'ada' }, ['threads:delete'])).answer, { refused: { status: 403 } })
  t.match((await ask({ 'x-user': 'ada' }, ['assistants:read'])).answer, { refused: { status: 500 } })
})

t.test('authenticate that does not answer in time is 500', async t => {
  await t.rejects(ask({ 'x-wish': 'hang' }), { code: 'internal', message: 'The authentication did not answer in time' })
})

t.test('an app host that ends is started again; meanwhile calls are refused with unavailable', async t => {
  await t.rejects(ask({ 'x-wish': 'exit' }), { code: 'unavailable' })
  await t.rejects(ask({ 'x-user': 'ada' }), { code: 'unavailable' })
  await until(async () => 'passed' in (await ask({ 'x-user': 'ada' }).catch(() => ({ answer: {} }))).answer)
})

t.test('an app host whose event loop is blocked is killed and started again', async t => {
  await t.rejects(ask({ 'x-wish': 'block' }), { code: 'unavailable' })
  await until(async () => 'passed' in (await ask({ 'x-user': 'ada' }).catch(() => ({ answer: {} }))).answer)
})

t.test('an app host is not killed while the application holds the event loop at its import', async t => {
  const folder = mkdtempSync(join(root, 'test/apps/app-host/slow-import-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const path = join(folder, 'langgraph.json')
  writeFileSync(path, '{"graphs":{"a":"./auth.mjs:auth"},"auth":{"path":"./auth.mjs:auth"}}')
  writeFileSync(
    join(folder, 'auth.mjs'),
    `import { Auth } from '@langchain/langgraph-sdk/auth'
     Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 7_000)
     export const auth = new Auth().authenticate(() => ({ identity: 'ada' }))`,
  )
  const host = openAppHost({ app: path, parts: ['auth'], ...options })
  t.teardown(() => host.stop())
  t.match(await host.hello, { error: null, auth: true })
  t.equal(host.isReady(), true)
})

t.test('texts become vectors, and a wrong vector is refused with one sentence', async t => {
  const host = openAppHost({ app, parts: ['auth', 'embed'], ...options })
  t.teardown(() => host.stop())
  t.match(await host.hello, { error: null, auth: true, embed: true })
  t.same([...(await embed(host, ['aab', 'c']))], [2, 1, 0, 0, 0, 1])
  for (const [text, message] of [
    ['throw', /the model is away/],
    ['short', /a vector of 1 numbers; store\.index\.dims is 3/],
    ['infinite', /not finite/],
  ] as const)
    await t.rejects(embed(host, [text]), { code: 'invalid', message })
})

t.test('embed may name an Embeddings of the application, or a model of an installed provider', async t => {
  const host = openAppHost({ app: await application({ embed: './own.mjs:embeddings' }), ...embedding })
  t.teardown(() => host.stop())
  t.match(await host.hello, { error: null, embed: true })
  t.same([...(await embed(host, ['abc']))], [3, 0])
  t.same([...(await embed(host, ['abc'], 'query'))], [0, 3])
  const provided = openAppHost({ app: await application({ embed: 'openai:small' }), ...embedding })
  t.teardown(() => provided.stop())
  t.match(await provided.hello, { error: null, embed: true })
  t.same([...(await embed(provided, ['x']))], [5, 1])
})

for (const [what, embed, error] of [
  ['a package that is not installed', 'cohere:large', /needs the package @langchain\/cohere: run npm install/],
  ['an unknown provider', 'nobody:model', /neither "file:export" nor "provider:model"/],
  ['an export that is no embedder', './own.mjs:nothing', /is no embedder/],
] as const)
  t.test(`the application is not served when embed names ${what}`, async t => {
    const host = openAppHost({ app: await application({ embed }), ...embedding })
    t.teardown(() => host.stop())
    t.match((await host.hello).error, error)
  })

async function embed(host: AppHost, texts: string[], kind: 'documents' | 'query' = 'documents') {
  const bytes = await host.call({ verb: 'embed', kind, texts })
  return new Float32Array(new Uint8Array(bytes).buffer)
}

/** A folder with a langgraph.json, embedders, and a package of a provider. */
async function application(index: { embed: string }): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'weft-app-'))
  const provider = join(folder, 'node_modules/@langchain/openai')
  mkdirSync(provider, { recursive: true })
  writeFileSync(join(provider, 'package.json'), '{"name":"@langchain/openai","main":"index.js"}')
  writeFileSync(
    join(provider, 'index.js'),
    `exports.OpenAIEmbeddings = class {
      constructor({ model }) { this.size = model.length }
      async embedDocuments(texts) { return texts.map(text => [this.size, text.length]) }
      async embedQuery(text) { return [this.size, text.length] }
    }`,
  )
  writeFileSync(
    join(folder, 'own.mjs'),
    `export const embeddings = {
      embedDocuments: async texts => texts.map(text => [text.length, 0]),
      embedQuery: async text => [0, text.length],
    }
    export const nothing = {}`,
  )
  const file = join(folder, 'langgraph.json')
  const graphs = { agent: './agent.mjs:graph' }
  writeFileSync(file, JSON.stringify({ graphs, store: { index: { dims: 2, ...index } } }))
  return file
}
