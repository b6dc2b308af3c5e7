/**
 * What becomes due at a time: delayed starts, cancels after a grace, webhooks, crons. The rows are the truth. Each
 * resource worker has one timer, for the earliest row it knows; a message tells the others of an earlier one; a sweep
 * looks again every 10 s, for messages that were lost and clocks that jumped. Every worker may fire a row: a
 * compare-and-set on it decides who does.
 */
import { clockAhead } from '../../bus/clock.js'
import type { Link } from '../../bus/connect.js'
import { onAlarm, tellAlarm } from '../../bus/events.js'
import type { RecordRow, RunSummary, Store } from '../../store/port.js'
import type { Alarms, Deps } from './context.js'
import { fireCron } from './crons/fire.js'
import { CRON } from './crons/record.js'
import { cancelDue } from './runs/cancel.js'
import { wakeRun } from './runs/wake.js'
import { deliver } from './runs/webhooks.js'

interface Kind<Row> {
  name: string
  /** Rows that are due at `until` (ms), earliest first. */
  due: (store: Store, until: number, limit: number) => Promise<Row[]>
  at: (row: Row) => number
  id: (row: Row) => string
  /** Takes the row out of those that are due, by compare-and-set, and does the work. False: another worker had it. */
  fire: (deps: Deps, row: Row) => Promise<boolean>
}

const kind = <Row>(one: Kind<Row>): Kind<never> => one as unknown as Kind<never>

const KINDS: readonly Kind<never>[] = [
  // Delayed runs whose time has come are woken.
  kind<RunSummary>({
    name: 'starts',
    due: (store, until, limit) => store.runs.startsDue(until, limit),
    at: run => run.due_at,
    id: run => run.run_id,
    fire: start,
  }),
  // Runs whose client has not come back within the grace are cancelled.
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
  // Webhooks: the first try after a crash, and every later one.
  kind<RunSummary>({
    name: 'webhooks',
    due: (store, until, limit) => store.runs.webhooksDue(until, limit),
    at: run => run.webhook_due_at!,
    id: run => run.run_id,
    fire: (deps, run) => deliver(deps, run.run_id),
  }),
  // Crons whose slot has come make a run.
  kind<RecordRow>({
    name: 'crons',
    due: (store, until, limit) => store.records.due(CRON, until, limit),
    at: row => row.due_at!,
    id: row => row.id,
    fire: fireCron,
  }),
]

/** The longest wait of a timer of Node. */
const MAX_TIMER_MS = 2 ** 31 - 1
/** A row that is still due after it was fired (no store, no free place) is looked at again after so long. */
const AGAIN_MS = 1_000
const BATCH = 200
/** A host whose clock differs more from the broker's fires nothing. */
const MAX_OFF_MS = 2_000
const CLOCK_EVERY_MS = 9_000
/** Who came second the last time comes so much later the next: one worker fires, the others see that it lives. */
const SECOND_MS = 50

/** `ahead`: how far the clock of this host is ahead (ms), null when that is not known. */
export function openAlarms(link: Link, ahead: (deps: Deps) => Promise<number | null> = askBroker): Alarms {
  let deps: Deps | null = null
  let next = Number.POSITIVE_INFINITY
  let timer: NodeJS.Timeout | undefined
  let looking: Promise<void> | null = null
  let again = false
  let handicap = 0
  let off: number | null = null
  let checked = Number.NEGATIVE_INFINITY

  function arm(at: number): void {
    if (deps === null || at >= next) return
    next = at
    clearTimeout(timer)
    timer = setTimeout(() => void look(), Math.min(Math.max(at - Date.now() + 1, 0) + handicap, MAX_TIMER_MS))
  }

  /** One at a time; a call while one is under way makes it go round once more. */
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
    // What the broker does not say now stays as it was.
    if (found === null) return
    const before = off
    off = Math.abs(found) > MAX_OFF_MS ? Math.round(found) : null
    if (off !== null) link.log.error({ ahead_ms: off }, 'the clock is not that of the broker: nothing is fired here')
    else if (before !== null) link.log.info('the clock is that of the broker again')
  }

  async function round(deps: Deps): Promise<void> {
    clearTimeout(timer)
    next = Number.POSITIVE_INFINITY
    await checkClock(deps)
    // The sweep looks again.
    if (off !== null) return
    const found = await Promise.all(
      KINDS.map(one =>
        fireKind(deps, one).catch(error => {
          link.log.warn({ err: error, alarm: one.name }, 'what is due could not be looked up')
          return { next: Date.now() + AGAIN_MS, won: 0, lost: 0 }
        }),
      ),
    )
    if (found.some(({ lost }) => lost > 0)) handicap = Math.round(SECOND_MS * (1 + Math.random()))
    else if (found.some(({ won }) => won > 0)) handicap = 0
    arm(Math.min(...found.map(({ next }) => next)))
  }

  const unsubscribe = onAlarm(link, arm)
  return {
    set(at) {
      // An earlier alarm is known to all: who fires it finds this one.
      if (at >= next) return
      tellAlarm(link, at)
      arm(at)
    },
    look,
    off: () => off,
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

const askBroker = ({ mux }: Deps): Promise<number | null> => clockAhead(mux)

/** Fires all rows of the kind that are due. `next`: when there is one more (ms), or Infinity. */
async function fireKind(deps: Deps, { name, due, at, id, fire }: Kind<never>) {
  const rows = await due(deps.store, Date.now(), BATCH)
  const fired = await Promise.all(
    rows.map(row =>
      fire(deps, row).catch(error => {
        deps.link.log.warn({ err: error, alarm: name }, 'an alarm has to be repeated')
        return null
      }),
    ),
  )
  const [won, lost] = [true, false].map(outcome => fired.filter(one => one === outcome).length) as [number, number]
  const [left] = await due(deps.store, Number.MAX_SAFE_INTEGER, 1)
  if (left === undefined) return { next: Number.POSITIVE_INFINITY, won, lost }
  const stuck = rows.some(row => id(row) === id(left) && at(row) === at(left))
  return { next: stuck ? Math.max(at(left), Date.now() + AGAIN_MS) : at(left), won, lost }
}

/** The time of a delayed run has come: that its alarm went off is stored first, so only one worker wakes it. */
export async function start(deps: Deps, run: RunSummary): Promise<boolean> {
  const { run_id, due_at } = run
  const failed = await deps.store.apply([
    {
      step: 'runs.patch',
      run_id,
      where: { status: ['pending'], due_at },
      set: { due_at: 0, updated_at: Date.now() },
    },
  ])
  if (failed === -1) void wakeRun(deps, run, `${run_id}:${run.attempt + 1}`)
  return failed === -1
}
