/**
 * Searches over the runs of an application, the same for each adapter. A source is an index that has the runs which meet one
 * condition in the order of time. A page takes a slice of one source and compares what the other conditions need, so that no
 * call looks at more than a few thousand runs. When the first slice does not fill the page, the source with the fewest runs
 * is followed.
 */
import type { RunConditions, RunCursor, RunPage, RunSearchQuery, RunSummary } from './rows/runs.js'

/** Runs of a source that one call looks at. */
const SLICE = 2_000
/** Runs that are looked at first, for each row of the page: enough for a condition that every seventh run meets. */
const FIRST = 8
/** Threads that meet the keys of a search: their runs are a source when both are no more than that. */
const MOST_THREADS = 500
const MOST_RUNS_OF_THREADS = 10_000
/** Rows that are read at once; a page ends when its rows hold so much text. */
const AT_ONCE = 100
const PAGE_BYTES = 8 * 1024 * 1024

/** The columns that a search compares before it reads a run. */
export type RunEntry = Pick<
  RunSummary,
  'app' | 'run_id' | 'thread_id' | 'assistant_id' | 'graph_id' | 'status' | 'created_at' | 'temporary' | 'key_id'
>

/** The runs with one of these values in a column; `app`: all of the application, `temporary`: all of stateless routes. */
export interface RunSource {
  by: 'app' | 'status' | 'graph_id' | 'assistant_id' | 'key_id' | 'thread_id' | 'temporary'
  /** One value, but for threads. */
  values: readonly string[]
}

/** Where in a source, and in which order. No more than one bound at each end. */
export interface RunPlace {
  app: string
  from?: number | undefined
  until?: number | undefined
  order: 'asc' | 'desc'
  after?: RunCursor | undefined
}

/** The reads that an adapter provides. */
export interface RunSources {
  slice(source: RunSource, place: RunPlace, size: number): Promise<RunEntry[]>
  /** Counts up to `most`; without it all. */
  count(source: RunSource, place: RunPlace, most?: number): Promise<number>
  /** Ids of threads that are not temporary and have the key, or `*`. */
  threadsWith(app: string, key: string, most: number): Promise<string[]>
  /** The ids of the threads that have all keys, or `*`. */
  haveKeys(thread_ids: readonly string[], keys: readonly string[]): Promise<string[]>
  summary(run_ids: readonly string[]): Promise<RunSummary[]>
}

export const runSearch = (sources: RunSources) => ({
  async search(query: RunSearchQuery): Promise<RunPage> {
    const conditions = conditionsOf(query)
    const own = conditions[0] ?? [{ by: 'app', values: [query.app] }]
    const { limit } = query
    if (!isNarrow(query, conditions)) return pageOf(sources, query, own, limit)
    // A condition that many runs meet fills the page soon. To count who meets it would cost more.
    const some = Math.min(SLICE, FIRST * limit)
    const first = await pageOf(sources, query, own, some)
    if (first.next === null || first.rows.length === limit) return first
    const few = await fewest(sources, query, conditions)
    if (few === null && some === SLICE) return first
    return pageOf(sources, query, few ?? own, SLICE)
  },

  async count(asked: RunConditions): Promise<number> {
    const conditions = conditionsOf(asked)
    const own = conditions[0] ?? [{ by: 'app', values: [asked.app] }]
    const place = placeOf({ ...asked, order: 'asc' })
    let found = 0
    if (isNarrow(asked, conditions)) {
      for (let after: RunCursor | undefined; ; ) {
        const slice = await sliceOf(sources, own, placeOf({ ...asked, order: 'asc', after }), SLICE)
        found += (await matching(sources, asked, slice)).length
        if (slice.length < SLICE) return found
        after = slice.at(-1)!
      }
    }
    for (const source of own) found += await sources.count(source, place)
    if (asked.status !== undefined) return found
    const accepting = await sources.slice({ by: 'status', values: ['accepting'] }, place, ACCEPTING)
    return found - accepting.filter(fits(asked)).length
  },
})

/** More than are being accepted at any time: each waits for one write. */
const ACCEPTING = 100_000

/** Several sources stand for one condition: a run is in one of them. */
type Sources = readonly RunSource[]

/** The source of each condition that has one; first those that few runs meet in most cases. */
function conditionsOf(query: RunConditions): Sources[] {
  const found: Sources[] = []
  for (const by of ['thread_id', 'key_id', 'assistant_id', 'graph_id'] as const) {
    const value = query[by]
    if (value !== undefined) found.push([{ by, values: [value] }])
  }
  if (query.temporary === true) found.push([{ by: 'temporary', values: [query.app] }])
  if (query.status !== undefined)
    found.push([...new Set(query.status)].map(status => ({ by: 'status', values: [status] })))
  return found
}

