/** Everything dies and starts again. */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { allGone, type Roles } from '../../helpers/cluster.js'
import type { Stage } from './stage.js'

/** Kill -9 of every process, the broker among them. */
export async function killAll(stage: Stage, roles: Roles): Promise<void> {
  const procs = [...roles.edges, ...roles.graphs, ...roles.resources]
  for (const proc of procs) stage.kill(proc)
  roles.nats.kill()
  await allGone(procs.map(({ pid }) => pid))
}

/** Starts as many processes of each role as there were. `wiped`: the broker has lost its folder. */
export async function startAll(roles: Roles, { wiped = false } = {}): Promise<void> {
  if (wiped) rmSync(join(roles.nats.data, 'nats'), { recursive: true, force: true })
  await roles.nats.restart()
  const start = async (procs: typeof roles.graphs, role: 'resources' | 'graphs' | 'edge') => {
    await Promise.all([...procs.keys()].map(async n => (procs[n] = await roles.add(role))))
  }
  await Promise.all([start(roles.resources, 'resources'), start(roles.graphs, 'graphs')])
  await start(roles.edges, 'edge')
  for (const [n, { port }] of roles.edges.entries()) roles.urls[n] = `http://127.0.0.1:${port}`
}
