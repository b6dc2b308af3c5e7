/** Graph workers are killed under load, with the default durability and two graphs in one application. */
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { startRoles } from '../helpers/cluster.js'
import { type StepLog, stepLogs } from '../helpers/steps.js'
import { finalStatuses, load } from './load.js'

t.setTimeout(180_000)
const STEPS = 10
/** A run continues at most 25 s after its worker was killed. */
const GAP_MS = 25_000

t.test('kill -9 of graph workers in turn: every run succeeds, and continues within 25 s', async t => {
  const roles = await startRoles({ app: 'test/apps/faults', graphs: 2 })
  const logs = stepLogs()
  t.teardown(async () => {
    await roles.stop()
    logs.remove()
  })
  const all: StepLog[] = []
  const next = () => {
    const log = logs.log()
    all.push(log)
    const assistant_id = all.length % 2 === 0 ? 'steps' : 'other'
    return { assistant_id, input: { log: log.file, steps: STEPS, ms: 300 } }
  }
  const { accepted, stop } = load(roles, next)
  for (let n = 0; n < 2; n++) {
    await sleep(3_000)
    roles.graphs.shift()!.kill('SIGKILL')
    roles.graphs.push(await roles.add('graphs'))
  }
  await stop()
  const states = await finalStatuses(roles.urls[0]!, accepted)
  t.same([...new Set(states)], ['success'], `${states.length} runs were accepted`)
  const gaps: number[] = []
  let moved = 0
  for (const log of all) {
    const steps = log.all()
    if (steps.length === 0) continue
    t.same(
      [...new Set(steps.map(({ step }) => step))],
      Array.from({ length: STEPS }, (_, i) => i + 1),
    )
    if (new Set(steps.map(({ pid }) => pid)).size > 1) moved++
    for (const [i, { at }] of steps.entries()) if (i > 0) gaps.push(Number(at - steps[i - 1]!.at) / 1e6)
  }
  t.ok(moved > 0, `${moved} runs were taken over`)
  const longest = Math.max(...gaps)
  t.ok(longest <= GAP_MS, `the longest gap is ${Math.round(longest)} ms`)
})
