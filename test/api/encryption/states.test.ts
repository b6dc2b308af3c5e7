/** Encryption of states with the key of the server: nothing of it is on disk, and it outlives the setting. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { holds } from '../../helpers/byte-search.js'
import { type Cluster, startCluster } from '../../helpers/cluster.js'
import { storedBytes } from '../../helpers/stores/stored-bytes.js'

t.setTimeout(240_000)

const CANARY = 'canary-91bc'
const KEY = 'a key of more than sixteen characters'
const data = mkdtempSync(join(tmpdir(), 'weft-encrypted-states-'))
let cluster: Cluster
const start = (env: { [name: string]: string }) => startCluster({ app: 'test/apps/basic', data, env })
t.before(async () => {
  cluster = await start({ LANGGRAPH_AES_KEY: KEY, LANGGRAPH_AES_JSON_KEYS: 'secret, token' })
})
t.teardown(async () => {
  await cluster?.stop()
  rmSync(data, { recursive: true, force: true })
})

// biome-ignore lint/suspicious/noExplicitAny: answers of many shapes.
async function call(method: string, path: string, body?: unknown): Promise<{ status: number; body: any }> {
  const init = body === undefined ? {} : { body: JSON.stringify(body) }
  const answer = await fetch(`${cluster.url}${path}`, {
    method,
    headers: { 'content-type': 'application/json' },
    ...init,
  })
  const text = await answer.text()
  return { status: answer.status, body: text === '' ? null : JSON.parse(text) }
}
async function ok(method: string, path: string, body?: unknown) {
  const answer = await call(method, path, body)
  if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`)
  return answer.body
}

const ids = { asking: '', done: '', assistant: '' }
const metadata = { owner: 'ann', secret: { deep: [`${CANARY} meta`, 1.5, null] }, last: 1 }

t.test('what runs store is encrypted, and read by every route', async t => {
  const { thread_id } = await ok('POST', '/threads', { metadata })
  ids.done = thread_id
  const input = { text: `${CANARY} input` }
  t.match(await ok('POST', `/threads/${thread_id}/runs/wait`, { assistant_id: 'echo', input }), { seen: input.text })
  t.match(await ok('GET', `/threads/${thread_id}/state`), { values: { seen: input.text } })
  t.match(await ok('POST', `/threads/${thread_id}/history`, {}), [{ values: { seen: input.text } }])
  t.match(await ok('GET', `/threads/${thread_id}/runs`), [{ kwargs: { input } }])
  await ok('POST', `/threads/${thread_id}/state`, { values: { seen: `${CANARY} update` } })
  const { thread_id: copy } = await ok('POST', `/threads/${thread_id}/copy`)
  t.match(await ok('GET', `/threads/${copy}/state`), { values: { seen: `${CANARY} update` } }, 'a copy')

  ids.asking = (await ok('POST', '/threads', {})).thread_id
  const question = { question: `${CANARY} question` }
  const asked = await ok('POST', `/threads/${ids.asking}/runs/wait`, { assistant_id: 'ask', input: question })
  t.match(asked.__interrupt__, [{ value: question }])

  const failing = (await ok('POST', '/threads', {})).thread_id
  const bad = { assistant_id: 'fail', input: { message: `${CANARY} error` } }
  t.match(await ok('POST', `/threads/${failing}/runs/wait`, bad), { __error__: { message: `${CANARY} error` } })
  t.match(await ok('GET', `/threads/${failing}`), { error: { message: `${CANARY} error` } })
  t.match(await ok('POST', '/runs/wait', { assistant_id: 'echo', input }), { seen: input.text }, 'without a thread')
})

t.test('integers beyond 2^53 keep their digits', async t => {
  const body = '{"metadata":{"secret":{"id":1312345678901234567}}}'
  const headers = { 'content-type': 'application/json' }
  const made = await (await fetch(`${cluster.url}/threads`, { method: 'POST', headers, body })).json()
  const read = await fetch(`${cluster.url}/threads/${(made as { thread_id: string }).thread_id}`)
  t.match(await read.text(), body.slice(1, -1))
})

t.test('of metadata and items the keys that were named', async t => {
  const made = await ok('GET', `/threads/${ids.done}`)
  t.match(made.metadata, metadata)
  t.equal(JSON.stringify(made.metadata.secret), JSON.stringify(metadata.secret))
  const found = async (filter: object) => (await ok('POST', '/threads/search', { metadata: filter })).length
  t.same([await found({ owner: 'ann' }), await found({ secret: metadata.secret })], [2, 0], 'the copy has it, too')
  await ok('PATCH', `/threads/${ids.done}`, { metadata: { token: `${CANARY} token`, owner: 'bob' } })
  t.match((await ok('GET', `/threads/${ids.done}`)).metadata, { ...metadata, owner: 'bob', token: `${CANARY} token` })

  const context = { secret: `${CANARY} context`, model: 'small' }
  ids.assistant = (await ok('POST', '/assistants', { graph_id: 'echo', context, metadata })).assistant_id
  t.match(await ok('GET', `/assistants/${ids.assistant}`), { context, metadata })
  await ok('PATCH', `/assistants/${ids.assistant}`, { name: 'renamed' })
  t.match(await ok('POST', `/assistants/${ids.assistant}/versions`, {}), [{ version: 2 }, { context }])

  const value = { secret: `${CANARY} item`, kind: 'note', __weft_sealed: 'a name of a client' }
  await ok('PUT', '/store/items', { namespace: ['a'], key: 'k', value })
  t.same((await ok('GET', '/store/items?namespace=a&key=k')).value, value)
  const { items } = await ok('POST', '/store/items/search', { namespace_prefix: ['a'], filter: { kind: 'note' } })
  t.same(items[0].value, value, 'found by a plain key')

  const cron = { assistant_id: 'echo', schedule: '0 0 1 1 *', input: { text: `${CANARY} cron` } }
  const { cron_id } = await ok('POST', `/threads/${ids.done}/runs/crons`, cron)
  t.match(await ok('POST', '/runs/crons/search', {}), [{ cron_id, payload: { input: cron.input } }])
})

t.test('nothing of it is in the files of the store and the broker', async t => {
  const found: string[] = []
  let bytes = 0
  for await (const [name, content] of storedBytes(data)) {
    bytes += content.length
    if (holds(content, CANARY)) found.push(name)
  }
  t.same(found, [])
  t.ok(bytes > 10_000, 'something was looked through')
})

t.test('without the setting it stays readable with its key', async t => {
  await cluster.stop()
  cluster = await start({ WEFT_ENCRYPTION_KEY: 'another key of sixteen characters' })
  t.match(await call('GET', `/threads/${ids.done}`), { status: 503, body: { detail: /secrets cannot be used/ } })
  await cluster.stop()
  cluster = await start({ WEFT_ENCRYPTION_KEY: `a newer key that encrypts, ${KEY}` })
  t.match(await ok('GET', `/threads/${ids.done}/state`), { values: { seen: `${CANARY} update` } })
  const answer = { assistant_id: 'ask', command: { resume: `${CANARY} answer` } }
  t.match(await ok('POST', `/threads/${ids.asking}/runs/wait`, answer), { answer: { given: `${CANARY} answer` } })
  t.match(await ok('GET', `/assistants/${ids.assistant}`), { context: { secret: `${CANARY} context` } })
})
