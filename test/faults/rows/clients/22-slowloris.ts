import net from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { quantile } from '../../harness/ledger.js'
import type { Row } from '../../harness/row.js'
import type { Stage } from '../../harness/stage.js'

/** A slow socket is closed within this time. */
const CLOSED_MS = 12_000
const FACTOR = 1.5
/** Below this a p99 on a shared machine is noise. */
const LEAST_MS = 20

export const row: Row = {
  number: 22,
  name: 'Slow senders',
  fault: 'Sockets that send one byte in 3 s: half of them of their head, half of a body whose length they have named.',
  promised: `They are closed within ${CLOSED_MS / 1_000} s; p99 of honest calls ≤ ${FACTOR} times what it is without them.`,
  oneStore: 'requests that do not become calls',
  async run(stage) {
    const roles = await stage.roles({ edges: 1, graphs: 1 })
    const url = roles.urls[0]!
    const count = stage.size(300, 3_000, 5_000)
    const honest = async (seconds: number) => {
      const ms: number[] = []
      for (const end = Date.now() + seconds * 1_000; Date.now() < end; await sleep(20)) {
        const { ms: took, outcome } = await stage.ledger.call({ url, path: '/threads', body: {} })
        stage.expect(outcome === 'ok', 'an honest call failed')
        ms.push(took)
      }
      return quantile(ms, 0.99)
    }
    await honest(2)
    const alone = await honest(5)
    const opened = openSlow(stage, Number(new URL(url).port), count)
    const beside = await honest(stage.size(14, 14))
    // Where it takes longer, the figure says how long.
    await sleep(30_000)
    const closed = opened()
    for (const kind of ['head', 'body']) {
      const late = closed.filter(one => one.kind === kind && (one.ms === null || one.ms > CLOSED_MS)).length
      stage.expect(late === 0, `${late} sockets with a slow ${kind} were not closed in time`)
    }
    stage.expect(
      beside <= FACTOR * Math.max(alone, LEAST_MS),
      `p99 ${Math.round(beside)} ms beside ${Math.round(alone)} ms alone`,
    )
    const longest = (kind: string) =>
      Math.max(...closed.filter(one => one.kind === kind).map(({ ms }) => ms ?? Infinity)) / 1_000
    return {
      load: `${count} slow sockets`,
      measured:
        `closed after ${longest('head').toFixed(1)} s (head) and ${longest('body').toFixed(1)} s (body) at most; honest p99 ` +
        `${Math.round(beside)} ms beside ${Math.round(alone)} ms alone`,
    }
  },
}

/** Opens them; the result says how long each was open, null: it is still. */
function openSlow(stage: Stage, port: number, count: number) {
  const all = Array.from({ length: count }, (_, n) => {
    const kind = n % 2 === 0 ? 'head' : 'body'
    const one: { kind: string; ms: number | null } = { kind, ms: null }
    let since = performance.now()
    const socket = net.connect(port, '127.0.0.1', () => {
      since = performance.now()
    })
    socket.on('error', () => {})
    const start = 'POST /threads HTTP/1.1\r\nHost: 127.0.0.1\r\n'
    socket.write(kind === 'head' ? start : `${start}Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n{`)
    const timer = setInterval(() => socket.write(kind === 'head' ? 'x' : ' '), 3_000)
    socket.on('close', () => {
      clearInterval(timer)
      one.ms = performance.now() - since
    })
    socket.resume()
    stage.defer(() => {
      clearInterval(timer)
      socket.destroy()
    })
    return one
  })
  return () => all
}
