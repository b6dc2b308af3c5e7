/** Clients that stop reading large stored streams: they cost bounded memory, others are served, and they resume whole. */
import { readFileSync } from 'node:fs'
import net from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { startCluster } from '../helpers/cluster.js'
import { lines } from '../helpers/sdk.js'
import { readStream } from '../helpers/sse.js'
import { until } from '../helpers/steps.js'

t.setTimeout(300_000)
const CLIENTS = 40
const EVENTS = 500
const PAD = 16_000
/** 320 MB of events pass; without bounds the broker took 600 MB. */
const BROKER_MB = 400
const SERVER_MB = 200

const rssOf = (pid: number) => Number(/VmRSS:\s*(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) / 1024
const commandOf = (pid: number) => readFileSync(`/proc/${pid}/cmdline`, 'utf8')

t.test('40 clients stop reading streams of 8 MB', async t => {
  const cluster = await startCluster({ app: 'test/apps/faults' })
  const sockets: net.Socket[] = []
  t.teardown(async () => {
    for (const socket of sockets) socket.destroy()
    await cluster.stop()
  })
  const client = lines[0]!.connect(cluster.url)
  const broker = cluster.pids().find(pid => /^\S*nats-server/.test(commandOf(pid)))!
  const server = cluster.pids().find(pid => /roles-main/.test(commandOf(pid)))!
  const port = Number(new URL(cluster.url).port)
  const before = rssOf(server)
  const peak = { broker: 0, server: 0 }
  const sampler = setInterval(() => {
    peak.broker = Math.max(peak.broker, rssOf(broker))
    peak.server = Math.max(peak.server, rssOf(server))
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
  t.ok(peak.server - before < SERVER_MB, `the server grew by ${Math.round(peak.server - before)} MB`)

  for (const { thread_id } of threads.slice(0, 5)) {
    const { run_id } = (await runOf(thread_id))!
    const url = `${cluster.url}/threads/${thread_id}/runs/${run_id}/stream`
    const { frames, ended } = await readStream(url, { headers: { 'last-event-id': '0' } })
    t.ok(ended)
    t.same(
      frames.map(({ id }) => id),
      Array.from({ length: EVENTS }, (_, i) => i + 1),
      'a client that comes back gets every event',
    )
  }
})
