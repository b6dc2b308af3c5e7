/** Runs that harm their hosts, beside runs of another graph: all end, and the others do not slow down. */
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { startRoles } from '../helpers/cluster.js'
import { lines } from '../helpers/sdk.js'
import { stepLogs } from '../helpers/steps.js'
import { until } from '../helpers/until.js'

t.setTimeout(300_000)
const HARMS = ['busy', 'exit', 'abort', 'oom', 'exception', 'rejection', 'kill', 'busy'] as const
/** The p95 of good runs is at most 1.5 times what it is alone; twice that for a busy machine. */
const FACTOR = 3
/** Below this the p95 of a run of three steps is noise. */
const LEAST_MS = 500
const CALLERS = 5

t.test('good runs beside poison runs of a graph that is isolated', async t => {
  const roles = await startRoles({ app: 'test/apps/faults', env: { WEFT_HOST_MEMORY_MB: '96' } })
  const logs = stepLogs()
  t.teardown(async () => {
    await roles.stop()
    logs.remove()
  })
  const client = lines[0]!.connect(roles.urls[0]!)
  /** The p95 in milliseconds of runs of another graph, one after the other per caller, while `on`. */
  const good = async (on: () => boolean) => {
    const ms: number[] = []
    const caller = async () => {
      while (on()) {
        const since = performance.now()
        const { done } = (await client.runs.wait(null, 'steps', { input: { steps: 3 } })) as { done: number[] }
        ms.push(performance.now() - since)
        t.same(done, [1, 2, 3])
        await sleep(50)
      }
    }
    await Promise.all(Array.from({ length: CALLERS }, caller))
    ms.sort((a, b) => a - b)
    return { count: ms.length, p95: ms[Math.floor(ms.length * 0.95)]! }
  }
  const forMs = (duration: number) => {
    const end = Date.now() + duration
    return () => Date.now() < end
  }
  const poison = async (harm: string, ms: number) => {
    const { thread_id } = await client.threads.create()
    const input = { log: logs.log().file, steps: 3, at: 2, harm, ms }
    const { run_id } = await client.runs.create(thread_id, 'poison', { input })
    const status = async () => (await client.runs.get(thread_id, run_id)).status
    await until(async () => !['pending', 'running'].includes(await status()), 120_000)
    return `${harm}: ${await status()}`
  }

  // The first harm shows which graph it is; runs that share its host then wait for it.
  await poison('busy', 1_500)
  await good(forMs(3_000))
  const alone = await good(forMs(6_000))
  let ended = false
  const all = Promise.all(HARMS.map(harm => poison(harm, 3_000))).finally(() => (ended = true))
  const beside = await good(() => !ended)
  t.comment(JSON.stringify({ alone, beside }))
  t.ok(beside.count > CALLERS, `${beside.count} good runs ended meanwhile`)
  t.ok(beside.p95 <= FACTOR * Math.max(alone.p95, LEAST_MS), `p95 ${beside.p95} ms beside ${alone.p95} ms alone`)
  t.same(
    (await all).sort(),
    HARMS.map(harm => (harm === 'busy' ? 'busy: success' : `${harm}: error`)).sort(),
    'each poison run has its own end',
  )
})
