/** Encryption handlers of an application: everything that users store, on its way in and out, and when they fail. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { root } from '../../../cli/root.js'
import { venvOf, withoutPython } from '../../../scripts/checks/venv.js'
import { holds } from '../../helpers/byte-search.js'
import { type Cluster, startCluster } from '../../helpers/cluster.js'
import { linesOnStore } from '../../helpers/sdk.js'
import { storedBytes } from '../../helpers/stores/stored-bytes.js'
import { until } from '../../helpers/until.js'

const skip = withoutPython() ?? false
t.setTimeout(420_000)

/** In every value that must not be stored as it is. */
const CANARY = 'canary-7f3a'
const app = 'test/apps/encryption'
const headerOf = (context: unknown) => Buffer.from(JSON.stringify(context)).toString('base64')

interface Answer {
  status: number
  // biome-ignore lint/suspicious/noExplicitAny: answers of many shapes.
  body: any
}

let python: string
let data: string
let cluster: Cluster
const start = (file = app) =>
  startCluster({ app: file, data, env: { WEFT_PYTHON: python, WEFT_CRON_SECONDS: '1', WEFT_HOSTS: '1' } })

async function http(method: string, path: string, body?: unknown, headers: { [name: string]: string } = {}) {
  const init = body === undefined ? {} : { body: JSON.stringify(body) }
  const answer = await fetch(`${cluster.url}${path}`, {
    method,
    headers: { 'content-type': 'application/json', ...headers },
    ...init,
  })
  const text = await answer.text()
  return { status: answer.status, body: text === '' ? null : JSON.parse(text) } as Answer
}
const asTenant = (tenant: string) => ({ 'x-encryption-context': headerOf({ tenant, note: 'plain' }) })
async function ok(method: string, path: string, body?: unknown, headers?: { [name: string]: string }) {
  const answer = await http(method, path, body, headers)
  if (answer.status !== 200) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`)
  return answer.body
}

if (skip === false)
  t.before(async () => {
    python = await venvOf(join(root, 'test/host-python/requirements.txt'))
    data = mkdtempSync(join(tmpdir(), 'weft-encryption-'))
    cluster = await start()
  })
t.teardown(async () => {
  await cluster?.stop()
  if (data) rmSync(data, { recursive: true, force: true })
})

async function expectNoCanary(t: Test) {
  const found: string[] = []
  let bytes = 0
  for await (const [name, content] of storedBytes(data)) {
    bytes += content.length
    if (holds(content, CANARY)) found.push(name)
  }
  t.same(found, [], 'no value is stored in plain text')
  t.ok(bytes > 10_000, 'something was looked through')
}

const thread = { thread_id: '' }

t.test('threads, their metadata and their search', { skip }, async t => {
  const metadata = { owner: 'ann', secret: `${CANARY} meta`, deep: { a: [`${CANARY}`, null, 1.5] }, odd: '\u0000' }
  const made = await ok('POST', '/threads', { metadata }, asTenant('acme'))
  thread.thread_id = made.thread_id
  t.same((await ok('GET', `/threads/${made.thread_id}`)).metadata.deep, metadata.deep, 'without the header')
  const ids = async (filter: object) =>
    (await ok('POST', '/threads/search', { metadata: filter })).map((one: typeof thread) => one.thread_id)
  t.same(await ids({ owner: 'ann' }), [made.thread_id], 'what the handler leaves plain is found')
  t.same(await ids({ secret: metadata.secret }), [], 'what it encrypts is not')
  const patched = await ok('PATCH', `/threads/${made.thread_id}`, { metadata: { more: `${CANARY} more` } })
  t.match(patched.metadata, { owner: 'ann', secret: metadata.secret, more: `${CANARY} more` })
  t.same(await ids({ owner: 'ann' }), [made.thread_id], 'also after a change')
})

t.test('runs, states, interrupts and histories', { skip }, async t => {
  const { thread_id } = thread
  const input = { text: `${CANARY} input`, owner: 'ann' }
  t.match(await ok('POST', `/threads/${thread_id}/runs/wait`, { assistant_id: 'echo', input }), { seen: input.text })
  t.match(await ok('GET', `/threads/${thread_id}`), { values: { seen: input.text } })
  t.match(await ok('GET', `/threads/${thread_id}/state`), { values: { seen: input.text } })
  t.match(await ok('POST', `/threads/${thread_id}/history`, {}), [{ values: { seen: input.text } }])
  const [run] = await ok('GET', `/threads/${thread_id}/runs`)
  t.match(run, { status: 'success', kwargs: { input } })
  await ok('POST', `/threads/${thread_id}/state`, { values: { seen: `${CANARY} update` } })
  t.match(await ok('GET', `/threads/${thread_id}/state`), { values: { seen: `${CANARY} update` } })

  for (const { name, connect } of linesOnStore) {
    const client = connect(cluster.url)
    const asking = await client.threads.create()
    const question = { question: `${CANARY} question` }
    for await (const { event } of client.runs.stream(asking.thread_id, 'ask', { input: question }))
      t.not(event, 'error', name)
    t.match(await client.threads.get(asking.thread_id), { status: 'interrupted' })
    t.match(Object.values((await client.threads.get(asking.thread_id)).interrupts ?? {}), [[{ value: question }]])
    const answer = { resume: `${CANARY} answer` }
    const values = await client.runs.wait(asking.thread_id, 'ask', { command: answer })
    t.match(values, { answer: { given: answer.resume } }, `${name}: an answer`)
    const failing = await client.threads.create()
    const bad = { input: { message: `${CANARY} error` } }
    await t.rejects(client.runs.wait(failing.thread_id, 'fail', bad), new RegExp(`${CANARY} error`))
    t.match(await client.threads.get(failing.thread_id), { status: 'error', error: { message: `${CANARY} error` } })
    const [failed] = await client.runs.list(failing.thread_id)
    t.same((failed as { error?: object }).error, {
      error: 'TooBadError',
      message: `${CANARY} error`,
      at: { file: '../basic-py/graphs.py', line: 116, function: 'bad' },
    })
    const counter = await client.threads.create()
    t.match(await client.runs.wait(counter.thread_id, 'javascript', { input: { steps: 3 } }), { numbers: [1, 2, 3] })
    const copy = await client.threads.copy(counter.thread_id)
    t.match(await client.threads.getState(copy.thread_id), { values: { numbers: [1, 2, 3] } }, `${name}: a copy`)
  }
  t.match(await ok('POST', '/runs/wait', { assistant_id: 'echo', input }), { seen: input.text }, 'without a thread')
  const key = { 'idempotency-key': 'one of a test' }
  const once = { assistant_id: 'echo', input, metadata: { secret: `${CANARY} key` } }
  const first = await ok('POST', `/threads/${thread_id}/runs`, once, key)
  t.same((await ok('POST', `/threads/${thread_id}/runs`, once, key)).run_id, first.run_id, 'a repeated create')
  t.match(await ok('POST', '/runs/wait', { assistant_id: 'stored', input: { notes: [`${CANARY} note`] } }), {
    notes: [`${CANARY} note`, `${CANARY} note`, 'notes'],
  })
})

t.test('assistants and their versions', { skip }, async t => {
  const body = { graph_id: 'echo', context: { key: `${CANARY} context` }, metadata: { owner: 'ann', s: `${CANARY} a` } }
  const made = await ok('POST', '/assistants', body, asTenant('acme'))
  t.match(made, body)
  const path = `/assistants/${made.assistant_id}`
  t.match(await ok('PATCH', path, { metadata: { s: `${CANARY} b` } }), { version: 2 })
  t.match(await ok('POST', `${path}/versions`, {}), [{ metadata: { s: `${CANARY} b` } }, { context: body.context }])
  const search = async (metadata: object) => (await ok('POST', '/assistants/search', { metadata })).length
  t.same([await search({ owner: 'ann' }), await search({ s: `${CANARY} b` })], [1, 0])
  t.match(await ok('POST', `${path}/latest`, { version: 1 }), { metadata: { s: `${CANARY} a` } })
})

t.test('items of the store', { skip }, async t => {
  const value = { text: `${CANARY} item`, owner: 'bob' }
  const item = { namespace: ['a', 'b'], key: 'k', value }
  t.match(await http('PUT', '/store/items', item, asTenant('acme')), { status: 204 })
  t.match(await ok('GET', '/store/items?namespace=a.b&key=k'), { value })
  const found = async (filter: object) =>
    (await ok('POST', '/store/items/search', { namespace_prefix: ['a'], filter })).items.length
  t.same([await found({ owner: 'bob' }), await found({ text: value.text })], [1, 0])
})

t.test('a cron fires with the context of its creation', { skip }, async t => {
  const metadata = { owner: 'ann', deep: { secret: `${CANARY} cron` } }
  const body = { assistant_id: 'echo', schedule: '* * * * * *', input: { text: `${CANARY} cron` }, metadata }
  const { cron_id } = await ok('POST', `/threads/${thread.thread_id}/runs/crons`, body, asTenant('acme'))
  const runs = () => ok('GET', `/threads/${thread.thread_id}/runs`)
  // The second one begins only after the first has moved the cron to its next time.
  await until(async () => {
    const fired = (await runs()).filter((run: Answer['body']) => run.metadata.cron_id === cron_id)
    return fired.length > 1
  }, 60_000)
  const changed = { metadata: { note: `${CANARY} changed` } }
  t.match(await ok('PATCH', `/runs/crons/${cron_id}`, changed), { metadata: { ...metadata, ...changed.metadata } })
  t.match(await ok('POST', '/runs/crons/search', { metadata: { owner: 'ann' } }), [
    { cron_id, payload: { input: body.input }, metadata: { ...metadata, ...changed.metadata } },
  ])
  t.match(await http('DELETE', `/runs/crons/${cron_id}`), { status: 204 })
})

t.test('what handlers refuse is not stored', { skip }, async t => {
  const count = () => ok('POST', '/threads/count', {})
  const before = await count()
  const keys = await http('POST', '/threads', { metadata: { broken: 'keys', x: 1 } })
  t.match(keys, { status: 422, body: { detail: /encrypt\.json for thread\.metadata added or removed the key/ } })
  const closed = await http('POST', '/threads', { metadata: { x: 1 } }, asTenant('closed'))
  t.match(closed, { status: 503, body: { detail: /An encryption handler of the application failed/ } })
  t.notMatch(closed.body.detail, /secret tenant/)
  const wrong = await http('POST', '/threads', {}, { 'x-encryption-context': 'nonsense' })
  t.match(wrong, { status: 422, body: { detail: 'X-Encryption-Context: expected a JSON object as base64' } })
  t.match(await http('POST', '/threads', {}, { 'x-encryption-context': headerOf([1]) }), { status: 422 })
  t.match(await http('POST', '/threads', {}, asTenant('x'.repeat(4_000))), { status: 422 })
  t.equal(await count(), before)
})

t.test('a handler that ends its process costs the call', { skip }, async t => {
  t.match(await http('POST', '/threads', { metadata: { broken: 'exit' } }), { status: 503 })
  await until(async () => (await http('POST', '/threads', { metadata: { after: CANARY } })).status === 200, 60_000)
  const isHelper = (pid: number) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('app-host.js')
  const helpers = cluster.pids().filter(isHelper)
  t.ok(helpers.length > 0)
  for (const pid of helpers) process.kill(pid, 'SIGKILL')
  await until(async () => (await http('GET', `/threads/${thread.thread_id}`)).status === 200, 60_000)
})

t.test('nothing of it is in the files of the store and the broker', { skip }, expectNoCanary)

t.test('everything is readable after a restart', { skip }, async t => {
  await cluster.stop()
  cluster = await start()
  t.match(await ok('GET', `/threads/${thread.thread_id}`), { metadata: { secret: `${CANARY} meta` } })
  t.match(await ok('GET', '/store/items?namespace=a.b&key=k'), { value: { text: `${CANARY} item` } })
  const wait = { assistant_id: 'echo', input: { text: `${CANARY} again` } }
  t.match(await ok('POST', `/threads/${thread.thread_id}/runs/wait`, wait), { seen: wait.input.text })
})

t.test('without the handlers the rows are refused, and others are served', { skip }, async t => {
  await cluster.stop()
  cluster = await start(`${app}/plain.json`)
  t.match(await http('GET', `/threads/${thread.thread_id}`), {
    status: 503,
    body: { detail: /What is stored is encrypted, and the application has no `encryption`/ },
  })
  t.match(await ok('POST', '/runs/wait', { assistant_id: 'echo', input: { text: 'plain' } }), { seen: 'plain' })
  await cluster.stop()
})

t.test('the context handler receives the user of a request', { skip }, async t => {
  cluster = await start(`${app}/users.json`)
  const alice = { authorization: 'Bearer alice' }
  const { thread_id } = await ok('POST', '/threads', { metadata: { secret: `${CANARY} alice` } }, alice)
  t.match(await ok('GET', `/threads/${thread_id}`, undefined, alice), { metadata: { secret: `${CANARY} alice` } })
  t.match(await http('GET', `/threads/${thread_id}`, undefined, { authorization: 'Bearer bob' }), { status: 404 })
  const wait = { assistant_id: 'echo', input: { text: `${CANARY} of alice` } }
  t.match(await ok('POST', `/threads/${thread_id}/runs/wait`, wait, alice), { seen: wait.input.text })
  let isTenant = false
  for await (const [, bytes] of storedBytes(data)) isTenant ||= Buffer.from(bytes).includes('"tenant":"alice"')
  t.ok(isTenant, 'the context is stored beside the values')
  await expectNoCanary(t)
})

t.test('handlers in JavaScript are refused with a sentence', { skip }, async t => {
  const folder = t.testdir({
    'langgraph.json': JSON.stringify({
      graphs: { echo: join(root, 'test/apps/basic/graphs.mjs:echo') },
      encryption: { path: './encryption.mjs:handlers' },
    }),
  })
  await t.rejects(startCluster({ app: folder }), /encryption\.path must name an Encryption of the Python SDK/)
})
