/** Crons of seconds, and the check that each slot has one run. */
import { v5 } from 'uuid'
import { CRON_NAMESPACE } from '../../../schemas/ids.js'
import { until } from '../../helpers/until.js'
import type { Stage } from './stage.js'

/** Roles need it for schedules with seconds. */
export const CRON_ENV = { WEFT_CRON_SECONDS: '1' }

export interface Cron {
  cron_id: string
  thread_id: string | null
  next_run_date: string | null
}

export interface Crons {
  all: Cron[]
  every_ms: number
  /** Time of the end (ms). */
  end: number
}

/** `count` crons, half of them on threads, that fire every `every_ms` for `slots` times. */
export async function makeCrons(
  stage: Stage,
  url: string,
  count: number,
  every_ms: number,
  slots: number,
): Promise<Crons> {
  const first = Math.ceil((Date.now() + 3_000 + count * 15) / every_ms) * every_ms
  const end = first + slots * every_ms
  const body = {
    assistant_id: 'witness',
    input: { file: stage.witness, key: 'cron', steps: 1 },
    schedule: `*/${every_ms / 1_000} * * * * *`,
    end_time: new Date(end).toISOString(),
    on_run_completed: 'keep',
  }
  const all: Cron[] = []
  for (let n = 0; n < count; n++) {
    let path = '/runs/crons'
    if (n % 2 === 0) {
      const { body } = await stage.ledger.call<{ thread_id: string }>({ url, path: '/threads', body: {} })
      path = `/threads/${body!.thread_id}/runs/crons`
    }
    const { outcome, body: cron } = await stage.ledger.call<Cron>({ url, path, body })
    if (outcome !== 'ok') throw new Error('a cron could not be created')
    all.push(cron!)
  }
  return { all, every_ms, end }
}

export interface Slots {
  slots: number
  runs: number
  /** Slots without a run of which the next run says that they were missed. */
  skipped: number
}

/** After the end of the crons: one run per slot, or a missed one that the next run declares. Waits for the runs. */
export async function checkCrons(stage: Stage, url: string, { all, every_ms, end }: Crons): Promise<Slots> {
  const get = async <T>(path: string) => stage.ledger.call<T>({ url, method: 'GET', path, timeout: 10_000 })
  const found: Slots = { slots: 0, runs: 0, skipped: 0 }
  let extra = 0
  let undeclared = 0
  for (const cron of all) {
    const fired = await until(async () => {
      const { outcome, body } = await get<Cron>(`/runs/crons/${cron.cron_id}`)
      return outcome === 'ok' && body!.next_run_date === null
    }, 120_000).catch(() => false)
    stage.expect(fired, `the cron ${cron.cron_id} does not end`)
    const runs: ({ metadata: { cron_late?: unknown } } | null)[] = []
    for (let slot = Date.parse(cron.next_run_date!); slot < end; slot += every_ms) {
      const run_id = v5(`${cron.cron_id}:${slot}`, CRON_NAMESPACE)
      const path = `/threads/${cron.thread_id ?? v5(run_id, CRON_NAMESPACE)}/runs/${run_id}`
      const run = await until(async () => {
        const { status, body } = await get<{ status: string; metadata: object }>(path)
        if (status === 404) return { run: null }
        return status === 200 && body!.status === 'success' && { run: body! }
      }, 90_000).catch(() => null)
      if (run === null) stage.expect(false, `the run ${run_id} of a cron has not succeeded`)
      else runs.push(run.run)
    }
    const made = runs.filter(Boolean).length
    const list =
      cron.thread_id === null
        ? await stage.ledger.call<unknown[]>({
            url,
            path: '/threads/search',
            body: { metadata: { cron_id: cron.cron_id }, limit: 1_000 },
          })
        : await get<unknown[]>(`/threads/${cron.thread_id}/runs?limit=1000`)
    if (list.body!.length !== made) extra++
    for (const [n, run] of runs.entries()) {
      const next = runs.slice(n + 1).find(Boolean)
      if (run === null && next && !next.metadata.cron_late) undeclared++
    }
    found.slots += runs.length
    found.runs += made
    found.skipped += runs.length - made
  }
  stage.expect(extra === 0, `${extra} crons have runs that belong to no slot, or two of one`)
  stage.expect(undeclared === 0, `${undeclared} missed slots are declared by no later run`)
  return found
}
