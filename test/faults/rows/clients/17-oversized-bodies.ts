import { request } from 'node:http'
import { rssOf } from '../../../helpers/processes.js'
import { watchHealth } from '../../harness/health.js'
import { quantile } from '../../harness/ledger.js'
import type { Row } from '../../harness/row.js'

const MB = 1024 * 1024
const LIMIT_MB = 8
const GROWTH_MB = 100
const HEALTH_MS = 100

export const row: Row = {
  number: 17,
  name: 'Oversized bodies',
  fault: `Uploads of 1 GB at once, with and without Content-Length, to a server whose limit is ${LIMIT_MB} MB.`,
  promised: `413 or 429 and a closed connection; the edge grows by ${GROWTH_MB} MB at most; p99 of /ok meanwhile ≤ ${HEALTH_MS} ms.`,
  oneStore: 'the body is refused by the edge',
  async run(stage) {
    const uploads = stage.size(20, 100)
    const roles = await stage.roles({
      edges: 1,
      graphs: 1,
      env: { HTTP_MAX_REQUEST_BODY_BYTES: `${LIMIT_MB * MB}` },
    })
    const url = roles.urls[0]!
    const { pid } = roles.edges[0]!
    const before = rssOf(pid)
    let most = before
    const part = Buffer.alloc(MB, ' ')
    const upload = (n: number) =>
      new Promise<number>(done => {
        const headers = { 'content-type': 'application/json', ...(n % 2 === 0 ? { 'content-length': 1_024 * MB } : {}) }
        const call = request(`${url}/threads/search`, { method: 'POST', headers })
        let answered = 0
        call.on('response', answer => {
          answered = answer.statusCode!
          answer.resume()
        })
        call.on('error', () => {})
        call.on('close', () => done(answered))
        const more = (left: number): void => {
          if (left === 0 || call.destroyed || answered > 0) return void call.end()
          call.write(part, () => more(left - 1))
        }
        more(1_024)
      })
    const health = watchHealth(url)
    const watch = setInterval(() => {
      most = Math.max(most, rssOf(pid))
    }, 20)
    const statuses = await Promise.all(Array.from({ length: uploads }, (_, n) => upload(n)))
    clearInterval(watch)
    const healthy = await health.stop()
    const counts = [...new Set(statuses)].map(
      status => `${statuses.filter(one => one === status).length} × ${status || 'closed'}`,
    )
    stage.expect(
      statuses.every(status => [0, 413, 429].includes(status)),
      `answers were ${counts.join(', ')}`,
    )
    stage.expect(statuses.includes(413), 'no upload was answered 413')
    const growth = most - before
    stage.expect(growth <= GROWTH_MB, `the edge grew by ${Math.round(growth)} MB`)
    const p99 = quantile(healthy, 0.99)
    stage.expectTime(p99 <= HEALTH_MS, `p99 of /ok was ${Math.round(p99)} ms`)
    const { outcome } = await stage.ledger.call({ url, path: '/threads', body: {} })
    stage.expect(outcome === 'ok', 'the edge does not answer afterwards')
    return {
      load: `${uploads} uploads of 1 GB at once, half of them chunked`,
      measured: `${counts.join(', ')}; the edge grew by ${Math.round(growth)} MB; p99 of /ok ${Math.round(p99)} ms`,
    }
  },
}
