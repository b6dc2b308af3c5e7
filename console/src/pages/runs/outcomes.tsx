/** How many runs were created over time, by what became of them. Each point of a line is one count. */
import { atOnce } from '../../api/at-once'
import { ask } from '../../api/client'
import { useLoad } from '../../api/load'
import { Chart } from '../../ui/chart'
import { Trouble } from '../../ui/notice'
import { durationText } from '../../ui/time'
import { beginOf, conditionsOf, type Filter, queryOf, SPANS, type Status } from './filter'

const LINES: readonly { name: string; of: readonly Status[] }[] = [
  { name: 'Succeeded', of: ['success'] },
  { name: 'Failed', of: ['error', 'timeout'] },
  { name: 'Interrupted', of: ['interrupted'] },
  { name: 'Open', of: ['pending', 'running'] },
]
const POINTS = 12
/** Counts by status and another condition read all runs of the other one: of more than these, there is one line. */
const MOST_READ = 5_000
/** A user who sees only some threads: the server reads the runs that it counts. */
const SLOW_MS = 2_000
/** The list comes first, and conditions often change one after the other. */
const WAIT_MS = 300
const COUNTS_AT_ONCE = 2
const EVERY_MS = 60_000

const SPAN_TEXTS: { readonly [since: string]: string } = {
  '': 'last day',
  hour: 'last hour',
  day: 'last day',
  week: 'last week',
}

const SLOW = 'Counting these runs takes too long, so there is no chart of them. A shorter time may have one.'

interface Line {
  name: string
  points: number[]
}

export function Outcomes({ filter }: { filter: Filter }) {
  const key = `${queryOf({ ...filter, live: true })}`
  const span = Date.now() - (beginOf(filter) ?? Date.now() - SPANS.day)
  const counted = useLoad(`outcomes ${key}`, signal => linesOf(filter, signal), { every: EVERY_MS })
  return (
    <section className="card outcomes" aria-label="Outcomes">
      <Trouble error={counted.error} />
      <div className="charts">
        {(counted.data ?? LINES.map(({ name }) => ({ name, points: [] }))).map(({ name, points }) => (
          <Chart
            key={name}
            name={name}
            value={counted.data === undefined ? '–' : points.reduce((a, b) => a + b, 0).toLocaleString()}
            points={points}
            isBad={name === 'Failed'}
          />
        ))}
      </div>
      <p className="muted">
        Runs created in the {SPAN_TEXTS[filter.since] ?? `last ${durationText(span)}`}, in steps of{' '}
        {durationText(span / POINTS)}.
      </p>
    </section>
  )
}

async function linesOf(filter: Filter, signal: AbortSignal): Promise<Line[]> {
  await new Promise(done => setTimeout(done, WAIT_MS))
  signal.throwIfAborted()
  const now = Date.now()
  const begin = beginOf(filter) ?? now - SPANS.day
  const step = (now - begin) / POINTS
  const time = (point: number) => new Date(begin + point * step).toISOString()
  const count = async (status: readonly Status[] | null, from: number, until: number) => {
    const began = performance.now()
    const body = {
      ...conditionsOf(filter),
      status,
      created_after: time(from),
      // The newest step ends with what is created now.
      ...(until === POINTS ? {} : { created_before: time(until) }),
    }
    const found = await ask<number>('/runs/count', { method: 'POST', body, signal })
    if (performance.now() - began > SLOW_MS) throw new Error(SLOW)
    return found
  }
  const { graph, assistant, thread, status } = filter
  const isNarrow = [graph, assistant, thread].some(one => one !== '')
  const wanted =
    isNarrow && (await count(null, 0, POINTS)) > MOST_READ
      ? [{ name: 'With any status', of: null }]
      : LINES.map(({ name, of }) => ({
          name,
          of: status.length === 0 ? of : of.filter(one => status.includes(one)),
        })).filter(({ of }) => of.length > 0)
  const cells = wanted.flatMap(({ of }) => Array.from({ length: POINTS }, (_, point) => ({ of, point })))
  const counts = await atOnce(COUNTS_AT_ONCE, cells, ({ of, point }) => count(of, point, point + 1))
  return wanted.map(({ name }, i) => ({ name, points: counts.slice(i * POINTS, (i + 1) * POINTS) }))
}
