/**
 * A hub with JetStream in a domain and leaf nodes that connect to it, each a real nats-server on loopback. A leaf node has no
 * JetStream: it maps the API to that of the hub, because a server passes `$JS.API.>` on to no leaf connection, and its users
 * have the rights of production under the mapped names, which the server checks.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Role } from '../../bus/connect.js'
import { POOLS_ACCOUNT, ROLES_ACCOUNT } from '../../bus/rights.js'
import { keepRunning } from '../../cli/keep-running.js'
import { passwordsOf, writeNatsConfig } from '../../cli/nats/config.js'
import { findNatsServer } from '../../cli/nats/server.js'
import { answersAt, freePort } from '../../cli/ports.js'
import { spawnTied } from '../../cli/tied-process.js'
import { SETTINGS } from '../../schemas/config.js'
import { until } from './until.js'

export interface Node {
  url(role: Role): string
  /** Ends the server; it stays down until `start`. */
  stop(): Promise<void>
  start(): Promise<void>
}

export interface LeafNodes {
  hub: Node
  leaves: Node[]
  /** A folder for data of roles. */
  folder(name: string): string
  stop(): Promise<void>
}

const STOP_MS = 5_000
const ACCOUNTS = [ROLES_ACCOUNT, POOLS_ACCOUNT]

/** The users of an account of the hub, under the mapped names: what passes between accounts is a matter of the hub. */
function usersOf(config: string, account: string): string {
  const block = config.slice(config.indexOf(`\n  ${account} {`))
  const users = /users: ?\[[\s\S]*?\n? *\]\n/.exec(block)?.[0]
  if (users === undefined) throw new Error(`the configuration of the hub has no users of ${account}`)
  return users.trim().replaceAll('$JS.API.', '$JS.hub.API.')
}

export async function startLeafNodes(count: number): Promise<LeafNodes> {
  const server = await findNatsServer()
  const root = mkdtempSync(join(tmpdir(), 'weft-leaf-'))
  const folder = (name: string) => {
    mkdirSync(join(root, name), { recursive: true })
    return join(root, name)
  }
  const passwords = passwordsOf(folder('hub'))
  const [hubPort, leafPort] = [await freePort(), await freePort()]
  const hubConfig = writeNatsConfig({
    data: folder('hub'),
    port: hubPort,
    max_file_store: SETTINGS.max_file_store.default,
  })
  const written = readFileSync(hubConfig, 'utf8').replace('jetstream {', 'jetstream {\n  domain: hub')
  const authorization = written.slice(written.indexOf('authorization {'))
  // Pulls of pools at a leaf arrive under the name of the domain.
  const next = 'subject: "$JS.API.CONSUMER.MSG.NEXT.RUNS.*" }'
  const alias = `{ service: { account: WEFT, ${next}, to: "$JS.hub.API.CONSUMER.MSG.NEXT.RUNS.*" }`
  const withAlias = written.replace(`{ service: { account: WEFT, ${next} }`, found => `${found}\n      ${alias}`)
  if (withAlias === written) throw new Error('the configuration of the hub has no import of pulls')
  const leafUsers = ACCOUNTS.map(account => `{ user: leaf-${account}, password: "leaf-password", account: ${account} }`)
  writeFileSync(
    hubConfig,
    `${withAlias}\nleafnodes { listen: "127.0.0.1:${leafPort}", authorization { users: [${leafUsers}] } }\n`,
  )
  const started: Node[] = []
  const node = async (config: string, port: number): Promise<Node> => {
    const managed = keepRunning({
      name: 'NATS server',
      log: () => {},
      restart: false,
      spawn: () => spawnTied([server, '-c', config]),
      ready: async () => void (await until(() => answersAt(port, 'INFO '), 20_000)),
    })
    await managed.start()
    const one: Node = {
      url: role => `nats://${role}:${encodeURIComponent(passwords[role])}@127.0.0.1:${port}`,
      stop: () => managed.stop(STOP_MS),
      start: () => managed.start(),
    }
    started.push(one)
    return one
  }
  const hub = await node(hubConfig, hubPort)
  const leaves: Node[] = []
  for (let i = 0; i < count; i++) {
    const name = `leaf-${i}`
    const port = await freePort()
    const config = join(folder(name), 'nats.conf')
    writeFileSync(
      config,
      `listen: "127.0.0.1:${port}"
server_name: ${name}
max_payload: 1MB
leafnodes { reconnect: 1, remotes: [${ACCOUNTS.map(account => `{ url: "nats-leaf://leaf-${account}:leaf-password@127.0.0.1:${leafPort}", account: ${account} }`)}] }
accounts {
${ACCOUNTS.map(account => `  ${account} { mappings { "$JS.API.>": "$JS.hub.API.>" }, ${usersOf(written, account)} }`).join('\n')}
}
${authorization}`,
    )
    leaves.push(await node(config, port))
  }
  return {
    hub,
    leaves,
    folder,
    async stop() {
      for (const one of started.toReversed()) await one.stop()
      rmSync(root, { recursive: true, force: true, maxRetries: 3 })
    },
  }
}
