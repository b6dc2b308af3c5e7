import t from 'tap'
import { type Cluster, startCluster } from '../helpers/cluster.js'
import { commandLineOf } from '../helpers/processes.js'
import { readStream } from '../helpers/sse.js'
import { until } from '../helpers/until.js'
import { survives, untilServed } from './survives.js'

t.setTimeout(280_000)
const pidOf = (cluster: Cluster, name: RegExp) => cluster.pids().find(pid => name.test(commandLineOf(pid)))!

t.test('kill -9 of the process with all roles: the launcher restarts it and runs continue', async t => {
  await survives(t, async cluster => {
    const url = cluster.url
    process.kill(pidOf(cluster, /roles-main/), 'SIGKILL')
    await untilServed(async () => (await fetch(`${url}/ready`)).status === 200)
    const taken = 'runs of a process that has ended are taken over'
    await until(() => cluster.output().includes(taken), 30_000)
    t.notMatch(cluster.output().split(taken)[0], /run taken from a dead worker/, 'nobody waits for their heartbeats')
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
