import { checkAll } from '../harness/checks.js'
import { startLoad } from '../harness/load.js'
import type { Row } from '../harness/row.js'
import { begunIn } from '../harness/witness.js'

export const row: Row = {
  number: 3,
  name: 'A long node is not executed again',
  fault: 'Nodes that take longer than every lease, half of them in a loop that blocks the event loop of their host.',
  promised: 'Each node executes exactly once, however long it takes.',
  async run(stage) {
    const roles = await stage.roles({ graphs: 2 })
    // Leases end after 12 s without a heartbeat, wake-ups are delivered again after 15 s.
    const ms = stage.size(20_000, 20_000, 600_000)
    const each = stage.size(2, 10)
    const options = { urls: () => roles.urls, perSecond: 5, steps: 1, ms, most: each, follow: 2 }
    const loads = [startLoad(stage, options), startLoad(stage, { ...options, how: 'busy', most: stage.size(1, 2) })]
    for (const load of loads) await load.created()
    // Nodes of one host that block it are executed one after the other, and hold up those that wait.
    for (const load of loads) await load.settle(ms * 3 + 120_000)
    for (const load of loads) await checkAll(stage, roles, load)
    const runs = loads.reduce((sum, { items }) => sum + items.length, 0)
    const nodes = begunIn(stage.witness).length
    stage.expect(nodes === runs, `${nodes} executions of ${runs} nodes`)
    return {
      load: `${loads[0]!.items.length} nodes that wait and ${loads[1]!.items.length} that block, ${ms / 1_000} s each`,
      measured: `${nodes} executions of ${runs} nodes`,
    }
  },
}
