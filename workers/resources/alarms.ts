/**
 * Rows that become due at a time: delayed starts, cancels after a grace, webhooks, crons, rates. The rows are the truth. Each
 * resource worker has one timer, for the earliest row that it knows; a message reports an earlier row to the others; a
 * sweep every 10 s covers lost messages and clocks that jumped. Every worker may fire a row: a compare-and-set on the
 * row decides which one does.
 */
import type { Link } from '../../bus/connect.js'
import { announceAlarm, onAlarm } from '../../bus/events.js'
import type { Store } from '../../store/port.js'
import type { RecordRow } from '../../store/rows/records.js'
import type { RunSummary } from '../../store/rows/runs.js'
import { clock, compareClock, MAX_OFF_MS } from './clock.js'
import type { Alarms, Deps } from './context.js'
import { fireCron } from './crons/fire.js'
import { CRON } from './crons/record.js'
import { cancelDue } from './runs/cancel.js'
import { wakePaced, wakeRun } from './runs/wake.js'
import { deliver } from './runs/webhooks.js'
import { RATE } from './scheduling/starts.js'

interface Kind<Row> {
  name: string
  /** Absent: always. */
  isUsed?: (deps: Deps) => boolean
  /** Rows that are due at `until` (ms), earliest first. */
  due: (store: Store, until: number, limit: number) => Promise<Row[]>
  at: (row: Row) => number
  id: (row: Row) => string
  /** Removes the row from the due ones by compare-and-set and does the work. False: another worker was faster. */
  fire: (deps: Deps, row: Row) => Promise<boolean>
}

const kind = <Row>(one: Kind<Row>): Kind<never> => one as unknown as Kind<never>

const KINDS: readonly Kind<never>[] = [
  // Wakes delayed runs.
  kind<RunSummary>({
    name: 'starts',
    due: (store, until, limit) => store.runs.startsDue(until, limit),
    at: run => run.due_at,
    id: run => run.run_id,
    fire: start,
  }),
  // Cancels runs whose client did not come back within the grace.
  kind<RunSummary>({
    name: 'cancels',
    due: (store, until, limit) => store.runs.cancelsDue(until, limit),
    at: run => run.cancel_due_at!,
    id: run => run.run_id,
    fire: async (deps, run) => {
      await cancelDue(deps, run)
      return true
    },
  }),
  // Webhooks: the first try after a crash, and every retry.
  kind<RunSummary>({
    name: 'webhooks',
    due: (store, until, limit) => store.runs.webhooksDue(until, limit),
    at: run => run.webhook_due_at!,
    id: run => run.run_id,
    fire: (deps, run) => deliver(deps, run.run_id),
  }),
  // Crons: creates the run of the slot.
  kind<RecordRow>({
    name: 'crons',
    due: (store, until, limit) => store.records.due(CRON, until, limit),
    at: row => row.due_at!,
    id: row => row.id,
    fire: fireCron,
  }),
  // Rates: wakes runs of a tenant that may start now.
  kind<RecordRow>({
    name: 'rates',
    isUsed: ({ scheduler }) => scheduler.hasRates,
    due: (store, until, limit) => store.records.due(RATE, until, limit),
    at: row => row.due_at!,
    id: row => row.id,
    fire: wakePaced,
  }),
]

/** The longest timeout of a Node.js timer. */
const MAX_TIMER_MS = 2 ** 31 - 1
/** Pause before a row that is still due after it was fired (no store, no capacity) is fired again. */
const RETRY_MS = 1_000
const BATCH = 200
const CLOCK_EVERY_MS = 9_000
/** A worker that lost the last race backs off by this, so that one worker usually fires. */
const BACKOFF_MS = 50

