/**
 * A hub with JetStream in a domain and leaf nodes that connect to it, each a real nats-server on loopback, with the users that
 * `weft nats config --hub` and `--leaf` print.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Role } from '../../bus/connect.js'
import { keepRunning } from '../../cli/keep-running.js'
import { findNatsServer } from '../../cli/nats/server.js'
import { answersAt, freePort } from '../../cli/ports.js'
import { root } from '../../cli/root.js'
import { spawnTied } from '../../cli/tied-process.js'
import { runWeft } from './command.js'
import { until } from './until.js'

type Env = { [name: string]: string }

export interface Node {
  /** `pool`: its user instead of that of the role. */
  url(role: Role, pool?: string): string
  /** Ends the server; it stays down until `start`. */
  stop(): Promise<void>
  start(): Promise<void>
  /** Changes the text of users.conf, or the environment, before the next start. */
  change(edit: (users: string) => string, env?: Env): void
}

export interface LeafNodes {
  hub: Node
  leaves: Node[]
  /** The variables of `weft nats init`. */
  secrets: Env
  /** The variables of a leaf node: where the hub is, with the users of leaf nodes, whose names end by `suffix`. */
  remotes(password: string, suffix?: string): Env
  /** A folder for data of roles. */
  folder(name: string): string
  stop(): Promise<void>
}

const STOP_MS = 5_000

/** `pools`: users for these, too. */
export async function startLeafNodes(count: number, pools: readonly string[] = []): Promise<LeafNodes> {
  const server = await findNatsServer()
  const own = mkdtempSync(join(tmpdir(), 'weft-leaf-'))
  const folder = (name: string) => {
    mkdirSync(join(own, name), { recursive: true })
    return join(own, name)
  }
  const weft = async (...args: string[]) => {
    const { code, stdout, stderr } = await runWeft(['nats', ...args])
    if (code !== 0) throw new Error(`weft nats ${args.join(' ')}: ${stderr}`)
    return stdout
  }
  const secrets = JSON.parse(await weft('init', '--json', ...pools.flatMap(pool => ['--pool', pool]))) as Env
  const leafPort = await freePort()
  const started: Node[] = []

  async function node(name: string, config: string, users: string, more: Env = {}): Promise<Node> {
    const port = await freePort()
    const place = folder(name)
    const write = (text: string) => writeFileSync(join(place, 'users.conf'), text)
    write(users)
    writeFileSync(join(place, 'nats.conf'), `listen: "127.0.0.1:${port}"\nserver_name: ${name}\n${config}`)
    const env = { ...process.env, ...secrets, ...more }
    const managed = keepRunning({
      name: 'NATS server',
      log: () => {},
      restart: false,
      spawn: () => spawnTied([server, '-c', join(place, 'nats.conf')], { env }),
      ready: async () => void (await until(() => answersAt(port, 'INFO '), 20_000)),
    })
    await managed.start()
    const one: Node = {
      url(role, pool) {
        const user = pool === undefined ? `${role}:${secrets[`NATS_${role.toUpperCase()}_PASSWORD`]}` : secrets[pool]
        return `nats://${user}@127.0.0.1:${port}`
      },
      stop: () => managed.stop(STOP_MS),
      start: () => managed.start(),
      change(edit, changed = {}) {
        users = edit(users)
        write(users)
        Object.assign(env, changed)
      },
    }
    started.push(one)
    return one
  }

  const shipped = readFileSync(join(root, 'deploy/nats/server.conf'), 'utf8')
  const hubConfig = shipped
    .replaceAll(/^(server_name|listen|http):.*$/gm, '')
    .replace('"/data"', JSON.stringify(folder('jetstream')))
    .replace('jetstream {', 'jetstream {\n  domain: hub')
  const hubUsers = (await weft('config', '--hub')).replace('0.0.0.0:7422', `127.0.0.1:${leafPort}`)
  const hub = await node('hub', hubConfig, hubUsers)
  const remotes = (password: string, suffix = '') =>
    Object.fromEntries(
      ['WEFT', 'POOLS'].map(account => {
        const url = `nats-leaf://leaf-${account}${suffix}:${password}@127.0.0.1:${leafPort}`
        return [`NATS_HUB_${account}`, `[${url}]`]
      }),
    )
  const leafUsers = await weft('config', '--leaf')
  const leaves: Node[] = []
  for (let i = 0; i < count; i++)
    leaves.push(
      await node(
        `leaf-${i}`,
        'max_payload: 1MB\ninclude users.conf\n',
        leafUsers,
        remotes(secrets.NATS_LEAF_PASSWORD!),
      ),
    )
  return {
    hub,
    leaves,
    secrets,
    remotes,
    folder,
    async stop() {
      for (const one of started.toReversed()) await one.stop()
      rmSync(own, { recursive: true, force: true, maxRetries: 3 })
    },
  }
}
