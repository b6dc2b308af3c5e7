/** Runs that are created at once are shared by idle graph workers, so that the death of one hits a part of them. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { startRoles } from '../helpers/cluster.js'
import { lines } from '../helpers/sdk.js'
import { stepLogs } from '../helpers/steps.js'

t.setTimeout(180_000)
const RUNS = 40
const parentOf = (pid: number) => Number(/^PPid:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1])

t.test('40 runs created at once are shared by two idle workers, also after one of them has worked alone', async t => {
  const roles = await startRoles({ app: 'test/apps/faults' })
  const logs = stepLogs()
  t.teardown(async () => {
    await roles.stop()
    logs.remove()
  })
  const client = lines[0]!.connect(roles.urls[0]!)
  const burst = async () => {
    const all = Array.from({ length: RUNS }, () => logs.log())
    const input = (log: { file: string }) => ({ log: log.file, steps: 2, at: 1, harm: 'hold' })
    await Promise.all(all.map(log => client.runs.create(null, 'poison', { input: input(log) })))
    const counts = new Map<number, number>()
    for (const log of all) {
      const [{ pid } = { pid: 0 }] = await log.begun(1)
      const worker = parentOf(pid)
      counts.set(worker, (counts.get(worker) ?? 0) + 1)
    }
    for (const log of all) log.release()
    return roles.graphs.concat(roles.added).map(({ pid }) => counts.get(pid) ?? 0)
  }
  for (let n = 0; n < 3; n++)
    await Promise.all(Array.from({ length: RUNS }, () => client.runs.wait(null, 'steps', { input: { steps: 3 } })))
  await roles.add('graphs')
  for (let n = 0; n < 4; n++) {
    const shares = await burst()
    t.comment(shares.join(' and '))
    t.ok(Math.min(...shares) >= RUNS / 4, `each worker has a fair share: ${shares.join(' and ')}`)
  }
})
