/** Large inputs and states are kept byte for byte up to the limit. */
import t from 'tap'
import { startCluster } from '../helpers/cluster.js'
import { lines } from '../helpers/sdk.js'
import { readStream } from '../helpers/sse.js'

t.setTimeout(280_000)
const MB = 1024 * 1024

t.test('large values', async t => {
  const cluster = await startCluster({ app: 'test/apps/basic' })
  t.teardown(() => cluster.stop())

  await t.test('an input of 17 MB appears in an event, a result and a state', async t => {
    const text = 'abcdefghij'.repeat(1_700_000)
    const { thread_id } = await lines[0]!.connect(cluster.url).threads.create()
    const { frames, ended } = await readStream(`${cluster.url}/threads/${thread_id}/runs/stream`, {
      method: 'POST',
      body: { assistant_id: 'echo', input: { text }, stream_resumable: true },
    })
    t.ok(ended)
    t.ok((JSON.parse(frames.at(-1)!.data) as { seen: string }).seen === text, '17 MB as one event')
    const { run_id } = JSON.parse(frames[0]!.data) as { run_id: string }
    const result = (await (await fetch(`${cluster.url}/threads/${thread_id}/runs/${run_id}/join`)).json()) as {
      seen: string
    }
    t.ok(result.seen === text, '17 MB as result')
    const state = (await (await fetch(`${cluster.url}/threads/${thread_id}/state`)).json()) as {
      values: { seen: string }
    }
    t.ok(state.values.seen === text, '17 MB as state')
  })

  // With one client: what both make of large events is tested in large-streams.
  await t.test('60 MB is a state', async t => {
    const client = lines.at(-1)!.connect(cluster.url)
    const { thread_id } = await client.threads.create()
    const values = (await client.runs.wait(thread_id, 'large', { input: { size: 60 * MB } })) as { a: string }
    t.ok(values.a === 'a'.repeat(60 * MB), 'through wait')
    const state = await client.threads.getState<{ a: string; after: boolean }>(thread_id)
    t.ok(state.values.a === values.a && state.values.after, 'as state')
    t.same(state.next, [])
  })
})