/** `ahead`: how many ms the clock of this worker is ahead of the broker's; null when it is unknown. */
export function openAlarms(link: Link, ahead: (deps: Deps) => Promise<number | null> = askBroker): Alarms {
  let deps: Deps | null = null
  let next = Number.POSITIVE_INFINITY
  let timer: NodeJS.Timeout | undefined
  let looking: Promise<void> | null = null
  let again = false
  let backoff = 0
  let off: number | null = null
  let lastAhead: number | null = null
  let checked = Number.NEGATIVE_INFINITY

  function arm(at: number): void {
    if (deps === null || at >= next) return
    next = at
    clearTimeout(timer)
    timer = setTimeout(() => void look(), Math.min(Math.max(at - clock.now() + 1, 0) + backoff, MAX_TIMER_MS))
  }

  /** Runs one round at a time; a call during a round causes one more. */
  function look(): Promise<void> {
    again = true
    looking ??= rounds().finally(() => (looking = null))
    return looking
  }

  async function rounds(): Promise<void> {
    while (again && deps !== null) {
      again = false
      await round(deps)
    }
  }

  async function checkClock(deps: Deps): Promise<void> {
    if (performance.now() - checked < CLOCK_EVERY_MS) return
    checked = performance.now()
    const found = await ahead(deps)
    // No answer from the broker: the last result stays.
    if (found === null) return
    lastAhead = found
    const before = off
    off = Math.abs(found) > MAX_OFF_MS ? Math.round(found) : null
    if (off !== null) link.log.error({ ahead_ms: off }, 'clock differs from the broker: this worker fires nothing')
    else if (before !== null) link.log.info('clock agrees with the broker again')
  }

  async function round(deps: Deps): Promise<void> {
    clearTimeout(timer)
    next = Number.POSITIVE_INFINITY
    await checkClock(deps)
    // The next sweep checks again.
    if (off !== null) return
    const found = await Promise.all(
      KINDS.filter(({ isUsed }) => isUsed?.(deps) ?? true).map(one =>
        fireKind(deps, one).catch(error => {
          link.log.warn({ err: error, alarm: one.name }, 'due rows could not be read')
          return { next: clock.now() + RETRY_MS, won: 0, lost: 0 }
        }),
      ),
    )
    if (found.some(({ lost }) => lost > 0)) backoff = Math.round(BACKOFF_MS * (1 + Math.random()))
    else if (found.some(({ won }) => won > 0)) backoff = 0
    arm(Math.min(...found.map(({ next }) => next)))
  }

  const unsubscribe = onAlarm(link, arm)
  return {
    set(at) {
      // All workers know an earlier alarm: the one that fires it finds this row.
      if (at >= next) return
      announceAlarm(link, at)
      arm(at)
    },
    look,
    off: () => off,
    ahead: () => lastAhead,
    start(given) {
      deps = given
      void look()
    },
    stop() {
      deps = null
      clearTimeout(timer)
      unsubscribe()
    },
  }
}

const askBroker = ({ mux }: Deps): Promise<number | null> => compareClock(mux)

/** Fires all due rows of the kind. `next`: when the next row is due (ms), or Infinity. */
async function fireKind(deps: Deps, { name, due, at, id, fire }: Kind<never>) {
  const rows = await due(deps.store, clock.now(), BATCH)
  const fired = await Promise.all(
    rows.map(row =>
      fire(deps, row).catch(error => {
        deps.link.log.warn({ err: error, alarm: name }, 'an alarm failed and is repeated')
        return null
      }),
    ),
  )
  const [won, lost] = [true, false].map(outcome => fired.filter(one => one === outcome).length) as [number, number]
  const [left] = await due(deps.store, Number.MAX_SAFE_INTEGER, 1)
  if (left === undefined) return { next: Number.POSITIVE_INFINITY, won, lost }
  const stuck = rows.some(row => id(row) === id(left) && at(row) === at(left))
  return { next: stuck ? Math.max(at(left), clock.now() + RETRY_MS) : at(left), won, lost }
}

/** Wakes a delayed run that is due. Storing that its alarm fired comes first, so that only one worker wakes it. */
export async function start(deps: Deps, run: RunSummary): Promise<boolean> {
  const { run_id, due_at } = run
  const failed = await deps.store.apply([
    {
      step: 'runs.patch',
      run_id,
      where: { status: ['pending'], due_at },
      set: { due_at: 0, updated_at: clock.now() },
    },
  ])
  if (failed === -1) void wakeRun(deps, run, `${run_id}:${run.attempt + 1}`)
  return failed === -1
}
