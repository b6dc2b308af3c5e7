import { openLink } from '../../../bus/connect.js'
import { openLog } from '../../../bus/log.js'
import { openMux } from '../../../bus/mux.js'
import { wake } from '../../../bus/queue.js'
import { token } from '../../../schemas/ids.js'
import { checkAll } from '../harness/checks.js'
import { startLoad } from '../harness/load.js'
import type { Row } from '../harness/row.js'
import { begunIn } from '../harness/witness.js'

export const row: Row = {
  number: 9,
  name: 'Duplicate delivery',
  fault: 'Every wake-up is published three times more: once with its own message id, twice with others.',
  promised: 'Every run is executed once.',
  async run(stage) {
    // Without the hand-over every run goes through the work queue (decision 052).
    const roles = await stage.roles({ env: { WEFT_HAND_OVER: 'false' } })
    const runs = stage.size(60, 500)
    const link = await openLink({
      url: roles.nats.url('resources'),
      role: 'resources',
      log: openLog('faults', 'silent'),
    })
    const mux = openMux(link)
    stage.defer(async () => {
      mux.close()
      await link.close()
    })
    const load = startLoad(stage, { urls: () => roles.urls, perSecond: 40, most: runs, steps: 5, ms: 40, follow: 20 })
    const doubled = new Set<string>()
    let over = false
    const double = async () => {
      for (const { run_id, thread_id } of load.accepted()) {
        if (doubled.has(run_id!)) continue
        doubled.add(run_id!)
        for (const id of [`${run_id}:1`, `${run_id}:x`, `${run_id}:y`])
          await wake(link, mux, token('pool', 'default'), { run_id: run_id!, thread_id }, id)
      }
    }
    const doubling = (async () => {
      while (!over || doubled.size < load.accepted().length) {
        await double()
        await new Promise(done => setTimeout(done, 5))
      }
    })()
    await load.created()
    over = true
    await doubling
    await checkAll(stage, roles, load)
    const nodes = begunIn(stage.witness)
    const expected = load.items.length * 5
    stage.expect(nodes.length === expected, `${nodes.length} executions of ${expected} steps`)
    return {
      load: `${load.items.length} runs of 5 steps, ${doubled.size * 3} wake-ups more`,
      measured: `${nodes.length} executions of ${expected} steps`,
    }
  },
}
