import { setTimeout as sleep } from 'node:timers/promises'
import { collectingEnv, keptBy } from '../../helpers/processes.js'
import { type StepLog, stepLogs } from '../../helpers/steps.js'
import { until } from '../../helpers/until.js'
import { checkAll } from '../harness/checks.js'
import { type Follower, followRun } from '../harness/follow.js'
import { quantile } from '../harness/ledger.js'
import { type Item, type Load, startLoad } from '../harness/load.js'
import type { Row } from '../harness/row.js'
import { shortRuns } from '../harness/short-runs.js'
import type { Stage } from '../harness/stage.js'
import { begunIn, byKey } from '../harness/witness.js'

/**
 * The harm of the graph, how its runs end, and the reason that their streams give. No fork bomb is injected: processes of a graph
 * have no limit of their own (docs/promises.md), so that it would harm the machine, which others share.
 */
const HARMS = [
  { harm: 'busy', status: 'timeout', error: /RunTimeout/ },
  { harm: 'exit', status: 'error', error: /ProcessExit.* 3 attempts/ },
  { harm: 'oom', status: 'error', error: /OutOfMemory.* 3 attempts/ },
  { harm: 'rejection', status: 'error', error: /UnhandledRejection.* 3 attempts/ },
  { harm: 'flood', status: 'success', error: null },
] as const
const LIMIT_S = 5
/** Bytes of one run: 200 MB of six runs. */
const FLOOD_MB = 33
const FACTOR = 1.5
/** Below this the p95 of a run of five steps is noise. */
const LEAST_MS = 500
const SHARE = 0.1
const GOOD_PER_SECOND = 5
const ENDED_MS = 180_000
const NAMES = ['worker', 'edge'] as const
/** Events of runs that have ended are kept so long for streams that are not resumable. */
const RINGS_MS = 62_000

