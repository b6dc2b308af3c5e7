/** Roles with wrong clocks: what they do to delayed runs, crons and running runs, seen by a client with a right clock. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Proc, Roles } from '../helpers/cluster.js'
import { lines } from '../helpers/sdk.js'
import { stepLogs } from '../helpers/steps.js'
import { until } from '../helpers/until.js'

export const SKEW_MS = 600_000
/** Earlier than this is early. The broker's clock is read over the network, so it is right by milliseconds. */
export const EARLY_MS = 1_000
const DELAY_S = 3
const EVERY_MS = 2_000

/** The environment of a process whose clock is ahead by this. */
export const clockEnv = (ahead_ms: number) => ({
  NODE_OPTIONS: `--import ${new URL('../helpers/clock-offset.js', import.meta.url).href}`,
  WEFT_TEST_CLOCK_MS: `${ahead_ms}`,
})

export interface Skewed {
  delayed: number
  /** Milliseconds between the due time and the first step: the earliest and the latest. */
  earliest: number
  latest: number
  /** Runs that executed a step twice. */
  repeated: number
  running: number
  /** Firings of crons, and those before their time (ms of the worst). */
  firings: number
  earlyFiring: number
  /** Values of weft_clock_ahead_seconds. */
  metrics: number[]
}

/** `workers`: resource workers whose figures are waited for. Creates delayed runs, running runs and crons for `seconds`, on the app test/apps/faults with WEFT_CRON_SECONDS. */
export async function underSkew(
  roles: Roles,
  { delayed, running, seconds, workers = 1 }: { delayed: number; running: number; seconds: number; workers?: number },
): Promise<Skewed> {
  const url = roles.urls[0]!
  const client = lines[0]!.connect(url)
  const logs = stepLogs()
  try {
    const { cron_id } = (await client.crons.create('steps', {
      schedule: `*/${EVERY_MS / 1_000} * * * * *`,
      input: { steps: 1 },
    })) as unknown as { cron_id: string }
    const long = Array.from({ length: running }, () => logs.log())
    const steps = Math.ceil(seconds / 0.3)
    const created = await Promise.all(
      long.map(async ({ file }) => {
        const { thread_id } = await client.threads.create()
        const input = { log: file, steps, ms: 300 }
        return client.runs.create(thread_id, 'steps', { input, config: { recursion_limit: steps + 10 } })
      }),
    )
    const off: number[] = []
    const waiting: Promise<void>[] = []
    for (let i = 0; i < delayed; i++) {
      const log = logs.log()
      const { thread_id } = await client.threads.create()
      const asked = process.hrtime.bigint()
      await client.runs.create(thread_id, 'steps', { input: { log: log.file, steps: 1 }, afterSeconds: DELAY_S })
      const begun = async () => {
        // The only worker that fires may have the right clock behind these seconds.
        const [first] = await log.begun(1, seconds * 1_000 + 60_000)
        off.push(Number(first!.at - asked) / 1e6 - DELAY_S * 1_000)
      }
      waiting.push(begun())
      await sleep((seconds * 1_000) / delayed)
    }
    await Promise.all(waiting)
    for (const { thread_id, run_id } of created)
      await until(async () => (await client.runs.get(thread_id, run_id)).status === 'success', 60_000)
    const repeated = long.filter(log => new Set(log.steps()).size < log.steps().length).length
    const answer = await fetch(`${url}/runs/crons/${cron_id}/firings`)
    const fired = (await answer.json()) as { scheduled_at: string; fired_at: string }[]
    const early = fired.map(({ scheduled_at }) => Date.parse(scheduled_at) - Date.now())
    let metrics: number[] = []
    // A worker that is busy at the moment is left out.
    await until(async () => {
      const { samples } = (await (await fetch(`${url}/metrics?format=json`)).json()) as {
        samples: { name: string; value: number }[]
      }
      metrics = samples.filter(({ name }) => name === 'weft_clock_ahead_seconds').map(({ value }) => value)
      return metrics.length >= workers
    }, 30_000)
    await client.crons.delete(cron_id)
    return {
      delayed,
      earliest: Math.min(...off),
      latest: Math.max(...off),
      repeated,
      running,
      firings: fired.length,
      earlyFiring: Math.max(0, ...early),
      metrics,
    }
  } finally {
    logs.remove()
  }
}

export const saysSo = ({ output }: Proc): boolean => output().includes('clock differs from the broker')
