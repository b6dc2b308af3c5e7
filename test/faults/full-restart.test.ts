import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { allGone, type Cluster, startCluster } from '../helpers/cluster.js'
import { lines } from '../helpers/sdk.js'
import { readStream } from '../helpers/sse.js'
import { until } from '../helpers/until.js'

t.setTimeout(280_000)
const commandLineOf = (pid: number) => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')
  } catch {
    return ''
  }
}
const pidOf = (cluster: Cluster, name: RegExp) => cluster.pids().find(pid => name.test(commandLineOf(pid)))!

/** A call that fails counts as no: the server restarts. */
const untilServed = (check: () => Promise<boolean>) => until(() => check().catch(() => false), 60_000)

/** Running, pending and delayed runs exist; after `fault` all of them succeed and no thread stays busy. */
async function survives(t: Test, fault: (cluster: Cluster, data: string) => Promise<Cluster>) {
  const data = mkdtempSync(join(tmpdir(), 'weft-fault-'))
  let cluster = await startCluster({ app: 'test/apps/basic', data })
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
  await untilServed(async () => {
    const all = await Promise.all(runs.map(run => client.runs.get(run.thread_id, run.run_id)))
    return all.every(run => run.status === 'success')
  })
  for (const { thread_id } of runs) t.equal((await client.threads.get(thread_id)).status, 'idle')
  return cluster
}

t.test('kill -9 of every process: running, pending and delayed runs succeed', async t => {
  await survives(t, async (cluster, data) => {
    const pids = [cluster.launcher.pid, ...cluster.pids()]
    for (const pid of pids) process.kill(pid, 'SIGKILL')
    await allGone(pids)
    return startCluster({ app: 'test/apps/basic', data })
  })
})

t.test('the NATS data folder is deleted: no accepted run is lost', async t => {
  await survives(t, async (cluster, data) => {
    const pids = [cluster.launcher.pid, ...cluster.pids()]
    for (const pid of pids) process.kill(pid, 'SIGKILL')
    await allGone(pids)
    rmSync(join(data, 'nats'), { recursive: true, force: true })
    return startCluster({ app: 'test/apps/basic', data })
  })
})

t.test('kill -9 of the process with all roles: the launcher restarts it and runs continue', async t => {
  await survives(t, async cluster => {
    const url = cluster.url
    process.kill(pidOf(cluster, /roles-main/), 'SIGKILL')
    await untilServed(async () => (await fetch(`${url}/ready`)).status === 200)
    return cluster
  })
})

t.test('kill -9 of the NATS server: runs and streams continue', async t => {
  await survives(t, async cluster => {
    const url = cluster.url
    const streams = [true, false].map(resumable =>
      readStream(`${url}/runs/stream`, {
        method: 'POST',
        body: {
          assistant_id: 'chunks',
          input: { count: 300, delay_ms: 10 },
          stream_mode: 'custom',
          stream_resumable: resumable,
        },
      }),
    )
    await new Promise(done => setTimeout(done, 500))
    process.kill(pidOf(cluster, /nats-server .*-c|nats-server$|\/nats-server/), 'SIGKILL')
    for (const { frames, ended } of await Promise.all(streams)) {
      t.ok(ended)
      t.same(
        frames.map(frame => frame.id),
        frames.map((_, i) => i),
        'no gap, no repeat',
      )
      t.equal(frames.length, 301)
    }
    return cluster
  })
})

t.test('SIGTERM while runs execute: exit code 0, no run is interrupted', async t => {
  await survives(t, async (cluster, data) => {
    t.equal(await cluster.stop(), 0)
    return startCluster({ app: 'test/apps/basic', data })
  })
})
