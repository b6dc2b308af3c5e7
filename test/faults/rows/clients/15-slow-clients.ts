import net from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { rssOf } from '../../../helpers/processes.js'
import { readStream } from '../../../helpers/sse.js'
import { until } from '../../../helpers/until.js'
import { quantile } from '../../harness/ledger.js'
import type { Row } from '../../harness/row.js'
import type { Stage } from '../../harness/stage.js'

const PAD = 16_000
const EVENTS = 500
const EDGE_MB = 80
const FACTOR = 1.2
/** Below this a p99 on a shared machine is noise. */
const LEAST_MS = 100
const COME_BACK = 10
/** Quantiles of clients that read and clients that stop: the slowest of a hundred calls says little about one. */
const TURNS = 3

export const row: Row = {
  number: 15,
  name: 'Slow clients of streams',
  fault: 'Clients that stop reading resumable streams of 8 MB, beside others that run short graphs.',
  promised: `The edge grows by at most ${EDGE_MB} MB; p99 of the others ≤ ${FACTOR} times what it is while the same clients read; whoever comes back receives every event.`,
  oneStore: 'events are stored by the broker',
  async run(stage) {
    const roles = await stage.roles({ edges: 1, graphs: 2, env: { N_JOBS_PER_WORKER: '100' } })
    const url = roles.urls[0]!
    const clients = stage.size(20, 60, 200)
    const ofTurn = Math.ceil(clients / TURNS)
    const { pid } = roles.edges[0]!
    const others = async (on: () => boolean) => {
      const ms: number[] = []
      const caller = async () => {
        while (on()) {
          const input = { file: stage.witness, key: 'other', steps: 2 }
          const call = await stage.ledger.call({ url, path: '/runs/wait', body: { assistant_id: 'witness', input } })
          stage.expect(call.outcome === 'ok', 'a run of another client failed')
          ms.push(call.ms)
          await sleep(50)
        }
      }
      await Promise.all(Array.from({ length: 4 }, caller))
      return ms
    }
    const forMs = (ms: number) => {
      const end = Date.now() + ms
      return () => Date.now() < end
    }
    await others(forMs(3_000))
    const alone = quantile(await others(forMs(6_000)), 0.99)
    const runOf = async (thread_id: string) => {
      const path = `/threads/${thread_id}/runs`
      const { body } = await stage.ledger.call<{ run_id: string; status: string }[]>({ url, method: 'GET', path })
      return body?.[0]
    }
    /** How long calls of the others take while these clients have runs. */
    const beside = async (threads: readonly string[], reads: boolean) => {
      let on = true
      const ms = others(() => on)
      for (const thread_id of threads) {
        const socket = openStream(Number(new URL(url).port), thread_id, reads)
        stage.defer(() => socket.destroy())
      }
      for (const thread_id of threads) await until(async () => (await runOf(thread_id))?.status === 'success', 240_000)
      on = false
      await sleep(1_000)
      return ms
    }
    // The runs themselves keep the machine busy: what the clients that stop cost is the difference.
    const whileReading: number[] = []
    const whileStopped: number[] = []
    const threads: string[] = []
    whileReading.push(...(await beside(await makeThreads(stage, url, ofTurn), true)))
    const before = rssOf(pid)
    let peak = before
    const sampler = setInterval(() => (peak = Math.max(peak, rssOf(pid))), 50)
    stage.defer(() => clearInterval(sampler))
    for (let turn = 1; turn <= TURNS; turn++) {
      const stopping = await makeThreads(stage, url, ofTurn)
      whileStopped.push(...(await beside(stopping, false)))
      threads.push(...stopping)
      if (turn < TURNS) whileReading.push(...(await beside(await makeThreads(stage, url, ofTurn), true)))
    }
    clearInterval(sampler)
    const reading = quantile(whileReading, 0.99)
    const p99 = quantile(whileStopped, 0.99)
    let whole = 0
    for (const thread_id of threads.slice(0, COME_BACK)) {
      const path = `/threads/${thread_id}/runs/${(await runOf(thread_id))!.run_id}/stream`
      const { frames, ended } = await readStream(url + path, { headers: { 'last-event-id': '0' } })
      if (ended && frames.length === EVENTS && frames.every(({ id }, i) => id === i + 1)) whole++
    }
    stage.expect(whole === COME_BACK, `${COME_BACK - whole} of ${COME_BACK} clients miss events when they come back`)
    stage.expect(peak - before <= EDGE_MB, `the edge grew by ${Math.round(peak - before)} MB`)
    stage.expect(
      p99 <= FACTOR * Math.max(reading, LEAST_MS),
      `p99 ${Math.round(p99)} ms beside ${Math.round(reading)} ms while the clients read`,
    )
    return {
      load: `${ofTurn * TURNS} clients that stop reading ${(EVENTS * PAD) / 1_000_000} MB each, ${ofTurn} at a time, 4 others`,
      measured:
        `the edge grew by ${Math.round(peak - before)} MB; p99 of the others ${Math.round(p99)} ms, ` +
        `${Math.round(reading)} ms while the same clients read, ${Math.round(alone)} ms alone; ${whole} of ${COME_BACK} resumed whole`,
    }
  },
}

async function makeThreads({ ledger }: Stage, url: string, count: number): Promise<string[]> {
  const threads: string[] = []
  for (let n = 0; n < count; n++) {
    const { body } = await ledger.call<{ thread_id: string }>({ url, path: '/threads', body: {} })
    threads.push(body!.thread_id)
  }
  return threads
}

/** Starts a stream; `reads`: to its end, else its head only. */
function openStream(port: number, thread_id: string, reads: boolean): net.Socket {
  const modes = { stream_mode: ['custom'], stream_resumable: true, on_disconnect: 'continue' }
  const body = JSON.stringify({ assistant_id: 'many', input: { count: EVENTS, pad: PAD }, ...modes })
  const socket = net.connect(port, '127.0.0.1')
  socket.on('error', () => {})
  socket.once('data', () => (reads ? socket.resume() : socket.pause()))
  socket.write(
    `POST /threads/${thread_id}/runs/stream HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nContent-Type: application/json\r\n` +
      `Content-Length: ${body.length}\r\n\r\n${body}`,
  )
  return socket
}
