/** The scheduling of a resource worker, by the settings of its operator (decision 110). Without settings it does nothing. */
import type { Scheduling } from '../../../schemas/auth/scheduling.js'
import type { LimitKind } from '../../../schemas/runs.js'
import type { Store } from '../../../store/port.js'
import type { RecordRow } from '../../../store/rows/records.js'
import type { ReadyRun, RunRow } from '../../../store/rows/runs.js'
import type { Apps } from '../apps.js'
import { openChoice, type View } from './choice.js'
import { limitsOf, priorityOf, tenantOf } from './rules.js'
import { CHOSEN_MS, type CountedStart, type Due, openStarts } from './starts.js'

export interface Scheduler {
  isOn: boolean
  /** Whether anything limits how many runs execute. */
  hasLimits: boolean
  /** Whether anything limits how many runs start in a time. */
  hasRates: boolean
  /** The columns of a new run. Throws invalid for a priority that is none. */
  columnsOf(run: RunRow): Pick<RunRow, 'tenant' | 'priority'>
  /** The run that a free slot of the pool is for (`next` of choice.ts). */
  next(app: string, pool: string): Promise<ReadyRun | 'none' | 'later'>
  /** Whether more runs execute than a limit allows that counts this one, which was claimed before. */
  isOver(run: Counted): Promise<boolean>
  /** The first limit that a waiting run has to wait for; null: none. */
  limitOf(run: Counted): Promise<ReachedLimit | null>
  /** Whether the start of the run counts for a rate: the first one, of a tenant that has one. */
  hasRate(run: Pick<RunRow, 'tenant' | 'started_at'>): boolean
  /** Counts the start of a run that has a rate, at `now` (ms). Null: it has to wait. */
  countStart(run: Pick<RunRow, 'app' | 'tenant' | 'run_id'>, now: number): Promise<CountedStart | null>
  /** When the rate of its tenant lets the run start (ms); null: now. */
  freeAt(run: Pick<RunRow, 'app' | 'tenant' | 'started_at'>): Promise<number | null>
  /** Says which runs the alarm of a rate wakes, and the step that follows (starts.ts). */
  due(row: RecordRow): Promise<Due>
}

type Counted = Pick<RunRow, 'app' | 'tenant' | 'graph_id' | 'assistant_id' | 'key_id'>

export interface ReachedLimit {
  of: LimitKind
  running: number
  most: number
}

export function openScheduler(scheduling: Scheduling | null, { runs, records }: Store, apps: Apps): Scheduler {
  const choices = new Map<string, ReturnType<typeof openChoice>>()
  const starts = openStarts(scheduling, { records })
  const { rates = {} } = scheduling ?? {}
  const hasRates = rates.tenant !== undefined || Object.keys(rates.tenants ?? {}).length > 0
  const hasRate: Scheduler['hasRate'] = run => hasRates && run.started_at === null && starts.paceOf(run.tenant) !== null
  const choiceOf = (app: string, settings: Scheduling) => {
    let choice = choices.get(app)
    if (choice === undefined) {
      choice = openChoice(settings, {
        ready: (per, tenants) => runs.ready(app, per, tenants),
        occupied: () => runs.occupied(app),
        goes: async (pool, to) => pool === to || (await apps.poolFor(app, pool)) === to,
        ...(hasRates ? { rates: ratesOf(app) } : {}),
      })
      choices.set(app, choice)
    }
    return choice
  }
  const ratesOf = (app: string): View['rates'] => ({
    isPaused: tenant => starts.isPaused(app, tenant),
    choose: tenant => (starts.paceOf(tenant) === null ? null : starts.choose(app, tenant)),
    chosen_ms: CHOSEN_MS,
  })
  /** Each limit that counts the run, with the running ones that it counts. */
  async function counted(run: Counted): Promise<ReachedLimit[]> {
    const limits = scheduling === null ? [] : limitsOf(scheduling, run)
    if (limits.length === 0) return []
    const occupied = await runs.occupied(run.app)
    return limits.map(({ of, most, counts }) => {
      let running = 0
      for (const one of occupied) if (counts(one)) running += one.count
      return { of, running, most }
    })
  }
  return {
    isOn: scheduling !== null,
    hasLimits: Object.keys(scheduling?.limits ?? {}).length > 0,
    hasRates,
    columnsOf: run =>
      scheduling === null
        ? { tenant: null, priority: 0 }
        : { tenant: tenantOf(scheduling, run), priority: priorityOf(scheduling, run) },
    next: async (app, pool) => (scheduling === null ? 'none' : choiceOf(app, scheduling).next(pool)),
    isOver: async run => (await counted(run)).some(({ running, most }) => running > most),
    limitOf: async run => (await counted(run)).find(({ running, most }) => running >= most) ?? null,
    hasRate,
    async countStart({ app, tenant, run_id }, now) {
      const counted = await starts.count(app, tenant ?? '', now)
      if (counted === null) choices.get(app)?.putBack(run_id)
      return counted
    },
    freeAt: async run => (hasRate(run) ? starts.freeAt(run.app, run.tenant ?? '') : null),
    due: row =>
      starts.due(row, async (app, tenant, more) =>
        scheduling === null ? [] : choiceOf(app, scheduling).waiting(tenant, more),
      ),
  }
}
