/**
 * Which waiting run gets a slot that became free (decision 110): that of the highest priority, in it that of the tenant with
 * the fewest running runs for its weight. The view of the store is a few hundred milliseconds old and corrected by what was
 * chosen here since; what it gets wrong costs fairness for a moment. Limits are checked again when the run is claimed.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Scheduling } from '../../../schemas/auth/scheduling.js'
import type { OccupiedSlots, ReadyRun } from '../../../store/rows/runs.js'
import { limitsOf, weightOf } from './rules.js'

/** Questions to the store. */
export interface View {
  ready(per: number, tenants: number): Promise<ReadyRun[]>
  occupied(): Promise<OccupiedSlots[]>
  /** Whether runs that were accepted for the pool go to `to` now. */
  goes(pool: string, to: string): Promise<boolean>
  /** The rates of tenants; absent: there are none. */
  rates?: {
    /** Whether no run of the tenant may start, as far as is known. */
    isPaused(tenant: string): boolean
    /** Whether a run of the tenant may start; it then counts as started for `chosen_ms`. Null: the tenant has no rate. */
    choose(tenant: string): Promise<boolean> | null
    chosen_ms: number
  }
}

/** The view is read again after this time; earlier, when it has no run that may start. */
const OLD_MS = 200
const YOUNG_MS = 10
/** A chosen run that is still waiting after this time may be chosen again: its claim came to nothing. */
const CHOSEN_MS = 5_000
/** Runs that one view holds, shared by the tenants that the last one had, and how many of each it holds at least. */
const RUNS = 1_000
const LEAST = 4
const TENANTS = 2_000

interface Tenant {
  name: string
  waiting: ReadyRun[]
  running: number
  /** The number of its last start. */
  served: number
}

