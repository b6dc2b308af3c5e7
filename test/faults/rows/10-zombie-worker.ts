import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { poolCall } from '../../../schemas/subjects.js'
import { alive } from '../../helpers/cluster.js'
import { until } from '../../helpers/until.js'
import { callProxy } from '../harness/call-proxy.js'
import { checkAll } from '../harness/checks.js'
import { startLoad } from '../harness/load.js'
import type { Row } from '../harness/row.js'
import { begunIn, byKey } from '../harness/witness.js'
import { SENDER } from '../worker-helper.js'

const parentOf = (pid: number) => Number(/^PPid:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1])

export const row: Row = {
  number: 10,
  name: 'Zombie worker',
  fault: 'SIGSTOP of one of two graph workers until its runs were taken over and have ended; then SIGCONT.',
  promised:
    'The old attempts change nothing when their worker continues: threads, states and runs stay as the new attempts left ' +
    'them. An old attempt starts no node beside the new one, and none after SIGCONT, whose first news is a heartbeat.',
  async run(stage) {
    const roles = await stage.roles({ graphs: 1, env: { N_JOBS_PER_WORKER: '60' } })
    const calls = await callProxy(roles.nats.url('graphs'))
    stage.defer(() => calls.stop())
    const zombie = await roles.add('graphs', undefined, { NATS_URL: calls.url })
    const runs = stage.size(12, 50)
    // Longer than their leases are valid: nodes wait at the gate of the paused worker when it continues.
    const load = startLoad(stage, {
      urls: () => roles.urls,
      perSecond: 20,
      most: runs,
      steps: 12,
      ms: 1_300,
      follow: 2,
    })
    await load.created()
    await until(() => byKey(begunIn(stage.witness)).size === load.items.length)
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
    // The refusal of a save would stop its run, too.
    calls.hold(poolCall(SENDER, 'checkpoints', 'save'))
    stage.resume(zombie)
    // Its heartbeats, and then its saves, are answered after this time.
    await sleep(8_000)
    calls.pass()
    await sleep(2_000)
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
