/** Another password for a role at the broker: a second user with the same rights, then the end of the first (docs/operations.md). */
import t from 'tap'
import { openLink, type Role } from '../../bus/connect.js'
import { openLog } from '../../bus/log.js'
import { issuerSeedOf } from '../../cli/nats/config.js'
import { startRoles } from '../helpers/cluster.js'
import { until } from '../helpers/until.js'
import { ownBroker } from './own-broker.js'

t.setTimeout(120_000)
const NEXT = 'another password'
const CHANGED = ['edge', 'resources'] as const

async function startBroker() {
  const broker = await ownBroker()
  await broker.start(broker.config)
  return {
    ...broker,
    url: (role: Role) => `nats://${broker.userOf(role)}@${broker.address}`,
    nextUrl: (role: Role) => `nats://${role}_next:${encodeURIComponent(NEXT)}@${broker.address}`,
  }
}

/** The configuration with a second user of each role beside the first, or in its place. */
function withNext(config: string, { alone }: { alone: boolean }): string {
  for (const role of CHANGED) {
    const line = new RegExp(`^( *)\\{ user: ${role}, password: "[^"]*"(.*)$`, 'm')
    config = config
      .replace(line, (all, space, rest) => {
        const next = `${space}{ user: ${role}_next, password: "${NEXT}"${rest}`
        return alone ? next : `${all}\n${next}`
      })
      .replace(/(auth_users: \[.*)(\])/, (_, users: string) =>
        alone ? `${users.replace(`"${role}"`, `"${role}_next"`)}]` : `${users}, "${role}_next"]`,
      )
  }
  return config
}

t.test('roles get second users at the broker, and the first ones end', async t => {
  const broker = await startBroker()
  const env = { WEFT_NATS_ISSUER: issuerSeedOf(broker.data) }
  const roles = await startRoles({ app: 'test/apps/basic', broker: async () => broker, env })
  t.teardown(() => roles.stop())
  const run = async (url: string) => {
    const body = JSON.stringify({ assistant_id: 'echo', input: { text: 'a' } })
    return (await fetch(`${url}/runs/wait`, { method: 'POST', body })).status
  }
  const untilServed = (url: string) => until(async () => (await run(url)) === 200, 30_000)
  t.equal(await run(roles.urls[0]!), 200)

  await broker.restart(withNext(broker.config, { alone: false }))
  await untilServed(roles.urls[0]!)
  const more = { WEFT_NATS_ISSUER: env.WEFT_NATS_ISSUER }
  await roles.resources[0]!.stop()
  await roles.add('resources', [], { ...more, NATS_URL: broker.nextUrl('resources') })
  const edge = await roles.add('edge', ['--port', '0'], { ...more, NATS_URL: broker.nextUrl('edge') })
  await roles.edges[0]!.stop()
  const url = `http://127.0.0.1:${edge.port}`
  await untilServed(url)

  await broker.restart(withNext(broker.config, { alone: true }))
  await untilServed(url)
  const open = (address: string) => openLink({ url: address, role: 'edge', log: openLog('test', 'silent') })
  await t.rejects(open(broker.url('edge')), /Authorization|no NATS server answers/i, 'the first user is no more')
  await (await open(broker.nextUrl('edge'))).close()
})
