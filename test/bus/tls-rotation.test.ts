/** New certificates for the broker and for its clients: a reload of the server keeps every connection, and no role restarts. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { openLink, type Role } from '../../bus/connect.js'
import { openLog } from '../../bus/log.js'
import { openIssuer } from '../../bus/pool-users.js'
import { issuerSeedOf, passwordsOf, writeNatsConfig } from '../../cli/nats/config.js'
import { findNatsServer } from '../../cli/nats/server.js'
import { freePort } from '../../cli/ports.js'
import { SETTINGS } from '../../schemas/config.js'
import { BUILT_IN_APP, token } from '../../schemas/ids.js'
import { type Proc, startRoles } from '../helpers/cluster.js'
import { until } from '../helpers/until.js'
import { type Authority, authorityIn } from './certificates.js'

t.setTimeout(120_000)
const NAMES = 'IP:127.0.0.1'

/** A broker with the users of production that asks for certificates, and whose files may be replaced. */
async function startBroker() {
  const data = mkdtempSync(join(tmpdir(), 'weft-tls-'))
  const port = await freePort()
  const files = (of: string) => ({
    ca: join(data, `${of}.ca`),
    cert: join(data, `${of}.pem`),
    key: join(data, `${of}.key`),
  })
  const [own, client] = [files('server'), files('client')]
  /** Certificates of one authority, and the authorities that each side accepts. */
  const put = ({ issue }: Authority, accepted: readonly Authority[]) => {
    for (const [subject, place] of Object.entries({ server: own, client })) {
      const made = issue(subject, NAMES)
      copyFileSync(made.cert, place.cert)
      copyFileSync(made.key, place.key)
      writeFileSync(place.ca, accepted.map(({ ca }) => readFileSync(ca, 'utf8')).join(''))
    }
  }
  const authorities = [authorityIn(data, 'old'), authorityIn(data, 'next')] as const
  put(authorities[0], [authorities[0]])
  const config = writeNatsConfig({ data, port, max_file_store: SETTINGS.max_file_store.default })
  const tls = `tls { cert_file: "${own.cert}", key_file: "${own.key}", ca_file: "${own.ca}", verify: true }`
  writeFileSync(config, `${readFileSync(config, 'utf8').replaceAll(/^log.*$/gm, '')}\n${tls}\n`)
  let said = ''
  let server: ChildProcess
  const start = async () => {
    said = ''
    server = spawn(await findNatsServer(), ['-c', config], { stdio: ['ignore', 'ignore', 'pipe'] })
    server.stderr!.on('data', part => (said += part))
    await until(() => said.includes('Server is ready'))
  }
  const end = async () => {
    const over = once(server, 'close')
    server.kill('SIGTERM')
    await over
  }
  await start()
  const passwords = passwordsOf(data)
  const pool = openIssuer(issuerSeedOf(data)).userOf({ app: BUILT_IN_APP, pool: token('pool', 'default') })
  const userOf = (role: Role) => (role === 'graphs' ? `${pool.user}:${pool.password}` : `${role}:${passwords[role]}`)
  return {
    data,
    url: (role: Role) => `tls://${userOf(role)}@127.0.0.1:${port}`,
    put,
    authorities,
    client,
    async reload() {
      said = ''
      server.kill('SIGHUP')
      await until(() => said.includes('Reloaded server configuration'))
    },
    async restart() {
      await end()
      await start()
    },
    async stop() {
      await end()
      rmSync(data, { recursive: true, force: true })
    },
  }
}

t.test('certificates of another authority for the broker and all roles', async t => {
  const broker = await startBroker()
  const { client, authorities } = broker
  const env = {
    WEFT_NATS_CA: client.ca,
    WEFT_NATS_CERT: client.cert,
    WEFT_NATS_KEY: client.key,
    WEFT_NATS_ISSUER: issuerSeedOf(broker.data),
    LOG_FORMAT: 'json',
  }
  const roles = await startRoles({ app: 'test/apps/basic', broker: async () => broker, env })
  t.teardown(() => roles.stop())
  const all = [...roles.resources, ...roles.graphs, ...roles.edges]
  const connections = ({ output }: Proc, what: 'disconnect' | 'reconnect') =>
    output().split(`"type":"${what}"`).length - 1
  const run = async () => {
    const body = JSON.stringify({ assistant_id: 'echo', input: { text: 'a' } })
    return (await fetch(`${roles.urls[0]}/runs/wait`, { method: 'POST', body })).status
  }
  const [old, next] = authorities
  t.equal(await run(), 200)
  for (const [issuer, accepted] of [
    [old, [old, next]],
    [next, [old, next]],
    [next, [next]],
  ] as const) {
    broker.put(issuer, accepted)
    await broker.reload()
    t.equal(await run(), 200)
  }
  // The server cuts those of graph workers, because it does not know the users of pools itself; they connect again.
  for (const proc of [...roles.resources, ...roles.edges])
    t.equal(connections(proc, 'disconnect'), 0, 'a reload keeps the connections of roles')
  const open = (files: { cert: string; key: string }, ca: string) =>
    openLink({ url: broker.url('edge'), role: 'edge', log: openLog('test', 'silent'), tls: { ...files, ca } })
  await t.rejects(open(client, old.ca), /no NATS server answers/, 'the server has its new certificate')
  await t.rejects(open(old.issue('late', NAMES), next.ca), /no NATS server answers/, 'and accepts no old one')

  const before = new Map(all.map(proc => [proc, connections(proc, 'reconnect')]))
  await broker.restart()
  await until(() => all.every(proc => connections(proc, 'reconnect') > before.get(proc)!))
  t.equal(await run(), 200, 'connections are made again with the new files')
})
