/** Clients that stop reading large stored streams: they cost bounded memory, others are served, and they resume whole. */
import net from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { startRoles } from '../helpers/cluster.js'
import { rssOf } from '../helpers/processes.js'
import { lines } from '../helpers/sdk.js'
import { readStream } from '../helpers/sse.js'
import { until } from '../helpers/until.js'

t.setTimeout(300_000)
const CLIENTS = 40
const EVENTS = 500
const PAD = 16_000
/** 320 MB of events pass: the broker took 350 to 420 MB, and 530 to 600 MB without its limit. */
const BROKER_MB = 480
/** 80 MB for 200 clients; the bound leaves room for garbage on a busy machine. */
const EDGE_MB = 120

t.test('40 clients stop reading streams of 8 MB', async t => {
  const roles = await startRoles({ app: 'test/apps/faults' })
  const sockets: net.Socket[] = []
  t.teardown(async () => {
    for (const socket of sockets) socket.destroy()
    await roles.stop()
  })
  const url = roles.urls[0]!
  const client = lines[0]!.connect(url)
  const [broker, edge, port] = [roles.nats.pid()!, roles.edges[0]!.pid, Number(new URL(url).port)]
  const before = rssOf(edge)
  const peak = { broker: 0, edge: 0 }
  const sampler = setInterval(() => {
    peak.broker = Math.max(peak.broker, rssOf(broker))
    peak.edge = Math.max(peak.edge, rssOf(edge))
  }, 50)

  const threads = await Promise.all(Array.from({ length: CLIENTS }, () => client.threads.create()))
  for (const { thread_id } of threads) {
    const input = { count: EVENTS, pad: PAD }
    const modes = { stream_mode: ['custom'], stream_resumable: true, on_disconnect: 'continue' }
    const body = JSON.stringify({ assistant_id: 'many', input, ...modes })
    const socket = net.connect(port, '127.0.0.1')
    socket.on('error', () => {})
    socket.once('data', () => socket.pause())
    socket.write(
      `POST /threads/${thread_id}/runs/stream HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nContent-Type: application/json\r\n` +
        `Content-Length: ${body.length}\r\n\r\n${body}`,
    )
    sockets.push(socket)
  }
  const runOf = async (thread_id: string) => (await client.runs.list(thread_id))[0]
  for (const { thread_id } of threads) await until(async () => (await runOf(thread_id))?.status === 'success', 120_000)
  await sleep(2_000)
  clearInterval(sampler)
  t.comment(JSON.stringify({ before, ...peak }))
  t.ok(peak.broker < BROKER_MB, `the broker took ${Math.round(peak.broker)} MB`)
  t.ok(peak.edge - before < EDGE_MB, `the edge grew by ${Math.round(peak.edge - before)} MB`)

  for (const { thread_id } of threads.slice(0, 5)) {
    const { run_id } = (await runOf(thread_id))!
    const joined = `${url}/threads/${thread_id}/runs/${run_id}/stream`
    const { frames, ended } = await readStream(joined, { headers: { 'last-event-id': '0' } })
    t.ok(ended)
    t.same(
      frames.map(({ id }) => id),
      Array.from({ length: EVENTS }, (_, i) => i + 1),
      'a client that comes back gets every event',
    )
  }
})
