/** New certificates for the broker and for its clients: a reload of the server keeps every connection, and no role restarts. */
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { openLink, type Role } from '../../bus/connect.js'
import { openLog } from '../../bus/log.js'
import { issuerSeedOf } from '../../cli/nats/config.js'
import { type Proc, startRoles } from '../helpers/cluster.js'
import { until } from '../helpers/until.js'
import { type Authority, authorityIn } from './certificates.js'
import { ownBroker } from './own-broker.js'

t.setTimeout(120_000)
const NAMES = 'IP:127.0.0.1'

/** A broker that asks for certificates. */
async function startBroker() {
  const broker = await ownBroker()
  const { data, address, userOf } = broker
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
  const tls = `tls { cert_file: "${own.cert}", key_file: "${own.key}", ca_file: "${own.ca}", verify: true }`
  await broker.start(`${broker.config}\n${tls}\n`)
  return { ...broker, put, authorities, client, url: (role: Role) => `tls://${userOf(role)}@${address}` }
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
