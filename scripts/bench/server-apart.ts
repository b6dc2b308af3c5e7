/**
 * A Weft with a process per role, which shows what each role uses; also with several processes of a role, which shows
 * what changes with their number.
 */
import type { ChildProcess } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startNatsProcess } from '../../cli/nats/process.js'
import { findNatsServer } from '../../cli/nats/server.js'
import { freePort } from '../../cli/ports.js'
import { benchDatabase } from './database.js'
import { divideAmong } from './http.js'
import { benchApp, type Kind, type Server, spawnWeft, stopAll, untilServed, type WeftOptions } from './server.js'

/** Processes of each role; `pools`: pools with a graph worker each, beside those of the pool of the bench. */
export interface Counts {
  edges: number
  resources: number
  graphs: number
  pools: number
}

export const ONE_EACH: Counts = { edges: 1, resources: 1, graphs: 1, pools: 0 }

type ApartOptions = Pick<WeftOptions, 'app' | 'env' | 'database' | 'name'> & { counts?: Counts }

/** Several resource workers share a database server: the embedded store has one. */
export function weftApart({
  app: usual = benchApp,
  env: given = {},
  counts = ONE_EACH,
  database = counts.resources > 1 ? 'postgres' : null,
  name = 'weft-apart',
}: ApartOptions = {}): Kind {
  return {
    name,
    async start({ wait = true, app = usual, env: more = {} } = {}) {
      const folder = mkdtempSync(join(tmpdir(), 'weft-bench-'))
      const monitor = await freePort()
      const ports: number[] = []
      while (ports.length < counts.edges) ports.push(await freePort())
      const max_file_store = 8 * 1024 ** 3
      const nats = await startNatsProcess({
        server: await findNatsServer(),
        data: folder,
        max_file_store,
        restart: false,
        monitor,
      })
      const store = database === null ? null : await benchDatabase(database)
      const env = { ...given, ...more, ...store?.env }
      const children: ChildProcess[] = []
      const server: Server = {
        name,
        port: ports[0]!,
        gapless: true,
        poolGraphs: Array.from({ length: counts.pools }, (_, i) => graphOf(i)),
        pids: () => [nats.pid() ?? 0, ...children.map(({ pid }) => pid!), ...(store?.pids() ?? [])],
        data: folder,
        monitor,
        async stop() {
          await stopAll(children.toReversed(), null)
          await nats.stop()
          await store?.stop()
          rmSync(folder, { recursive: true, force: true })
        },
      }
      const add = (role: string, ...flags: string[]) => {
        const child = spawnWeft([role, '--data', folder, ...flags], folder, env)
        children.push(child)
        return child
      }
      for (let i = 0; i < counts.resources; i++) add('resources')
      for (let i = 0; i < counts.graphs; i++) add('graphs', '--app', app)
      for (let i = 0; i < counts.pools; i++) add('graphs', '--app', appOfPool(folder, i), '--pool', poolOf(i))
      const edges = ports.map(port => add('edge', '--port', `${port}`))
      if (ports.length > 1) divideAmong(ports)
      const log = join(folder, 'bench.log')
      if (wait) for (const edge of edges) await untilServed(server, edge, log)
      return server
    },
  }
}

/** The pools beside that of the bench, and their graphs: a graph is served by one pool. */
const poolOf = (i: number): string => `pool-${i}`
const graphOf = (i: number): string => `echo-${i}`

/** An application with one graph of the bench under a name of its own. */
function appOfPool(folder: string, i: number): string {
  const path = join(folder, `app-${i}.json`)
  const graphs = { [graphOf(i)]: `${join(benchApp, 'graphs.mjs')}:echo` }
  writeFileSync(path, JSON.stringify({ node_version: '20', graphs }))
  return path
}
