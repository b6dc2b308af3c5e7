import t from 'tap'
import { startCluster } from '../helpers/cluster.js'
import { readStream } from '../helpers/sse.js'

t.test('50 streams of 1,000 chunks are complete and in order', async t => {
  const cluster = await startCluster({ app: 'test/apps/basic' })
  t.teardown(() => cluster.stop())
  for (const resumable of [false, true]) {
    const readings = await Promise.all(
      Array.from({ length: 50 }, () =>
        readStream(`${cluster.url}/runs/stream`, {
          method: 'POST',
          body: { assistant_id: 'chunks', input: { count: 1_000 }, stream_mode: 'custom', stream_resumable: resumable },
        }),
      ),
    )
    for (const { frames, ended } of readings) {
      t.ok(
        ended &&
          frames.length === 1_001 &&
          frames.every((frame, i) => frame.id === i && (i === 0 || frame.data === `{"i":${i - 1}}`)),
      )
    }
  }
})

t.test('large values travel whole', async t => {
  const cluster = await startCluster({ app: 'test/apps/basic' })
  t.teardown(() => cluster.stop())
  const text = 'abcdefghij'.repeat(1_700_000)
  const wait = await fetch(`${cluster.url}/runs/wait`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ assistant_id: 'echo', input: { text } }),
  })
  t.ok(((await wait.json()) as { seen: string }).seen === text, '17 MB through wait')
  const { thread_id } = (await (
    await fetch(`${cluster.url}/threads`, {
      method: 'POST',
      body: '{}',
      headers: { 'content-type': 'application/json' },
    })
  ).json()) as { thread_id: string }
  const { frames, ended } = await readStream(`${cluster.url}/threads/${thread_id}/runs/stream`, {
    method: 'POST',
    body: { assistant_id: 'echo', input: { text }, stream_resumable: true },
  })
  t.ok(ended)
  t.ok((JSON.parse(frames.at(-1)!.data) as { seen: string }).seen === text, '17 MB as one event')
  const state = (await (await fetch(`${cluster.url}/threads/${thread_id}/state`)).json()) as {
    values: { seen: string }
  }
  t.ok(state.values.seen === text, '17 MB as state')
})
