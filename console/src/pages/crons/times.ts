/** The next times of a schedule, as the server computes them (workers/resources/crons/slots.ts). */
import type { Cron } from '@langchain/langgraph-sdk'
import { Cron as Pattern } from 'croner'

const SHOWN = 5

/** Empty for a schedule that never occurs again. */
export function nextTimes({ schedule, timezone, end_time }: Cron, now: number): Date[] {
  try {
    const pattern = new Pattern(schedule.trim(), {
      mode: '5-or-6-parts',
      timezone: timezone ?? 'UTC',
      fixedTimeRule: 'no-wildcard',
      paused: true,
    })
    const end = end_time ? Date.parse(end_time) : Number.POSITIVE_INFINITY
    return pattern.nextRuns(SHOWN, new Date(now)).filter(time => time.getTime() < end)
  } catch {
    return []
  }
}