/** The choice for one application. `now`: milliseconds of a clock that never jumps. */
export function openChoice(scheduling: Scheduling, view: View, now = () => performance.now()) {
  const chosen = new Map<string, { run: ReadyRun; until: number }>()
  const served = new Map<string, number>()
  let tenants: Tenant[] = []
  /** All waiting runs of the view by tenant, the chosen ones, too. */
  let groups = new Map<string, ReadyRun[]>()
  let occupied: OccupiedSlots[] = []
  let at = Number.NEGATIVE_INFINITY
  let reading: Promise<void> | null = null
  let starts = 0
  let waits: ReadonlySet<string> = new Set()

  async function read(): Promise<void> {
    // In this order: a run that is claimed in between is counted twice for a moment, and not forgotten.
    const ready = await view.ready(Math.max(LEAST, Math.floor(RUNS / Math.max(1, tenants.length))), TENANTS)
    occupied = await view.occupied()
    at = now()
    waits = new Set(ready.map(({ run_id }) => run_id))
    for (const [id, { until }] of chosen) if (until < at || !waits.has(id)) chosen.delete(id)
    groups = new Map()
    for (const run of ready) {
      const name = run.tenant ?? ''
      groups.set(name, [...(groups.get(name) ?? []), run])
    }
    for (const name of served.keys()) if (!groups.has(name)) served.delete(name)
    tenants = [...groups].map(([name, waiting]) => ({
      name,
      waiting: waiting.filter(({ run_id }) => !chosen.has(run_id)),
      running: count(other => (other.tenant ?? '') === name),
      served: served.get(name) ?? 0,
    }))
  }

  const refresh = () => {
    reading ??= read().finally(() => {
      reading = null
    })
    return reading
  }

  /** The running and the chosen runs that a limit counts. */
  function count(counts: (other: Omit<OccupiedSlots, 'count'>) => boolean): number {
    let sum = 0
    for (const one of occupied) if (counts(one)) sum += one.count
    for (const { run } of chosen.values()) if (counts(run)) sum++
    return sum
  }

  const refreshed = async () => {
    // What is being read may be older than this call.
    await reading
    await refresh()
  }

  const isFree = (run: ReadyRun) => limitsOf(scheduling, run).every(({ most, counts }) => count(counts) < most)

  /** Without a pause: two calls never choose one run. */
  function take(pools: ReadonlySet<string>): ReadyRun | null {
    let found: { tenant: Tenant; run: ReadyRun; share: number } | null = null
    for (const tenant of tenants) {
      const isPaused = view.rates?.isPaused(tenant.name) ?? false
      const share = tenant.running / weightOf(scheduling, tenant.name)
      for (const run of tenant.waiting) {
        if (found !== null && !isBefore({ tenant, run, share }, found)) break
        if (!pools.has(run.pool) || (isPaused && isFirst(run)) || !isFree(run)) continue
        found = { tenant, run, share }
        break
      }
    }
    if (found === null) return null
    const { tenant, run } = found
    tenant.waiting = tenant.waiting.filter(one => one !== run)
    tenant.running++
    tenant.served = ++starts
    served.set(tenant.name, starts)
    chosen.set(run.run_id, { run, until: now() + CHOSEN_MS })
    return run
  }

  async function best(pool: string): Promise<ReadyRun | null> {
    const pools = new Set(tenants.flatMap(({ waiting }) => waiting.map(run => run.pool)))
    for (const one of pools) if (!(await view.goes(one, pool))) pools.delete(one)
    for (;;) {
      const run = take(pools)
      const mayStart = run === null || !isFirst(run) ? null : view.rates?.choose(run.tenant ?? '')
      if (run === null || mayStart == null) return run
      if (await mayStart) {
        chosen.set(run.run_id, { run, until: now() + view.rates!.chosen_ms })
        return run
      }
      putBack(run)
    }
  }

  /** It is as if the run had not been chosen. */
  function putBack(run: ReadyRun): void {
    if (!chosen.delete(run.run_id)) return
    const tenant = tenants.find(({ name }) => name === (run.tenant ?? ''))
    if (tenant === undefined) return
    tenant.running--
    tenant.waiting = [...tenant.waiting, run].sort((a, b) => a.priority - b.priority || a.created_at - b.created_at)
  }

  return {
    /**
     * A run that a graph worker of the pool should claim. `none`: no run may start; `later`: none is left but what was chosen
     * a moment ago, which may come to nothing.
     */
    async next(pool: string): Promise<ReadyRun | 'none' | 'later'> {
      if (now() - at > OLD_MS) await refresh()
      const run = await best(pool)
      if (run !== null) return run
      // The run of a wake-up may be younger than the view.
      const age = now() - at
      if (age < YOUNG_MS) await sleep(YOUNG_MS - age)
      await refresh()
      const again = await best(pool)
      if (again !== null) return again
      for (const id of chosen.keys()) if (waits.has(id)) return 'later'
      return 'none'
    },
    /** A run that was chosen has not started, and may be chosen again. */
    putBack(run_id: string) {
      const one = chosen.get(run_id)
      if (one !== undefined) putBack(one.run)
    },
    /** Runs of the tenant that wait for their first start; all that a view can hold when they are not more than `more`. */
    async waiting(tenant: string, more: number): Promise<readonly ReadyRun[]> {
      const known = () => (groups.get(tenant) ?? []).filter(isFirst)
      const found = known()
      if (now() - at <= OLD_MS && found.length > more) return found
      await refreshed()
      return known()
    },
    /** How many tenants have runs that wait. */
    tenants: () => tenants.filter(({ waiting }) => waiting.length > 0).length,
  }
}

/** Later starts of a run count for no rate. */
const isFirst = ({ started_at }: ReadyRun): boolean => started_at === null

type Candidate = { tenant: Tenant; run: ReadyRun; share: number }

function isBefore(a: Candidate, b: Candidate): boolean {
  return (
    (a.run.priority - b.run.priority ||
      a.share - b.share ||
      a.tenant.served - b.tenant.served ||
      a.run.created_at - b.run.created_at) < 0
  )
}