/** Whether the source of the first condition has runs that do not match. */
const isNarrow = ({ temporary, thread_keys = [] }: RunConditions, conditions: readonly Sources[]): boolean =>
  conditions.length > 1 || temporary === false || thread_keys.length > 0

/** The condition that the fewest runs meet, at most as many as a slice; null: there is none. */
async function fewest(sources: RunSources, query: RunSearchQuery, conditions: readonly Sources[]) {
  const place = placeOf(query)
  let best: Sources | null = null
  let least = SLICE - 1
  for (const condition of conditions) {
    let count = 0
    for (const source of condition) if (count <= least) count += await sources.count(source, place, least + 1 - count)
    if (count > least) continue
    best = condition
    least = count
  }
  return best ?? ofThreads(sources, query)
}

/** The runs of the threads that have a key, and those of temporary threads, whose keys are not known. */
async function ofThreads(sources: RunSources, query: RunSearchQuery): Promise<Sources | null> {
  const { app, thread_keys = [] } = query
  const place = placeOf(query)
  for (const key of thread_keys) {
    const values = await sources.threadsWith(app, key, MOST_THREADS + 1)
    if (values.length > MOST_THREADS) continue
    const source: RunSource = { by: 'thread_id', values }
    if ((await sources.count(source, place, MOST_RUNS_OF_THREADS + 1)) > MOST_RUNS_OF_THREADS) continue
    return [source, { by: 'temporary', values: [app] }]
  }
  return null
}

/** The matching ones among the next `size` runs of a condition, until the page is full. */
async function pageOf(sources: RunSources, query: RunSearchQuery, of: Sources, size: number): Promise<RunPage> {
  const slice = await sliceOf(sources, of, placeOf(query), size)
  const found = await matching(sources, query, slice)
  const taken = found.slice(0, query.limit)
  const rows: RunSummary[] = []
  let held = 0
  for (let at = 0; at < taken.length; at += AT_ONCE) {
    const some = taken.slice(at, at + AT_ONCE)
    for (const row of await sources.summary(some.map(({ run_id }) => run_id))) {
      // Its status may have changed meanwhile.
      if (!meets(query)(row)) continue
      rows.push(row)
      held += row.metadata.length + (row.error?.length ?? 0)
    }
    if (held >= PAGE_BYTES && at + AT_ONCE < taken.length) return { rows, next: cursorOf(some.at(-1)!) }
  }
  if (taken.length === query.limit) return { rows, next: cursorOf(taken.at(-1)!) }
  return { rows, next: slice.length < size ? null : cursorOf(slice.at(-1)!) }
}

/** The next runs of some sources in their common order. */
async function sliceOf(sources: RunSources, of: Sources, place: RunPlace, size: number): Promise<RunEntry[]> {
  const slices = await Promise.all(of.map(source => sources.slice(source, place, size)))
  if (slices.length === 1) return slices[0]!
  const way = place.order === 'asc' ? 1 : -1
  return slices
    .flat()
    .sort((a, b) => way * (a.created_at - b.created_at || (a.run_id < b.run_id ? -1 : 1)))
    .slice(0, size)
}

async function matching(sources: RunSources, query: RunConditions, slice: RunEntry[]): Promise<RunEntry[]> {
  const found = slice.filter(meets(query))
  const { thread_keys = [] } = query
  if (thread_keys.length === 0) return found
  const ids = new Set(found.flatMap(({ temporary, thread_id }) => (temporary ? [] : [thread_id])))
  const seen = new Set(ids.size === 0 ? [] : await sources.haveKeys([...ids], thread_keys))
  return found.filter(({ temporary, thread_id }) => temporary || seen.has(thread_id))
}

/** The conditions that a run itself can tell. */
const meets = (query: RunConditions) => {
  const isFit = fits(query)
  const { status } = query
  return (run: RunEntry): boolean =>
    run.status !== 'accepting' && (status === undefined || status.includes(run.status)) && isFit(run)
}

/** The conditions beside the status. */
const fits =
  ({ app, graph_id, assistant_id, thread_id, key_id, temporary }: RunConditions) =>
  (run: RunEntry): boolean =>
    run.app === app &&
    (graph_id === undefined || run.graph_id === graph_id) &&
    (assistant_id === undefined || run.assistant_id === assistant_id) &&
    (thread_id === undefined || run.thread_id === thread_id) &&
    (key_id === undefined || run.key_id === key_id) &&
    (temporary === undefined || run.temporary === temporary)

/** The cursor is inside of the bounds: with it, the bound at its end is not needed. */
function placeOf({ app, from, until, order, after }: RunPlace): RunPlace {
  if (after === undefined) return { app, from, until, order }
  return order === 'asc' ? { app, until, order, after } : { app, from, order, after }
}

const cursorOf = ({ created_at, run_id }: RunEntry): RunCursor => ({ created_at, run_id })
