/** The proxy of sandboxes, with servers and clients that do not keep to the protocol: each costs itself. */
import { once } from 'node:events'
import { request } from 'node:http'
import { type AddressInfo, connect, createServer } from 'node:net'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { openLog } from '../../bus/log.js'
import { readConfig } from '../../schemas/config.js'
import { openEgress } from '../../workers/child/egress.js'
import type { Rules } from '../../workers/child/egress-rules.js'
import { openSandbox } from '../../workers/child/open-sandbox.js'

const log = openLog('test', 'silent')

const ANSWERS: { [path: string]: string } = {
  '/good': 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok',
  '/low': 'HTTP/1.1 099 Odd\r\ncontent-length: 2\r\n\r\nok',
  '/none': '',
  '/garbage': 'not HTTP\r\n\r\n',
  '/cut': 'HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\nok',
}

t.test('a network that is kept from code without a sandbox', async t => {
  const options = { user: null, node: process.execPath, log }
  for (const network of ['off', 'example.com']) {
    const config = readConfig({}, { host_network: network })
    await t.rejects(openSandbox({ ...options, config }), /^WEFT_HOST_NETWORK: .*WEFT_HOST_SANDBOX=bubblewrap/)
  }
  t.equal((await openSandbox({ ...options, config: readConfig({}, {}) })).sandbox, null)
})

t.test('answers and requests that are no HTTP leave the proxy as it was', async t => {
  const server = createServer(socket => {
    socket.on('error', () => {})
    socket.once('data', bytes => socket.end(ANSWERS[bytes.toString().split(' ')[1]!] ?? ''))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const rules: Rules = async () => ({ address: '127.0.0.1', family: 4 })
  const egress = await openEgress(rules, null, log)
  t.teardown(() => egress.close())
  const ask = async (path: string) => {
    const sent = request({ socketPath: egress.socket, path: `http://example.com:${port}${path}`, agent: false }).end()
    const [response] = await once(sent, 'response')
    return { status: response.statusCode, body: await text(response).catch(() => 'cut') }
  }
  t.same(await ask('/good'), { status: 200, body: 'ok' })
  for (const path of ['/low', '/none', '/garbage']) t.match(await ask(path), { status: 502 }, path)
  t.same(await ask('/cut'), { status: 200, body: 'cut' })
  for (const line of ['CONNECT nothing HTTP/1.1', 'CONNECT [::1 HTTP/1.1', 'GET /path HTTP/1.1', 'odd']) {
    const socket = connect(egress.socket).end(`${line}\r\nhost: x\r\n\r\n`)
    t.notMatch(await text(socket), /^HTTP\/1\.1 200/, line)
  }
  t.same(await ask('/good'), { status: 200, body: 'ok' })
})
