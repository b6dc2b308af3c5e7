/**
 * How many runs of a tenant have started, as a record that the claim of each changes by compare-and-set (decision 116). Its
 * alarm is the moment in which the next run may start, or, when none has to wait, in which no start counts any more. So
 * whoever finds a tenant that has to wait knows that an alarm is stored which wakes its runs.
 */
import { hash } from 'node:crypto'
import { v4 } from 'uuid'
import type { Scheduling } from '../../../schemas/auth/scheduling.js'
import { jsonText } from '../../../schemas/exact.js'
import type { Store } from '../../../store/port.js'
import type { RecordRow } from '../../../store/rows/records.js'
import type { ReadyRun } from '../../../store/rows/runs.js'
import type { Step } from '../../../store/steps.js'
import { clock } from '../clock.js'
import { newRecord } from '../rows/record.js'
import { afterStart, freeAt, type Pace, restsAt, startsAt } from './pace.js'
import { rateOf } from './rules.js'

export const RATE = 'rate'

interface Body {
  tenant: string
  /** Until when its starts count (microseconds). */
  until: number
  /** More runs wait than were woken: after so many starts the alarm is due. 0: no more wait. */
  more: number
  /** The time until its alarm is repeated (ms), while runs that it woke do not start; 0 after a start. */
  again: number
  /** The last start. */
  start: string
}

/** A choice counts as a start until the claim has had this time. */
export const CHOSEN_MS = 1_000
/** The store is asked again about a tenant that has to wait. */
const PAUSED_MS = 30_000
/** An alarm that woke runs which have not started is repeated, at intervals that double. */
const [AGAIN_MS, MOST_MS] = [100, 60_000]

export interface CountedStart {
  step: Step
  /** When its alarm is due. */
  due_at: number
  /**
   * For a start that did not happen, because its claim failed or was given back. Null: it does not count, or others have
   * started since; then it does.
   */
  undo(): Promise<Step | null>
}

export interface Starts {
  paceOf(tenant: string | null): Pace | null
  /** As far as this worker knows; others may have started runs since. */
  isPaused(app: string, tenant: string): boolean
  /** Whether a run may start now; it then counts as started for a moment. */
  choose(app: string, tenant: string): Promise<boolean>
  /** When a run may start (ms); null: now. */
  freeAt(app: string, tenant: string): Promise<number | null>
  /** Counts a start at `now` (ms). Null: it has to wait. */
  count(app: string, tenant: string, now: number): Promise<CountedStart | null>
  /** Says which of the waiting runs an alarm wakes, and the step that follows. */
  due(
    row: RecordRow,
    waiting: (app: string, tenant: string, more: number) => Promise<readonly ReadyRun[]>,
  ): Promise<Due>
}

export interface Due {
  runs: ReadyRun[]
  step: Step
}

export function openStarts(scheduling: Scheduling | null, { records }: Pick<Store, 'records'>): Starts {
  /** By tenant: the starts that were chosen here, until when they count, and until when the tenant has to wait. */
  const known = new Map<string, { chosen: number; expires: number; free: number }>()

  const paceOf = (tenant: string | null) => (scheduling === null ? null : rateOf(scheduling, tenant ?? ''))
  const read = (app: string, tenant: string) => records.get(RATE, idOf(app, tenant))

  return {
    paceOf,
    isPaused: (app, tenant) => (known.get(keyOf(app, tenant))?.free ?? 0) > clock.now(),
    async choose(app, tenant) {
      const pace = paceOf(tenant)
      if (pace === null) return true
      const key = keyOf(app, tenant)
      const row = await read(app, tenant)
      const now = clock.now()
      const before = known.get(key)
      const stored = row === null ? 0 : bodyOf(row).until
      const { chosen, expires } = before !== undefined && before.expires > now ? before : { chosen: 0, expires: 0 }
      const until = Math.max(stored, chosen)
      if (known.size > MOST_KNOWN) forget(known, now)
      const isPaused = freeAt(pace, until) > now
      if (isPaused) {
        // A chosen run may not start, and a stored start may be undone.
        const free = freeAt(pace, stored) > now ? Math.min(freeAt(pace, stored), now + PAUSED_MS) : expires
        known.set(key, { chosen, expires, free })
      } else known.set(key, { chosen: afterStart(pace, until, now), expires: now + CHOSEN_MS, free: 0 })
      return !isPaused
    },
    async freeAt(app, tenant) {
      const pace = paceOf(tenant)
      const row = pace === null ? null : await read(app, tenant)
      const at = row === null ? 0 : freeAt(pace!, bodyOf(row).until)
      return at > clock.now() ? at : null
    },
    async count(app, tenant, now) {
      const pace = paceOf(tenant)!
      const row = await read(app, tenant)
      const before = row === null ? { tenant, until: 0, more: 0, again: 0, start: '' } : bodyOf(row)
      if (startsAt(pace, before.until, now) === 0) return null
      const start = v4()
      const until = afterStart(pace, before.until, now)
      const body = { ...before, until, more: before.more > 1 ? before.more - 1 : before.more, again: 0, start }
      const free = freeAt(pace, until)
      const due_at = free > now ? free : before.more === 1 ? now : restsAt(until)
      const id = idOf(app, tenant)
      // A record that was removed since it was read, and inserted again, has another revision.
      const rev = row?.rev ?? now
      const step: Step =
        row === null
          ? { step: 'records.insert', row: newRecord(RATE, id, { app, rev, due_at, body: jsonText(body) }) }
          : patch(row, body, due_at)
      const undo = async () => {
        const row = await read(app, tenant)
        // Its alarm wakes what had to wait for the start, or removes the record.
        return row === null || bodyOf(row).start !== start ? null : patch(row, { ...before, more: 1 }, now)
      }
      return { step, due_at, undo }
    },
    async due(row, waiting) {
      const body = bodyOf(row)
      const pace = paceOf(body.tenant)
      const now = clock.now()
      const starts = pace === null ? 0 : startsAt(pace, body.until, now)
      const runs = pace === null ? [] : await waiting(row.app, body.tenant, starts)
      if (pace !== null && runs.length > 0) {
        const again = Math.min(Math.max(2 * body.again, AGAIN_MS), MOST_MS)
        const due_at = starts === 0 ? freeAt(pace, body.until) : now + again
        const step = patch(row, { ...body, more: runs.length > starts ? starts : 0, again }, due_at)
        return { runs: runs.slice(0, starts), step }
      }
      const rests = restsAt(body.until)
      if (rests > now) return { runs: [], step: patch(row, { ...body, more: 0, again: 0 }, rests) }
      return { runs: [], step: { step: 'records.remove', kind: RATE, id: row.id, where: { rev: row.rev } } }
    },
  }
}

/** Tenants that a worker remembers. */
const MOST_KNOWN = 10_000

function forget(known: Map<string, { expires: number; free: number }>, now: number): void {
  for (const [id, { expires, free }] of known) if (expires <= now && free <= now) known.delete(id)
}

/** No hash: it is asked for each waiting tenant at each choice. */
const keyOf = (app: string, tenant: string): string => `${app} ${tenant}`

const idOf = (app: string, tenant: string): string => hash('sha256', jsonText([app, tenant]))

const bodyOf = (row: RecordRow): Body => JSON.parse(row.body) as Body

const patch = ({ id, rev }: Pick<RecordRow, 'id' | 'rev'>, body: Body, due_at: number): Step => ({
  step: 'records.patch',
  kind: RATE,
  id,
  where: { rev },
  set: { body: jsonText(body), due_at, updated_at: clock.now() },
})
