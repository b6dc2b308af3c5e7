/** Searching and counting crons (docs/spec/crons.md#routes). */

import type { Reply } from '../../../bus/serve.js'
import { containsAll } from '../../../schemas/contains.js'
import type { Cron, CronCount, CronSearch } from '../../../schemas/crons.js'
import { jsonText } from '../../../schemas/exact.js'
import { canonicalId } from '../../../schemas/ids.js'
import { time } from '../../../schemas/json.js'
import type { Store } from '../../../store/port.js'
import type { RecordSort } from '../../../store/rows/records.js'
import { type Access, seesObject, seesThread, wholeApp } from '../access.js'
import { clock } from '../clock.js'
import { findAssistant } from '../rows/assistant.js'
import { openPause } from '../rows/pages.js'
import { each } from '../rows/record.js'
import { assistantKey, CRON, cronOf, enabledKey } from './record.js'
import { nextSlots } from './slots.js'

/** The orders of the store; others are sorted here. */
const STORED: { readonly [sort: string]: RecordSort | undefined } = {
  cron_id: 'id',
  created_at: 'created_at',
  updated_at: 'updated_at',
}

export interface CronAccess {
  crons: Access
  threads: Access
}

export async function search(store: Store, access: CronAccess, body: CronSearch): Promise<Reply> {
  const { offset, limit, sort_by, select } = body
  const order = body.sort_order ?? 'desc'
  const from = offset ?? 0
  const to = from + (limit ?? 10)
  const sort = STORED[sort_by ?? 'created_at']
  const found: Cron[] = []
  // One more row than requested tells whether there is a next page.
  const most = sort === undefined ? Number.POSITIVE_INFINITY : to + 1
  for await (const cron of findMatching(store, access, body, sort ?? 'created_at', order))
    if (found.push(cron) >= most) break
  if (sort === undefined) found.sort(by(sort_by as keyof Cron, order))
  const more = found.length > to
  return {
    body: jsonText(found.slice(from, to).map(cron => (select ? selectFields(cron, select) : cron))),
    head: {
      headers: {
        'x-pagination-total': `${more ? to + 1 : found.length}`,
        ...(more ? { 'x-pagination-next': `${to}` } : {}),
      },
    },
  }
}

export async function count(store: Store, access: CronAccess, body: CronCount): Promise<Reply> {
  let n = 0
  for await (const _ of findMatching(store, access, body, 'created_at', 'desc')) n++
  return { body: `${n}` }
}

async function* findMatching(
  store: Store,
  { crons, threads }: CronAccess,
  { assistant_id, thread_id, enabled, metadata }: CronCount,
  sort: RecordSort,
  order: 'asc' | 'desc',
): AsyncGenerator<Cron> {
  const { app } = crons
  const keys: string[] = []
  if (assistant_id)
    keys.push(assistantKey((await findAssistant(store, wholeApp(app), assistant_id))?.assistant_id ?? assistant_id))
  if (enabled != null) keys.push(enabledKey(enabled))
  const isContained = containsAll(metadata)
  const pause = openPause()
  const parent = thread_id ? { parent: canonicalId(thread_id) } : {}
  for await (const row of each(store, { kind: CRON, app, keys, sort, order, ...parent })) {
    await pause()
    const cron = cronOf(row)
    if (metadata && !isContained(cron.metadata)) continue
    if (!seesObject(crons, cron.metadata)) continue
    if (cron.thread_id !== null && !(await seesThread(store, threads, cron.thread_id))) continue
    yield cron
  }
}

/** Equal values are ordered by id; rows without a value come last in both orders. */
const by = (field: keyof Cron, order: 'asc' | 'desc') => (a: Cron, b: Cron) => {
  const [x, y] = [a[field] as string | null, b[field] as string | null]
  if (x === y) return a.cron_id < b.cron_id ? -1 : 1
  if (x === null || y === null) return x === null ? 1 : -1
  return x < y === (order === 'asc') ? -1 : 1
}

const NEXT = 'next_run_dates'
const MOST_NEXT = 5

const selectFields = (cron: Cron, select: readonly string[]) => {
  const whole: { [field: string]: unknown } = { ...cron, now: time(clock.now()) }
  if (select.includes(NEXT)) whole[NEXT] = nextOf(cron)
  return Object.fromEntries(select.map(field => [field, whole[field]]))
}

/** Ours: the times at which a cron fires next, as they are now. */
function nextOf({ enabled, schedule, timezone, end_time, next_run_date }: Cron): string[] {
  if (!enabled || next_run_date === null) return []
  const first = Date.parse(next_run_date)
  const table = { schedule, timezone, end: end_time === null ? null : Date.parse(end_time) }
  return [first, ...nextSlots(table, first, MOST_NEXT - 1)].map(time)
}
