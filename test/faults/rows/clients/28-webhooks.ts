import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { until } from '../../../helpers/until.js'
import { quantile } from '../../harness/ledger.js'
import type { Row } from '../../harness/row.js'
import type { Stage } from '../../harness/stage.js'

const LATENCY_MS = 5

export const row: Row = {
  number: 28,
  name: 'Hostile receivers of webhooks',
  fault:
    'Receivers that hang, answer a byte a second, fail, or redirect to a private address; webhooks to private addresses in ' +
    'several spellings; kill -9 of the resource worker in the middle of deliveries.',
  promised:
    'No connection to a private address; every receiver that answers gets its call, with the id of its run each time; the ' +
    `median time of runs grows by at most ${LATENCY_MS} ms.`,
  async run(stage) {
    // A host that hangs has four calls at a time: those that answer are another host.
    const [receiver, steady, sink] = [await listen(stage), await listen(stage), await listen(stage)]
    const roles = await stage.roles({ graphs: 1, env: { WEFT_ALLOW_HOSTS: `${receiver.host},${steady.host}` } })
    receiver.redirect = `http://${sink.host}/`
    const url = roles.urls[0]!
    const runs = stage.size(10, 40)
    const { call } = stage.ledger
    const wait = async (webhook: string | null) => {
      const input = { file: stage.witness, key: 'webhook', steps: 2 }
      const body = { assistant_id: 'witness', input, ...(webhook === null ? {} : { webhook }), on_completion: 'keep' }
      return call({ url, path: '/runs/wait', body })
    }
    const median = async (webhook: string | null) => {
      const times: number[] = []
      for (let n = 0; n < runs; n++) {
        const { outcome, ms } = await wait(webhook)
        stage.expect(outcome === 'ok', `a run with the webhook ${webhook} failed`)
        times.push(ms)
      }
      return quantile(times, 0.5)
    }
    await median(null)
    const alone = await median(null)
    const beside = await median(receiver.url('/hang'))
    for (const path of ['/drip', '/fail', '/redirect']) await median(receiver.url(path))
    const [, port] = sink.host.split(':')
    let refused = 0
    for (const webhook of [
      `http://${sink.host}/`,
      `http://localhost:${port}/`,
      `http://[::ffff:127.0.0.1]:${port}/`,
      `http://0x7f.1:${port}/`,
      `http://someone:secret@${sink.host}/`,
      'http://169.254.169.254/latest/meta-data/',
    ]) {
      const { outcome } = await wait(webhook)
      if (outcome === 'fail') refused++
    }
    // In the middle of deliveries: those to /good have begun, and are answered late.
    steady.slow = true
    const good = Array.from({ length: runs }, () => wait(steady.url('/good')))
    await until(() => steady.ids('/good').size > 0)
    await stage.replace(roles, 'resources', 0, 500)
    steady.slow = false
    // A call that met the kill may have made no run.
    const accepted = (await Promise.all(good)).filter(({ outcome }) => outcome === 'ok').length
    const list = await call<{ run_id: string; webhook?: string }[]>({
      url,
      path: '/threads/search',
      body: { limit: 1 },
    })
    stage.expect(list.outcome === 'ok', 'the server does not answer after the kill')
    // An attempt whose worker died is repeated when its lease of a minute has ended.
    await until(() => steady.ids('/good').size >= accepted, 150_000).catch(() => {})
    await sleep(1_000)
    const arrived = steady.ids('/good').size
    stage.expect(arrived >= accepted, `${accepted - arrived} of ${accepted} webhooks were not delivered`)
    const connections = sink.connections
    stage.expect(connections === 0, `${connections} connections to a private address`)
    stage.expectTime(beside - alone <= LATENCY_MS, `the median grew by ${(beside - alone).toFixed(1)} ms`)
    return {
      load: `${runs} runs for each kind of receiver, 6 webhooks to private addresses (${refused} refused with their create)`,
      measured:
        `${connections} connections to private addresses; ${arrived} delivered of ${accepted} runs over the kill; median of runs ` +
        `${alone.toFixed(1)} ms without a webhook, ${beside.toFixed(1)} ms with a receiver that hangs`,
    }
  },
}

/** A receiver at 127.0.0.1: its paths answer as their names say. */
async function listen(stage: Stage) {
  const calls: { path: string; id: string }[] = []
  const held: ServerResponse[] = []
  const server = createServer((request: IncomingMessage, response) => {
    const path = request.url ?? ''
    calls.push({ path, id: `${request.headers['webhook-id']}` })
    request.resume()
    if (path === '/hang' || (path === '/good' && self.slow)) held.push(response)
    else if (path === '/fail') response.writeHead(500).end()
    else if (path === '/redirect') response.writeHead(302, { location: self.redirect }).end()
    else if (path === '/drip') {
      response.writeHead(200)
      const timer = setInterval(() => response.write('x'), 1_000)
      response.on('close', () => clearInterval(timer))
    } else response.writeHead(204).end()
  })
  const self = {
    host: '',
    redirect: '',
    /** Whether /good answers later, or never. */
    slow: false,
    connections: 0,
    url: (path: string) => `http://${self.host}${path}`,
    ids: (path: string) => new Set(calls.filter(one => one.path === path).map(({ id }) => id)),
  }
  server.on('connection', () => self.connections++)
  await new Promise<void>(done => server.listen(0, '127.0.0.1', done))
  self.host = `127.0.0.1:${(server.address() as AddressInfo).port}`
  stage.defer(() => {
    server.closeAllConnections()
    return new Promise(done => server.close(done))
  })
  return self
}
