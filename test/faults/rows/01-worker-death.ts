import { setTimeout as sleep } from 'node:timers/promises'
import { checkAll } from '../harness/checks.js'
import { startLoad } from '../harness/load.js'
import type { Row } from '../harness/row.js'
import { type Begin, begunIn, byKey, longestTakeover } from '../harness/witness.js'

/** A run goes on at most so long after its last node began; a node takes at most 2 s of it. */
const GAP_MS = 25_000
/** A run that was charged so many ends as error. */
const ATTEMPTS = 3
/** Outages of the broker after the last kill, and from the begin of one to that of the next. */
const OUTAGES = 7
const OUTAGE_EVERY_MS = 5_000

export const row: Row = {
  number: 1,
  name: 'Worker death mid-run',
  fault:
    'kill -9 of one of three graph workers again and again; another one takes its place after a second. After the last one ' +
    `the broker is killed ${OUTAGES} times, every ${OUTAGE_EVERY_MS / 1_000} s, and started again at once.`,
  promised:
    'Every run succeeds, except one whose worker was killed in each of its attempts: that ends as `error`. A run goes on ' +
    'from its last checkpoint on another worker within 25 s; no step whose checkpoint was stored runs again.',
  async run(stage) {
    const roles = await stage.roles()
    const seconds = stage.size(20, 60, 300)
    const every = stage.size(5, 10)
    const perSecond = 2
    const load = startLoad(stage, {
      urls: () => roles.urls,
      perSecond,
      steps: 10,
      ms: () => stage.random.between(500, stage.size(800, 2_000)),
    })
    let kills = 0
    for (const end = Date.now() + seconds * 1_000; Date.now() < end; kills++) {
      await sleep(every * 1_000)
      await stage.replace(roles, 'graphs', stage.random.between(0, 2), 1_000)
    }
    const last = performance.now()
    await stage.replace(roles, 'graphs', 0)
    for (let n = 0; n < OUTAGES; n++) {
      roles.nats.kill()
      await roles.nats.restart()
      await sleep(Math.max(0, last + (n + 1) * OUTAGE_EVERY_MS - performance.now()))
    }
    await checkAll(stage, roles, load, { statuses: ['success', 'error'] })
    const nodes = byKey(begunIn(stage.witness))
    const failed = load.items.filter(({ status }) => status === 'error')
    const unkilled = failed.filter(({ key }) => !wasAlwaysKilled(nodes.get(key) ?? []))
    stage.expect(unkilled.length === 0, `${unkilled.length} runs ended as error with attempts left`)
    const runs = [...nodes.values()]
    const gap = longestTakeover(runs)
    const moved = runs.filter(nodes => new Set(nodes.map(({ attempt }) => attempt)).size > 1).length
    stage.expectTime(gap <= GAP_MS, `a run went on ${Math.round(gap)} ms after its last node`)
    stage.expect(moved > 0, 'no run was taken over')
    const { length } = load.items
    return {
      load: `${length} runs of 10 steps, ${perSecond} a second; ${kills} kills, one every ${every} s, then one more and ${OUTAGES} outages of the broker`,
      measured: `${load.succeeded()} of ${length} succeeded, ${failed.length} lost ${ATTEMPTS} workers, ${moved} were taken over, the longest gap was ${(gap / 1_000).toFixed(1)} s`,
    }
  },
}

/** Whether so many attempts were cut within a node, the last one too. */
function wasAlwaysKilled(nodes: readonly Begin[]): boolean {
  const cut = new Set(nodes.flatMap(({ attempt, ended }) => (ended === null ? attempt : [])))
  return cut.size >= ATTEMPTS && nodes.at(-1)!.ended === null
}
