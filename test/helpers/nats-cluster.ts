/** Several real NATS servers that form a JetStream cluster on free ports of 127.0.0.1; the test may kill and empty each. */
import { copyFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect } from 'nats'
import type { Role } from '../../bus/connect.js'
import { passwordsOf } from '../../cli/nats/config.js'
import { type NatsProcess, startNatsProcess } from '../../cli/nats/process.js'
import { findNatsServer } from '../../cli/nats/server.js'
import { freePort } from '../../cli/ports.js'
import { SETTINGS } from '../../schemas/config.js'
import type { Broker } from './nats.js'
import { until } from './until.js'

export interface NatsCluster extends Broker {
  /** In the order of their names: `n0`, `n1` … */
  servers: readonly NatsProcess[]
  /** Deletes what a server has stored; it must be down. */
  wipe(server: number): void
  /** Number of the server that leads a stream. Waits until there is one. */
  leaderOf(stream: string): Promise<number>
  /** Resolves when all copies of the stream have all of its messages. */
  inSync(stream: string): Promise<void>
}

interface StreamAnswer {
  cluster?: { leader?: string; replicas?: { name: string; current?: boolean; offline?: boolean }[] }
}

/** `tags[i]`: the tags of server i. */
export async function startNatsCluster(count: number, tags: readonly (readonly string[])[] = []): Promise<NatsCluster> {
  const server = await findNatsServer()
  const data = mkdtempSync(join(tmpdir(), 'weft-nats-'))
  const passwords = passwordsOf(data)
  const routes: number[] = []
  while (routes.length < count) routes.push(await freePort())
  const folderOf = (i: number) => join(data, `n${i}`)
  const servers: NatsProcess[] = []
  const stop = async () => {
    for (const one of servers) await one.stop()
    rmSync(data, { recursive: true, force: true })
  }
  try {
    for (const [i, port] of routes.entries()) {
      mkdirSync(folderOf(i))
      copyFileSync(join(data, 'nats-users.json'), join(folderOf(i), 'nats-users.json'))
      const cluster = { server_name: `n${i}`, cluster: 'test', port, routes, tags: tags[i] ?? [] }
      const max_file_store = SETTINGS.max_file_store.default
      servers.push(await startNatsProcess({ server, data: folderOf(i), max_file_store, cluster, restart: false }))
    }
  } catch (error) {
    await stop()
    throw error
  }
  const url = (role: Role) =>
    servers.map(({ port }) => `nats://${role}:${encodeURIComponent(passwords[role])}@127.0.0.1:${port}`).join(',')

  async function ask(stream: string): Promise<StreamAnswer> {
    const nc = await connect({
      servers: servers.filter(one => one.pid() !== null).map(({ port }) => `127.0.0.1:${port}`),
      user: 'resources',
      pass: passwords.resources,
      inboxPrefix: '_INBOX_resources',
    })
    try {
      return (await nc.request(`$JS.API.STREAM.INFO.${stream}`, '', { timeout: 2_000 })).json<StreamAnswer>()
    } finally {
      await nc.close()
    }
  }

  return {
    data,
    servers,
    url,
    wipe: i => rmSync(join(folderOf(i), 'nats'), { recursive: true, force: true }),
    leaderOf: stream =>
      until(async () => {
        const { cluster } = await ask(stream).catch(() => ({}) as StreamAnswer)
        const i = Number(cluster?.leader?.slice(1) ?? -1)
        return servers[i]?.pid() != null ? { i } : undefined
      }).then(({ i }) => i),
    async inSync(stream) {
      await until(async () => {
        const { cluster } = await ask(stream).catch(() => ({}) as StreamAnswer)
        const others = cluster?.replicas ?? []
        return others.length === count - 1 && others.every(({ current, offline }) => current && !offline)
      }, 60_000)
    },
    stop,
  }
}
