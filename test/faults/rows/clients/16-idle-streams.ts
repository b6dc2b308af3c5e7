import net from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { rssOf } from '../../../helpers/processes.js'
import { quantile } from '../../harness/ledger.js'
import type { Row } from '../../harness/row.js'

/** Period of the heartbeat comments of an idle stream, and how late one may be. */
const PERIOD_MS = 5_000
const LATE_MS = 1_000
const RSS_MB = 150
const FACTOR = 2
/** Below this a p99 on a shared machine is noise. */
const LEAST_MS = 30

export const row: Row = {
  number: 16,
  name: 'Idle streams',
  fault: 'Thousands of open streams of one run that has no events.',
  promised:
    `None is closed, each receives its comment every ${PERIOD_MS / 1_000} s, at most ${LATE_MS / 1_000} s late; the edge ` +
    `takes ≤ ${RSS_MB} MB for 10,000 of them; p99 of a create ≤ ${FACTOR} times what it is without them.`,
  oneStore: 'connections of the edge',
  async run(stage) {
    const roles = await stage.roles({ edges: 1, graphs: 1, env: { WEFT_STREAMS_PER_ADDRESS: '0' } })
    const url = roles.urls[0]!
    const { pid } = roles.edges[0]!
    const count = stage.size(1_000, 5_000, 10_000)
    const seconds = stage.size(15, 20, 300)
    const { call } = stage.ledger
    const { body: thread } = await call<{ thread_id: string }>({ url, path: '/threads', body: {} })
    const runs = `/threads/${thread!.thread_id}/runs`
    const input = { file: stage.witness, key: 'idle', steps: 1, ms: 3_600_000, how: 'signal' }
    const { body: run } = await call<{ run_id: string }>({ url, path: runs, body: { assistant_id: 'witness', input } })
    const creates = async (ms: number) => {
      const times: number[] = []
      for (const end = Date.now() + ms; Date.now() < end; await sleep(50)) {
        const { body: own } = await call<{ thread_id: string }>({ url, path: '/threads', body: {} })
        const body = { assistant_id: 'witness', input: { file: stage.witness, key: 'beside', steps: 1 } }
        times.push((await call({ url, path: `/threads/${own!.thread_id}/runs`, body })).ms)
      }
      return quantile(times, 0.99)
    }
    await creates(2_000)
    const alone = await creates(5_000)
    const all = Array.from({ length: count }, () => open(Number(new URL(url).port), `${runs}/${run!.run_id}/stream`))
    stage.defer(() => {
      for (const { socket } of all) socket.destroy()
    })
    await sleep(3_000)
    const beside = await creates(seconds * 1_000)
    const rss = rssOf(pid)
    const closed = all.filter(({ socket }) => socket.destroyed).length
    // Some 600,000: too many for the arguments of a function.
    const gap = all
      .flatMap(({ comments }) => comments.slice(1).map((at, i) => at - comments[i]!))
      .reduce((longest, one) => Math.max(longest, one), 0)
    const silent = all.filter(({ comments }) => comments.length < Math.floor((seconds * 1_000) / PERIOD_MS) - 1).length
    stage.expect(closed === 0, `${closed} streams were closed`)
    stage.expect(silent === 0, `${silent} streams had fewer comments`)
    stage.expectTime(gap <= PERIOD_MS + LATE_MS, `${Math.round(gap)} ms between two comments`)
    stage.expect(rss <= RSS_MB, `the edge takes ${Math.round(rss)} MB`)
    stage.expect(
      beside <= FACTOR * Math.max(alone, LEAST_MS),
      `p99 ${Math.round(beside)} ms beside ${Math.round(alone)} ms alone`,
    )
    const cancelled = await call({ url, path: `${runs}/${run!.run_id}/cancel?wait=1`, body: {} })
    stage.expect(cancelled.outcome === 'ok', 'the run cannot be cancelled')
    await sleep(5_000)
    const left = all.filter(({ socket }) => !socket.destroyed).length
    stage.expect(left === 0, `${left} streams are open 5 s after the end of their run`)
    return {
      load: `${count} streams for ${seconds} s`,
      measured:
        `${closed} closed; at most ${(gap / 1_000).toFixed(1)} s between two comments; the edge took ${Math.round(rss)} MB; ` +
        `p99 of a create ${Math.round(beside)} ms beside ${Math.round(alone)} ms`,
    }
  },
}

/** A stream and the times of its comments (ms). */
function open(port: number, path: string) {
  const comments: number[] = []
  const socket = net.connect(port, '127.0.0.1')
  socket.on('error', () => {})
  socket.on('data', bytes => {
    if (bytes.includes(': heartbeat')) comments.push(performance.now())
    // The end of a chunked body: a client closes its connection.
    if (bytes.includes('0\r\n\r\n')) socket.end()
  })
  socket.write(`GET ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`)
  return { socket, comments }
}
