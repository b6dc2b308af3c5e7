import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { alive } from '../../helpers/cluster.js'
import { until } from '../../helpers/until.js'
import { checkAll } from '../harness/checks.js'
import { startLoad } from '../harness/load.js'
import type { Row } from '../harness/row.js'
import { begunIn, byKey } from '../harness/witness.js'

const parentOf = (pid: number) => Number(/^PPid:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1])

export const row: Row = {
  number: 10,
  name: 'Zombie worker',
  fault: 'SIGSTOP of one of two graph workers until its runs were taken over and have ended; then SIGCONT.',
  promised:
    'The old attempts change nothing when their worker continues: threads, states and runs stay as the new attempts left ' +
    'them. An old attempt executes one node beside the new one at most, and no node after SIGCONT.',
  async run(stage) {
    const roles = await stage.roles({ graphs: 2, env: { N_JOBS_PER_WORKER: '60' } })
    const runs = stage.size(12, 50)
    const load = startLoad(stage, { urls: () => roles.urls, perSecond: 20, most: runs, steps: 12, ms: 700, follow: 2 })
    await load.created()
    await until(() => byKey(begunIn(stage.witness)).size === load.items.length)
    const [zombie] = roles.graphs as [(typeof roles.graphs)[number]]
    const held = begunIn(stage.witness).filter(({ pid }) => alive(pid) && parentOf(pid) === zombie.pid)
    const hosts = [...new Set(held.map(({ pid }) => pid))]
    const taken = new Set(held.map(({ key }) => key)).size
    stage.pause(zombie)
    await load.settle()
    const path = ({ thread_id }: { thread_id: string }) => `/threads/${thread_id}`
    const read = (item: (typeof load.items)[number], rest: string) =>
      stage.ledger.call({ url: roles.urls[0]!, method: 'GET', path: path(item) + rest }).then(({ body }) => body)
    const records = async () =>
      JSON.stringify(
        await Promise.all(
          load.items.map(async item => [await read(item, ''), await read(item, '/state'), await read(item, '/runs')]),
        ),
      )
    const before = await records()
    const continued = process.hrtime.bigint()
    stage.resume(zombie)
    // Its heartbeats and saves are answered after this time.
    await sleep(8_000)
    const isSame = (await records()) === before
    stage.expect(isSame, 'the records changed when the old worker continued')
    const late = begunIn(stage.witness).filter(({ at }) => at > continued).length
    stage.expect(late === 0, `${late} nodes began after SIGCONT`)
    stage.expect(taken > 0, 'the paused worker had no run')
    await checkAll(stage, roles, load)
    const moved = [...byKey(begunIn(stage.witness)).values()].filter(nodes => nodes.some(({ attempt }) => attempt > 1))
    const { length } = load.items
    return {
      load: `${length} runs of 12 steps, ${taken} of them on the paused worker in ${hosts.length} hosts`,
      measured: `${moved.length} runs were taken over; records ${isSame ? 'unchanged' : 'changed'}, ${late} nodes after SIGCONT`,
    }
  },
}
