/** Many events and large events on their way to a client: complete, in order, byte for byte. */
import { createHash } from 'node:crypto'
import t from 'tap'
import { startCluster } from '../helpers/cluster.js'
import { cuttingProxy } from '../helpers/cutting-proxy.js'
import { lines } from '../helpers/sdk.js'
import { type Frame, readStream } from '../helpers/sse.js'

t.setTimeout(280_000)
const MB = 1024 * 1024

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

t.test('large events', async t => {
  const cluster = await startCluster({ app: 'test/apps/basic' })
  t.teardown(() => cluster.stop())

  // The graph's events: metadata, the input, then twice the state with 17 MB in it.
  const run = { assistant_id: 'large', input: { size: 17 * MB }, stream_resumable: true, on_disconnect: 'continue' }

  await t.test('a values event of 17 MB: resumed before it, joined from the start, byte for byte', async t => {
    const { thread_id } = await lines[0]!.connect(cluster.url).threads.create()
    const runs = `${cluster.url}/threads/${thread_id}/runs`
    const first = await readStream(`${runs}/stream`, { method: 'POST', body: run, stopAfter: 2 })
    const { run_id } = JSON.parse(first.frames[0]!.data) as { run_id: string }
    const join = (id: string) => readStream(`${runs}/${run_id}/stream`, { headers: { 'last-event-id': id } })
    const rest = await join('1')
    t.same(shape(rest.frames), ['2 values', '3 values'], 'after the broken connection')
    const again = await join('-1')
    t.ok(again.ended)
    t.same(shape(again.frames), ['0 metadata', '1 values', '2 values', '3 values'])
    t.ok(again.frames[2]!.data.length > 17 * MB)
    t.same(hashes(again.frames), hashes([...first.frames, ...rest.frames]), 'the same bytes from the start')
    t.same(hashes((await join('2')).frames), hashes(again.frames.slice(3)), 'and between the two')
  })

  await t.test('the SDK resumes a connection that is cut inside a large event', async t => {
    const proxy = await cuttingProxy(cluster.url)
    t.teardown(() => proxy.stop())
    for (const { name, connect } of lines) {
      const client = connect(proxy.url)
      const { thread_id } = await client.threads.create()
      const parts: { id?: string; event: string; data: unknown }[] = []
      const input = { size: 8 * MB }
      const before = proxy.cuts()
      // Once inside each of the two large events.
      proxy.cutAfter(3 * MB, 12 * MB)
      for await (const part of client.runs.stream(thread_id, 'large', { input, streamResumable: true }))
        parts.push(part)
      t.equal(proxy.cuts() - before, 2)
      t.same(
        parts.map(part => `${part.id} ${part.event}`),
        ['0 metadata', '1 values', '2 values', '3 values'],
        name,
      )
      t.ok((parts.at(-1)!.data as { a: string }).a === 'a'.repeat(8 * MB), `${name}: every byte`)
      const { run_id } = parts[0]!.data as { run_id: string }
      const joined = []
      for await (const part of client.runs.joinStream(thread_id, run_id, { lastEventId: '-1' })) joined.push(part)
      t.ok(JSON.stringify(joined) === JSON.stringify(parts), `${name}: a join from the start is equal`)
    }
  })
})

const shape = (frames: Frame[]) => frames.map(({ id, event }) => `${id} ${event}`)
const hashes = (frames: Frame[]) =>
  frames.map(({ id, event, data }) => `${id} ${event} ${createHash('sha256').update(data).digest('hex')}`)
