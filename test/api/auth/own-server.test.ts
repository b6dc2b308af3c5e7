/** Graphs that call their own server, and a Python graph with an output schema at every door. */
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { root } from '../../../cli/root.js'
import { venvOf, withoutPython } from '../../../scripts/checks/venv.js'
import { type Cluster, startCluster } from '../../helpers/cluster.js'

const skip = withoutPython() ?? false

t.setTimeout(240_000)

let cluster: Cluster
if (skip === false)
  t.before(async () => {
    const python = await venvOf(join(root, 'test/host-python/requirements.txt'))
    cluster = await startCluster({ app: 'test/apps/own-server', env: { WEFT_PYTHON: python } })
  })
t.teardown(() => cluster?.stop())

async function send(user: string, method: string, path: string, body?: object) {
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    ...(user === '' ? {} : { 'x-user': user }),
  }
  const answer = await fetch(`${cluster.url}${path}`, {
    method,
    headers,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  return { status: answer.status, text: await answer.text() }
}

async function json(t: Test, ...args: Parameters<typeof send>) {
  const { status, text } = await send(...args)
  t.equal(status, 200, text)
  return JSON.parse(text)
}

for (const graph of ['calls', 'calls_threaded', 'calls_js'])
  t.test(`${graph}: a client without an address calls this server as the user of the run`, { skip }, async t => {
    for (const user of ['ann', 'bob']) {
      const seen = await json(t, user, 'POST', '/runs/wait', { assistant_id: graph, input: {} })
      t.match(seen, { owner: user, child: { answer: '12' }, user: { identity: user, name: user, role: 'editor' } })
      const other = user === 'ann' ? 'bob' : 'ann'
      t.equal((await send(user, 'GET', `/threads/${seen.thread_id}`)).status, 200)
      t.equal((await send(other, 'GET', `/threads/${seen.thread_id}`)).status, 404, 'it belongs to the user of the run')
    }
    t.notMatch(cluster.output(), /MaxListenersExceededWarning/, 'nothing in the log looks like a leak')
  })

t.test('nobody becomes a caller by the headers of these requests', { skip }, async t => {
  const user = Buffer.from(JSON.stringify({ identity: 'ann', permissions: [] })).toString('base64')
  const headers = { 'x-weft-loopback': '1', 'x-weft-run-user': user, 'content-type': 'application/json' }
  const answer = await fetch(`${cluster.url}/threads`, { method: 'POST', headers, body: '{}' })
  t.equal(answer.status, 401)
})

t.test('an output schema decides what each door shows', { skip }, async t => {
  const input = { question: '?' }
  const { thread_id } = await json(t, 'ann', 'POST', '/threads', {})
  const runs = `/threads/${thread_id}/runs`
  t.same(await json(t, 'ann', 'POST', `${runs}/wait`, { assistant_id: 'private', input }), { answer: '12' })
  t.same(await json(t, 'ann', 'POST', '/runs/wait', { assistant_id: 'private', input }), { answer: '12' })
  const [{ run_id }] = await json(t, 'ann', 'GET', runs)
  t.same(await json(t, 'ann', 'GET', `${runs}/${run_id}/join`), { answer: '12' })
  t.match(await json(t, 'ann', 'GET', `/threads/${thread_id}/state`), { values: { ...input, note: 'margin' } })
  const body = { assistant_id: 'private', input, stream_mode: ['values', 'updates'] }
  const stream = await send('ann', 'POST', '/runs/stream', body)
  t.equal(stream.status, 200)
  t.notMatch(stream.text, /margin/)
  const mcp = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'private', arguments: input } }
  const { result } = await json(t, 'ann', 'POST', '/mcp', mcp)
  t.same(result.structuredContent, { answer: '12' })
  t.notMatch(JSON.stringify(result), /margin/)
  const [{ assistant_id }] = await json(t, 'ann', 'POST', '/assistants/search', { graph_id: 'private' })
  const message = { kind: 'message', role: 'user', messageId: 'm', parts: [{ kind: 'data', data: input }] }
  const a2a = { jsonrpc: '2.0', id: 1, method: 'message/send', params: { message } }
  const told = await send('ann', 'POST', `/a2a/${assistant_id}`, a2a)
  t.equal(told.status, 200, told.text)
  t.match(told.text, /"answer":"12"/)
  t.notMatch(told.text, /margin/)
})
