/** Requests of HTTP/1.0, as old balancers send them to find out whether a server is there. */
import { mkdtempSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { answerProbes } from '../../cli/commands/probes.js'
import { freePort } from '../../cli/ports.js'
import { type Edges, hasBalancer, startHaproxy, startNginx } from '../helpers/balancers.js'
import { basicServer } from '../helpers/cluster.js'

t.setTimeout(60_000)

/** The whole answer, until the server closes the connection. */
function ask(url: string, head: string): Promise<string> {
  const { hostname, port } = new URL(url)
  return new Promise((resolve, reject) => {
    let text = ''
    const socket = connect(Number(port), hostname, () => socket.write(`${head}\r\n\r\n`))
    socket.on('data', part => (text += part))
    socket.once('error', reject)
    socket.once('close', () => resolve(text))
  })
}

const PLAIN = ['GET /ok HTTP/1.0', 'HEAD /ok HTTP/1.0', 'GET /ok HTTP/1.0\r\nHost: localhost']

t.test('an edge refuses HTTP/1.0, and balancers answer it', async t => {
  const server = await basicServer()
  t.teardown(() => server.stop())
  for (const head of PLAIN) t.match(await ask(server.url, head), /^HTTP\/1\.1 505 /, head)

  const folder = mkdtempSync(join(tmpdir(), 'weft-http-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const { host } = new URL(server.url)
  const both: Edges = [host, host]
  for (const [name, start] of [
    ['haproxy', startHaproxy],
    ['nginx', startNginx],
  ] as const)
    await t.test(name, { skip: !hasBalancer(name) && `${name} is not installed` }, async t => {
      const balancer = await start(folder, both)
      t.teardown(() => balancer.stop())
      for (const head of PLAIN) t.match(await ask(balancer.url, head), /^HTTP\/1\.[01] 200 /, head)
    })
})

t.test('the port of probes answers it', async t => {
  const port = await freePort()
  let isReady = false
  await answerProbes(port, () => isReady)
  const status = (path: string) => ask(`http://127.0.0.1:${port}`, `GET ${path} HTTP/1.0`)
  t.match(await status('/ready'), /^HTTP\/1\.1 503 /)
  isReady = true
  for (const path of ['/live', '/ready']) t.match(await status(path), /^HTTP\/1\.1 200 /, path)
})
