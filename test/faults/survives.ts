/** The conditions for runs after a fault of a whole server. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { type Cluster, startCluster } from '../helpers/cluster.js'
import { lines } from '../helpers/sdk.js'
import { until } from '../helpers/until.js'

/** A call that fails counts as no: the server restarts. */
export const untilServed = (check: () => Promise<boolean>) => until(() => check().catch(() => false), 60_000)

/** Running, pending and delayed runs exist; after `fault` all of them succeed and no thread stays busy. `env`: of the first start. */
export async function survives(
  t: Test,
  fault: (cluster: Cluster, data: string) => Promise<Cluster>,
  env: { [name: string]: string } = {},
) {
  const data = mkdtempSync(join(tmpdir(), 'weft-fault-'))
  let cluster = await startCluster({ app: 'test/apps/basic', data, env })
  t.teardown(async () => {
    await cluster.stop()
    rmSync(data, { recursive: true, force: true })
  })
  let client = lines[0]!.connect(cluster.url)
  const runs: { thread_id: string; run_id: string }[] = []
  for (let i = 0; i < 5; i++) {
    const { thread_id } = await client.threads.create()
    // The last one must still be running when it is asked for, also on a slow machine.
    runs.push(await client.runs.create(thread_id, 'slow', { input: { ms: i < 4 ? 2_000 : 6_000 } }))
    runs.push(await client.runs.create(thread_id, 'counter', { input: { steps: 3 } }))
    const delayed = await client.threads.create()
    runs.push(await client.runs.create(delayed.thread_id, 'echo', { input: { text: 'later' }, afterSeconds: 3 }))
  }
  const { thread_id, run_id } = runs.at(-3)!
  await untilServed(async () => (await client.runs.get(thread_id, run_id)).status === 'running')
  cluster = await fault(cluster, data)
  client = lines[0]!.connect(cluster.url)
  // One after the other: looks at all of them would keep a core busy until the leases of the dead workers end.
  const left = [...runs]
  await untilServed(async () => {
    while (left.length > 0 && (await client.runs.get(left[0]!.thread_id, left[0]!.run_id)).status === 'success')
      left.shift()
    return left.length === 0
  })
  for (const { thread_id } of runs) t.equal((await client.threads.get(thread_id)).status, 'idle')
  return cluster
}
