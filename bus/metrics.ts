/**
 * Metrics. A worker reports its figures (figures.ts) when an edge asks, so that nothing is sent without a scrape; the edge
 * turns the reports into the text of Prometheus.
 */
import type { Msg } from 'nats'
import { Registry } from 'prom-client'
import {
  boundsOf,
  type HostReport,
  METRICS,
  type MetricName,
  type MetricsReport,
  type Sample,
  validateMetricsReport,
} from '../schemas/metrics.js'
import { ANY_POOL, event, ownInbox, poolOfInbox } from '../schemas/subjects.js'
import type { Link } from './connect.js'
import { openProcessFigures } from './figures.js'
import { type Mux, openSurvey } from './mux.js'

const ASKED = event('metrics', 'asked')
const decoder = new TextDecoder()
const encoder = new TextEncoder()

type Reporter = Pick<MetricsReport, 'role' | 'worker'> & { hosts?: () => HostReport[] }

/** Answers edges that ask for the figures of this worker, until it is closed. */
export function answerMetrics(link: Link, { role, worker, hosts }: Reporter): { close(): void } {
  const { figures, log } = link
  const own = openProcessFigures(link.build)
  const onError = (err: unknown) => log.warn({ err }, 'a figure could not be read')
  const subscription = link.subscribe(ASKED, message => {
    void figures
      .samples(onError)
      .then(samples => {
        const report: MetricsReport = {
          role,
          worker,
          samples: [...samples, ...own.samples()],
          ...(hosts === undefined ? {} : { hosts: hosts() }),
        }
        const reply = message.reply
        if (reply !== undefined)
          link.nc.publish(ownInbox(reply, link.sender?.pool), encoder.encode(JSON.stringify(report)))
      })
      .catch(err => log.warn({ err }, 'the metrics could not be reported'))
  })
  return {
    close() {
      subscription.unsubscribe()
      own.close()
    },
  }
}

/** Asks all workers. */
export function openReports(mux: Mux): { ask(): Promise<MetricsReport[]> } {
  const survey = openSurvey(mux, ASKED, message => {
    const value = reportIn(message)
    return value && { name: `${value.role} ${value.pool ?? ''} ${value.worker}`, pool: value.pool, value }
  })
  return { ask: () => survey.ask(new Uint8Array()) }
}

/**
 * A report of a graph worker that the broker knows is one of its pool, whatever it says; others come from roles. Null: it
 * cannot be read.
 */
function reportIn({ subject, data }: Msg): MetricsReport | null {
  const parsed = validateMetricsReport(JSON.parse(decoder.decode(data)))
  if (!parsed.success) return null
  const { role, worker, samples, hosts } = parsed.data
  const pool = poolOfInbox(subject)
  const given = { worker, samples, ...(hosts === undefined ? {} : { hosts }) }
  if (pool === ANY_POOL) return { role, ...given }
  const own = samples.map(one => ({ ...one, labels: { ...one.labels, pool } }))
  return { role: 'graphs', worker, pool, samples: own, hosts: (hosts ?? []).map(host => ({ ...host, pool })) }
}

const LABEL = /^[a-z][a-z_]{0,31}$/

/**
 * The samples of a report, with labels for its worker. What would make Prometheus refuse the whole answer is left out:
 * an unknown name, an invalid label name, a repeated sample.
 */
export function samplesOf({ role, worker, samples }: MetricsReport): Sample[] {
  const found = new Map<string, Sample>()
  for (const one of samples) {
    const labels = { ...one.labels, role, worker }
    if (!Object.hasOwn(METRICS, one.name) || !Object.keys(labels).every(label => LABEL.test(label))) continue
    found.set(JSON.stringify([one.name, Object.entries(labels).sort()]), { ...one, labels })
  }
  return [...found.values()]
}

/** The text of Prometheus. */
export async function expositionOf(samples: readonly Sample[]): Promise<{ type: string; text: string }> {
  const registry = new Registry()
  const byName = new Map<string, Sample[]>()
  for (const one of samples) {
    const known = byName.get(one.name)
    if (known === undefined) byName.set(one.name, [one])
    else known.push(one)
  }
  for (const [name, found] of byName) {
    if (!Object.hasOwn(METRICS, name)) continue
    const { type, help } = METRICS[name as MetricName]
    const values = found.flatMap(one => (type === 'histogram' ? bucketsOf(one) : plainValue(one)))
    const metric = { name, get: async () => ({ name, help, type, aggregator: 'sum', values }) }
    registry.registerMetric(metric as unknown as Parameters<typeof registry.registerMetric>[0])
  }
  return { type: registry.contentType, text: await registry.metrics() }
}

type Labels = { [label: string]: string | number }
interface Value {
  value: number
  labels: Labels
  metricName?: string
}

const plainValue = ({ value, labels = {} }: Sample): Value[] => (value === undefined ? [] : [{ value, labels }])

function bucketsOf({ name, labels = {}, counts, sum = 0 }: Sample): Value[] {
  if (counts === undefined) return []
  const bounds = boundsOf(name as MetricName)
  let total = 0
  const buckets = counts.map((count, i) => {
    total += count
    return { value: total, labels: { ...labels, le: bounds[i] ?? '+Inf' }, metricName: `${name}_bucket` }
  })
  return [
    ...buckets,
    { value: sum, labels, metricName: `${name}_sum` },
    { value: total, labels, metricName: `${name}_count` },
  ]
}
