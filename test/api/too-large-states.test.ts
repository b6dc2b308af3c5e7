/** A state above the limit is one clean error of its run. */
import t from 'tap'
import { alive, startCluster } from '../helpers/cluster.js'
import { lines } from '../helpers/sdk.js'

t.setTimeout(280_000)
const MB = 1024 * 1024

t.test('a state of 70 MB', async t => {
  const cluster = await startCluster({ app: 'test/apps/basic' })
  t.teardown(() => cluster.stop())
  const client = lines.at(-1)!.connect(cluster.url)
  const { thread_id } = await client.threads.create()
  const hasFailed = async () =>
    t.match(await client.threads.get(thread_id), { status: 'error', error: { error: 'StateTooLarge' } })
  const pids = cluster.pids()
  await t.rejects(client.runs.wait(thread_id, 'large', { input: { size: 70 * MB } }), /StateTooLarge/)
  await hasFailed()
  const parts = []
  for await (const part of client.runs.stream(thread_id, 'large', { input: { size: 70 * MB } })) parts.push(part)
  t.match(parts.at(-1), { event: 'error', data: { error: 'StateTooLarge' } }, 'the last event says it')
  t.equal(parts.filter(part => part.event === 'error').length, 1)
  await hasFailed()
  t.ok(pids.every(alive), 'no process was lost')
  t.match(await client.runs.wait(thread_id, 'echo', { input: { text: 'x' } }), { seen: 'x' })
  t.match(await client.threads.get(thread_id), { status: 'idle' }, 'the thread continues')
})
