/**
 * When a cron runs (docs/spec/crons.md#schedules). A slot is one occurrence of a schedule on the wall clock of its
 * zone, in ms since the epoch.
 *
 * At clock changes: a time of day that is skipped moves to the next existing one; one that occurs twice is one slot.
 * Interval schedules (a `*` or `/` in the hours or minutes) run through both hours.
 */
import { Cron as Pattern } from 'croner'
import { fail } from '../../../schemas/errors.js'

export interface Timetable {
  schedule: string
  /** null: UTC. */
  timezone: string | null
  /** No slot at this time (ms) or later. */
  end: number | null
}

/** The first slot after `after`; null when none comes before the end. */
export function nextSlot(table: Timetable, after: number): number | null {
  const slot = patternOf(table).nextRun(new Date(after))?.getTime() ?? null
  return slot === null || (table.end !== null && slot >= table.end) ? null : slot
}

/** The first slots after `after`, at most `most`. */
export function nextSlots(table: Timetable, after: number, most: number): number[] {
  const slots = patternOf(table).nextRuns(most, new Date(after))
  return slots.map(slot => slot.getTime()).filter(slot => table.end === null || slot < table.end)
}

/** The latest slot not after `now`, if it is later than `due`; else `due`. */
export function latestSlot(table: Timetable, due: number, now: number): number {
  const [found] = patternOf(table).previousRuns(1, new Date(now + 1))
  return Math.max(due, found?.getTime() ?? due)
}

const NICKNAME = /^@(yearly|annually|monthly|weekly|daily|midnight|hourly)$/i

/** Throws `invalid` (422) unless the schedule has five fields (with `seconds`: or six) and ever occurs, in a known zone. */
export function checkTimetable({ schedule, timezone }: Omit<Timetable, 'end'>, seconds: boolean): void {
  if (timezone !== null && !isZone(timezone))
    throw fail('invalid', `timezone: expected the IANA name of a time zone such as Europe/Berlin, got "${timezone}"`)
  const fields = schedule.trim().split(/\s+/).length
  const hint = fields === 6 ? '; WEFT_CRON_SECONDS=1 allows a sixth field, the seconds, in front' : ''
  if (!NICKNAME.test(schedule.trim()) && fields !== 5 && !(seconds && fields === 6))
    throw fail(
      'invalid',
      `schedule: expected five fields (minute, hour, day of month, month, day of week), got "${schedule}"${hint}`,
    )
  let first: Date | null
  try {
    first = patternOf({ schedule, timezone }).nextRun()
  } catch (error) {
    throw fail('invalid', `schedule: ${(error as Error).message.replace(/^CronPattern: /, '')}`)
  }
  if (first === null) throw fail('invalid', `schedule: expected one that ever occurs, got "${schedule}"`)
}

const patternOf = ({ schedule, timezone }: Omit<Timetable, 'end'>): Pattern =>
  new Pattern(schedule.trim(), {
    mode: '5-or-6-parts',
    timezone: timezone ?? 'UTC',
    fixedTimeRule: 'no-wildcard',
    paused: true,
  })

/** Offsets such as +02:00 are not names, although some versions of Node.js accept them. */
function isZone(name: string): boolean {
  if (!/^[A-Za-z]/.test(name)) return false
  try {
    new Intl.DateTimeFormat('en', { timeZone: name })
    return true
  } catch {
    return false
  }
}

const MOMENT = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?)(?:[.,](\d{1,9}))?(Z|[+-]\d\d(?::?\d\d)?)?)?$/i

/** A date-time of ISO 8601 in ms; without an offset it is UTC. Throws `invalid` (422) naming the field. */
export function parseTime(field: string, text: string): number {
  const [, date, clock = '00:00', fraction = '', offset = 'Z'] = MOMENT.exec(text) ?? []
  const zone = offset.toUpperCase() === 'Z' ? 'Z' : `${offset.slice(0, 3)}:${offset.slice(3).replace(':', '') || '00'}`
  const ms = Date.parse(
    `${date}T${clock}${clock.length === 5 ? ':00' : ''}.${fraction.padEnd(3, '0').slice(0, 3)}${zone}`,
  )
  // Date accepts 31 days for every month, and turns the 30th of February into the 2nd of March.
  if (Number.isNaN(ms) || !new Date(`${date}T00:00Z`).toISOString().startsWith(date!))
    throw fail('invalid', `${field}: expected a date and time of ISO 8601, got "${text.slice(0, 80)}"`)
  return ms
}
