import { rmSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { allGone, startCluster } from '../helpers/cluster.js'
import { survives } from './survives.js'

t.setTimeout(280_000)

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
