import { setTimeout as sleep } from 'node:timers/promises'
import { checkAll } from '../harness/checks.js'
import { quantile } from '../harness/ledger.js'
import { startLoad } from '../harness/load.js'
import { killAll, startAll } from '../harness/restart.js'
import type { Row } from '../harness/row.js'
import { type Begin, begunIn, byKey } from '../harness/witness.js'

const LATE_MS = 2_000
/** The kill is so long before the first run is due. */
const BEFORE_MS = 2_000

export const row: Row = {
  number: 25,
  name: 'Delayed runs over a full restart',
  fault:
    'kill -9 of every process while runs wait for their time; they start again when some of these times have passed.',
  promised:
    `A delayed run starts once, never early, within ${LATE_MS / 1_000} s (p99) of its time or of the start if that is later. ` +
    'One that had begun before the kill may be executed again.',
  async run(stage) {
    const roles = await stage.roles({ edges: 1, graphs: 2, env: { N_JOBS_PER_WORKER: '100' } })
    const count = stage.size(60, 400, 1_000)
    const [least, most] = [stage.size(5, 20), stage.size(25, 45, 120)]
    const due = new Map<string, number>()
    const loads = Array.from({ length: most - least + 1 }, (_, n) =>
      startLoad(stage, {
        urls: () => roles.urls,
        perSecond: 100,
        steps: 1,
        ms: 5,
        follow: 20,
        most: Math.ceil(count / (most - least + 1)),
        body: { after_seconds: least + n },
      }),
    )
    for (const [n, load] of loads.entries()) {
      await load.created()
      for (const { key, sent } of load.items) due.set(key, sent + (least + n) * 1_000)
    }
    // Before the first of these times, unless the store took so long for the creates.
    const first = Math.min(...due.values())
    await sleep(Math.max(0, Math.min(stage.size(4_000, 10_000), first - performance.now() - BEFORE_MS)))
    const killed = process.hrtime.bigint()
    await killAll(stage, roles)
    await sleep(stage.size(8_000, 20_000))
    await startAll(roles)
    const up = performance.now()
    for (const load of loads) {
      // Each is settled after the last time of all.
      await load.settle(most * 1_000 + 60_000)
    }
    const items = loads.flatMap(load => load.items)
    await checkAll(stage, roles, { ...loads[0]!, items })
    const [wall, machine] = [performance.now(), process.hrtime.bigint()]
    const all = [...byKey(begunIn(stage.witness)).values()]
    const nodes = all.map(([node]) => node!)
    const begun = nodes.filter(({ at }) => at < killed)
    const isOnce = (of: readonly Begin[]) => of.length === 1 || (of.length === 2 && of[0]!.at < killed)
    const lateness = nodes.map(({ key, at }) => wall - Number(machine - at) / 1e6 - Math.max(due.get(key)!, up))
    // A run is due so long after it was accepted, which is after its create was sent.
    const early = nodes.filter(({ key, at }) => wall - Number(machine - at) / 1e6 < due.get(key)! - 5).length
    stage.expect(early === 0, `${early} runs began early`)
    const once = all.filter(isOnce).length
    stage.expect(once === items.length, `${once} of ${items.length} runs were executed as often as promised`)
    const p99 = quantile(lateness, 0.99)
    stage.expectTime(p99 <= LATE_MS, `p99 of the lateness ${Math.round(p99)} ms`)
    return {
      load: `${items.length} runs due ${least} to ${most} s after their create`,
      measured:
        `${once} of ${items.length} runs were executed once, or again after the kill; ${begun.length} had begun before the kill; ${early} early; ` +
        `${Math.round(p99)} ms late (p99)`,
    }
  },
}
