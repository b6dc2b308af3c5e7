/** Integers beyond 2^53 keep their digits between clients, Python graphs and the store. */
import { join } from 'node:path'
import t from 'tap'
import { root } from '../../cli/root.js'
import { venvOf, withoutPython } from '../../scripts/checks/venv.js'
import { type Cluster, startCluster } from '../helpers/cluster.js'

const skip = withoutPython() ?? false
const ID = '1312345678901234567'
/** Another one, whose double is the same. */
const NEXT = '1312345678901234568'

let cluster: Cluster
if (skip === false)
  t.before(async () => {
    const python = await venvOf(join(root, 'test/host-python/requirements.txt'))
    cluster = await startCluster({ app: 'test/apps/compare/python', env: { WEFT_PYTHON: python, WEFT_HOSTS: '1' } })
  })
t.teardown(() => cluster?.stop())

/** The text of an answer: parsers of JavaScript would hide what is lost. */
async function send(method: string, path: string, body?: string): Promise<string> {
  const response = await fetch(`${cluster.url}${path}`, {
    method,
    ...(body === undefined ? {} : { headers: { 'content-type': 'application/json' }, body }),
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`)
  return text
}
const post = (path: string, body: string) => send('POST', path, body)
const newThread = async (body = '{}'): Promise<string> => JSON.parse(await post('/threads', body)).thread_id
const found = (text: string): number => JSON.parse(text).length

t.test('in inputs, states, streams, interrupts and answers', { skip }, async t => {
  const thread = await newThread()
  const path = `/threads/${thread}`
  t.match(await post(`${path}/runs/wait`, `{"assistant_id":"echo","input":{"text":${ID}}}`), `"seen":${ID}`)
  for (const read of [`${path}/state`, path, `${path}/history`]) t.match(await send('GET', read), `"seen":${ID}`, read)
  t.match(
    await post('/threads/search', `{"values":{"seen":${ID}},"extract":{"seen":"values.seen"}}`),
    `"extracted":{"seen":${ID}}`,
  )
  t.equal(found(await post('/threads/search', `{"values":{"seen":${NEXT}}}`)), 0)
  t.match(await post(`${path}/state`, `{"values":{"text":${NEXT}},"as_node":"node"}`), thread)
  t.match(await send('GET', `${path}/state`), `"text":${NEXT}`)
  const copy = JSON.parse(await post(`${path}/copy`, '')).thread_id
  t.match(await send('GET', `/threads/${copy}/state`), `"text":${NEXT}`)

  const asking = `/threads/${await newThread()}`
  const stream = await post(
    `${asking}/runs/stream`,
    `{"assistant_id":"ask","input":{"question":${ID}},"stream_mode":["values","updates","tasks"]}`,
  )
  t.equal(stream.split(`{"question":${ID}}`).length > 3, true, stream)
  t.match(await send('GET', asking), `"value":{"question":${ID}}`)
  t.match(await send('GET', `${asking}/state`), `"value":{"question":${ID}}`)
  t.match(await post(`${asking}/runs/wait`, `{"assistant_id":"ask","command":{"resume":${ID}}}`), `{"given":${ID}}`)
})

t.test('in config, context and metadata of threads, runs, assistants and crons', { skip }, async t => {
  const thread = await newThread(`{"metadata":{"chat":${ID}}}`)
  const path = `/threads/${thread}`
  t.match(await send('GET', path), `"chat":${ID}`)
  t.match(await send('PATCH', path, `{"metadata":{"other":${NEXT}}}`), `"chat":${ID},"other":${NEXT}`)
  t.equal(found(await post('/threads/search', `{"metadata":{"chat":${ID}}}`)), 1)
  t.equal(found(await post('/threads/search', `{"metadata":{"chat":${NEXT}}}`)), 0)
  t.equal(await post('/threads/count', `{"metadata":{"chat":${NEXT}}}`), '0')

  const asked = `{"assistant_id":"seen","input":{},"metadata":{"job":${ID}}`
  t.match(await post(`${path}/runs/wait`, `${asked},"config":{"configurable":{"model":${ID}}}}`), `"model":${ID}`)
  t.match(await post('/runs/wait', `${asked},"context":{"model":${NEXT}}}`), `"model":${NEXT}`)
  const runs = await send('GET', `${path}/runs`)
  for (const part of [`"job":${ID}`, `"model":${ID}`]) t.match(runs, part)
  t.match(await post('/runs/search', `{"metadata":{"job":${ID}}}`), `"job":${ID}`)
  t.equal(found(await post('/runs/search', `{"metadata":{"job":${NEXT}}}`)), 0)

  const made = await post('/assistants', `{"graph_id":"seen","metadata":{"team":${ID}},"context":{"model":${ID}}}`)
  const assistant = JSON.parse(made).assistant_id
  t.match(made, `"model":${ID}`)
  t.equal(found(await post('/assistants/search', `{"metadata":{"team":${ID}}}`)), 1)
  t.equal(found(await post('/assistants/search', `{"metadata":{"team":${NEXT}}}`)), 0)
  t.match(await post('/runs/wait', `{"assistant_id":"${assistant}","input":{}}`), `"model":${ID}`)
  t.match(await send('PATCH', `/assistants/${assistant}`, `{"metadata":{"more":1}}`), `"team":${ID},"more":1`)

  const cron = `{"assistant_id":"echo","schedule":"0 0 1 1 *","input":{"text":${ID}},"metadata":{"chat":${ID}}}`
  t.match(await post('/runs/crons', cron), `"text":${ID}`)
  t.match(await post('/runs/crons/search', `{"metadata":{"chat":${ID}}}`), `"text":${ID}`)
  t.equal(found(await post('/runs/crons/search', `{"metadata":{"chat":${NEXT}}}`)), 0)
})

t.test('in items of clients and of graphs', { skip }, async t => {
  await send('PUT', '/store/items', `{"namespace":["ids"],"key":"k","value":{"id":${ID},"list":[${ID}]}}`)
  await send('PUT', '/store/items', `{"namespace":["ids"],"key":"l","value":{"id":${NEXT}}}`)
  t.match(await send('GET', '/store/items?namespace=ids&key=k'), `"value":{"id":${ID},"list":[${ID}]}`)
  const search = async (filter: string) =>
    JSON.parse(await post('/store/items/search', `{"namespace_prefix":["ids"],"filter":${filter}}`))
      .items.map(({ key }: { key: string }) => key)
      .sort()
      .join()
  t.equal(await search(`{"id":${ID}}`), 'k')
  t.equal(await search(`{"id":${NEXT}}`), 'l')
  t.equal(await search(`{"id":{"$gt":${ID}}}`), 'l')
  t.equal(await search(`{"id":{"$gte":${ID}}}`), 'k,l')
  t.equal(await search(`{"list":[${NEXT}]}`), '')
  t.match(await post('/runs/wait', `{"assistant_id":"stored","input":{"text":${ID},"seen":"ids"}}`), ID)
})

t.test('through MCP and A2A', { skip }, async t => {
  const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":${ID}}}}`
  const response = await fetch(`${cluster.url}/mcp/`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    body: call,
  })
  t.match(JSON.parse(await response.text()).result.content[0].text, `"seen":${ID}`)
})
