/** Another password for a role at the broker: a second user with the same rights, then the end of the first (docs/operations.md). */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
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
import { startRoles } from '../helpers/cluster.js'
import { until } from '../helpers/until.js'

t.setTimeout(120_000)
const NEXT = 'another password'
const CHANGED = ['edge', 'resources'] as const

/** A broker with the users of production, whose configuration may be changed. */
async function startBroker() {
  const data = mkdtempSync(join(tmpdir(), 'weft-users-'))
  const port = await freePort()
  const path = writeNatsConfig({ data, port, max_file_store: SETTINGS.max_file_store.default })
  const first = readFileSync(path, 'utf8').replaceAll(/^log.*$/gm, '')
  let server: ChildProcess
  const start = async (config: string) => {
    writeFileSync(path, config)
    let said = ''
    server = spawn(await findNatsServer(), ['-c', path], { stdio: ['ignore', 'ignore', 'pipe'] })
    server.stderr!.on('data', part => (said += part))
    await until(() => said.includes('Server is ready'))
  }
  const end = async () => {
    const over = once(server, 'close')
    server.kill('SIGTERM')
    await over
  }
  await start(first)
  const passwords = passwordsOf(data)
  const pool = openIssuer(issuerSeedOf(data)).userOf({ app: BUILT_IN_APP, pool: token('pool', 'default') })
  return {
    data,
    first,
    url: (role: Role) =>
      role === 'graphs'
        ? `nats://${pool.user}:${pool.password}@127.0.0.1:${port}`
        : `nats://${role}:${passwords[role]}@127.0.0.1:${port}`,
    nextUrl: (role: Role) => `nats://${role}_next:${encodeURIComponent(NEXT)}@127.0.0.1:${port}`,
    async restart(config: string) {
      await end()
      await start(config)
    },
    async stop() {
      await end()
      rmSync(data, { recursive: true, force: true })
    },
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

  await broker.restart(withNext(broker.first, { alone: false }))
  await untilServed(roles.urls[0]!)
  const more = { WEFT_NATS_ISSUER: env.WEFT_NATS_ISSUER }
  await roles.resources[0]!.stop()
  await roles.add('resources', [], { ...more, NATS_URL: broker.nextUrl('resources') })
  const edge = await roles.add('edge', ['--port', '0'], { ...more, NATS_URL: broker.nextUrl('edge') })
  await roles.edges[0]!.stop()
  const url = `http://127.0.0.1:${edge.port}`
  await untilServed(url)

  await broker.restart(withNext(broker.first, { alone: true }))
  await untilServed(url)
  const open = (address: string) => openLink({ url: address, role: 'edge', log: openLog('test', 'silent') })
  await t.rejects(open(broker.url('edge')), /Authorization|no NATS server answers/i, 'the first user is no more')
  await (await open(broker.nextUrl('edge'))).close()
})
