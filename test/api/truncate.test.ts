import t from 'tap'
import { startCluster } from '../helpers/cluster.js'
import { lines } from '../helpers/sdk.js'

t.setTimeout(120_000)
const post = (url: string, body: object) =>
  fetch(`${url}/internal/truncate`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })

t.test('the store is emptied for tests', async t => {
  const cluster = await startCluster({ app: 'test/apps/basic' })
  t.teardown(() => cluster.stop())
  const client = lines[0]!.connect(cluster.url)
  const mine = await client.assistants.create({ graphId: 'echo', name: 'Mine' })
  const { thread_id } = await client.threads.create()
  await client.runs.wait(thread_id, 'ask', { input: {} })
  t.equal((await post(cluster.url, {})).status, 204)
  t.equal((await client.threads.get(thread_id)).status, 'interrupted', 'nothing named, nothing done')
  t.equal((await post(cluster.url, { threads: 'yes' })).status, 422)

  t.equal((await post(cluster.url, { runs: true, threads: false })).status, 204)
  t.same(await client.runs.list(thread_id), [])
  t.equal((await client.threads.get(thread_id)).status, 'interrupted')
  t.equal((await post(cluster.url, { checkpoint: true })).status, 204)
  t.match(await client.threads.get(thread_id), { status: 'idle', values: null, interrupts: {} })
  t.match(await client.threads.getState(thread_id), { checkpoint: null })
  t.match(await client.runs.wait(thread_id, 'echo', { input: { text: 'x' } }), { seen: 'x' }, 'it can be used again')

  const slow = await client.runs.create(thread_id, 'slow', { input: { ms: 1_500 } })
  t.equal((await post(cluster.url, { assistants: true, threads: true })).status, 204)
  await t.rejects(client.threads.get(thread_id), /HTTP 404/)
  await t.rejects(client.runs.get(thread_id, slow.run_id), /HTTP 404/)
  await t.rejects(client.assistants.get(mine.assistant_id), /HTTP 404/)
  t.match(await client.assistants.get('echo'), { graph_id: 'echo' }, 'those of the system stay')
  t.match(await client.runs.wait(null, 'echo', { input: { text: 'y' } }), { seen: 'y' })
})

t.test('the route does not exist without WEFT_TEST', async t => {
  const cluster = await startCluster({ app: 'test/apps/basic', env: { WEFT_TEST: '0' } })
  t.teardown(() => cluster.stop())
  t.equal((await post(cluster.url, { threads: true })).status, 404)
})