export const row: Row = {
  number: 26,
  name: 'Poison graphs',
  fault:
    `A tenth of the runs loop without end, exit, run out of a heap of 96 MB, leave a rejection unhandled, or log ${FLOOD_MB} MB. ` +
    'No fork bomb is injected: nothing limits the processes of a graph, so it would harm the machine and not the server.',
  promised:
    `All other runs succeed, their p95 is ≤ ${FACTOR} times what it is alone, from the second loop ` +
    `of a graph on: the first one holds up the runs of its host and isolates the graph. Poison runs end as \`error\` with a reason after three ` +
    `attempts that are charged to them, endless loops as \`timeout\` after ${LIMIT_S} s (\`BG_JOB_TIMEOUT_SECS\`), those that only log as ` +
    `\`success\`. Afterwards worker and edge keep ${SHARE * 100} % more memory than before at most, a minute after the last run and after a garbage collection.`,
  async run(stage) {
    const [good, bad] = [stage.size(100, 100, 300), stage.size(10, 10, 30)]
    const env = {
      ...collectingEnv,
      WEFT_HOST_MEMORY_MB: '96',
      BG_JOB_TIMEOUT_SECS: `${LIMIT_S}`,
      N_JOBS_PER_WORKER: '100',
    }
    const roles = await stage.roles({ edges: 1, graphs: 1, env })
    const logs = stepLogs()
    stage.defer(() => logs.remove())
    const url = roles.urls[0]!
    const watched = [roles.graphs[0]!.pid, roles.edges[0]!.pid]
    // The heaps of the processes grow to their usual size.
    const unmade = await shortRuns(stage, url, stage.size(2_000, 5_000, 10_000))
    stage.expect(unmade === 0, `${unmade} runs failed before`)
    const options = { urls: () => roles.urls, perSecond: GOOD_PER_SECOND, most: good, steps: 5, ms: 50 }
    /** Makes these runs; resolves to the memory that is kept after them. */
    const keptAfter = async (load: Load) => {
      await load.created()
      await load.settle()
      await sleep(RINGS_MS)
      return keptBy(watched)
    }
    const first = startLoad(stage, options)
    const before = await keptAfter(first)
    const alone = quantile(durations(stage, first.items), 0.95)

    const begin = async ({ harm, status, error }: (typeof HARMS)[number]): Promise<Poison> => {
      const log = logs.log()
      const input = { log: log.file, steps: 3, at: 2, harm, mb: FLOOD_MB }
      const { body: thread } = await stage.ledger.call<{ thread_id: string }>({ url, path: '/threads', body: {} })
      const path = `/threads/${thread!.thread_id}/runs`
      const body = { assistant_id: 'poison', input, stream_resumable: true, on_disconnect: 'continue' }
      const { body: run } = await stage.ledger.call<{ run_id: string }>({ url, path, body })
      const at = `${path}/${run!.run_id}`
      return { harm, status, error, log, path: at, follower: followRun(() => url, `${at}/stream`) }
    }
    const opening = startLoad(stage, { ...options, most: LIMIT_S * GOOD_PER_SECOND })
    const poison = [await begin(HARMS[0])]
    await opening.created()
    await opening.settle()
    await ended(stage, url, poison[0]!.path)

    const load = startLoad(stage, options)
    for (let n = 0; n < bad; n++) {
      poison.push(await begin(HARMS[n % HARMS.length]!))
      await sleep((good * 1_000) / GOOD_PER_SECOND / bad)
    }
    await load.created()
    const counts = new Map<string, number>()
    let executed = 0
    for (const { harm, status: expected, error, log, path, follower } of poison) {
      const status = await ended(stage, url, path)
      const { seen } = follower
      await streamEnd(follower)
      const said = seen.error === undefined ? null : JSON.stringify(seen.error)
      stage.expect(status === expected, `${harm}: a run is ${status}`)
      stage.expect(error === null ? said === null : said !== null && error.test(said), `${harm}: the reason is ${said}`)
      executed = Math.max(executed, log.steps().filter(step => step === 2).length)
      const name = `${harm} ${status}`
      counts.set(name, (counts.get(name) ?? 0) + 1)
    }
    for (const all of [first, opening, load]) await checkAll(stage, roles, all)
    const last = startLoad(stage, options)
    const after = await keptAfter(last)
    await checkAll(stage, roles, last)
    const held = quantile(durations(stage, opening.items), 1)
    const p95 = quantile(durations(stage, load.items), 0.95)
    stage.expect(
      p95 <= FACTOR * Math.max(alone, LEAST_MS),
      `p95 ${Math.round(p95)} ms beside ${Math.round(alone)} ms alone`,
    )
    const memory: string[] = []
    for (const [n, name] of NAMES.entries()) {
      const figures = `${name} ${Math.round(after[n]!)} MB, ${Math.round(before[n]!)} MB before`
      stage.expect(after[n]! <= before[n]! * (1 + SHARE), figures)
      memory.push(figures)
    }
    const found = [...counts].map(([name, n]) => `${n} × ${name}`).join(', ')
    return {
      load: `${load.items.length} runs at ${GOOD_PER_SECOND} a second alone, then the same with ${bad} poison runs among them, after a first one`,
      measured:
        `${load.succeeded()} of ${load.items.length} others succeeded, p95 ${Math.round(p95)} ms beside ${Math.round(alone)} ms alone ` +
        `(${Math.round(held)} ms at most beside the first loop); ${found}; a harmful node began ${executed} times at most; ${memory.join('; ')}`,
    }
  },
}

interface Poison {
  harm: string
  /** The status and the reason that its run must end with. */
  status: string
  error: RegExp | null
  log: StepLog
  path: string
  follower: Follower
}

/** Milliseconds from the create of each run to the end of its last node. */
function durations({ witness }: Stage, items: readonly Item[]): number[] {
  const nodes = byKey(begunIn(witness))
  const origin = Number(process.hrtime.bigint()) / 1e6 - performance.now()
  return items.flatMap(({ key, sent }) => {
    const last = nodes.get(key)?.at(-1)?.ended
    return last ? Number(last) / 1e6 - origin - sent : []
  })
}

async function ended({ ledger }: Stage, url: string, path: string): Promise<string> {
  return until(async () => {
    const { body } = await ledger.call<{ status: string }>({ url, method: 'GET', path })
    return body !== undefined && !['pending', 'running'].includes(body.status) && body.status
  }, ENDED_MS).catch(() => 'not ended')
}

/** A stream ends within 5 s of its run (row 35). */
async function streamEnd({ ended, stop }: Follower): Promise<void> {
  await Promise.race([ended, sleep(5_000)])
  stop()
}
