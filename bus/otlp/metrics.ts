/**
 * The figures of a role (figures.ts), sent to a collector while it runs: the same names and values that `/metrics` has.
 * Without OTEL_EXPORTER_OTLP_ENDPOINT nothing is sent. Not the SDK of OpenTelemetry: it counts by itself, and these are
 * counted already.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Attributes } from '@opentelemetry/api'
import type { Config } from '../../schemas/config.js'
import { boundsOf, METRICS, type MetricName, type Sample } from '../../schemas/metrics.js'
import type { Link } from '../connect.js'
import { openProcessFigures } from '../figures.js'
import { headersOf, resourceOf, urlAt } from './collector.js'

export interface Exported {
  role: string
  /** Unique among the processes of the role. */
  worker: string
  /** Figures that the link does not have. */
  others?: () => Promise<Sample[]> | Sample[]
}

/** A collector that takes longer loses these values; the next ones have what was counted. */
const SEND_MS = 10_000
/** The last values, when the role stops. */
const LAST_MS = 2_000
const STARTED = nanoseconds(performance.timeOrigin)

/** Sends all figures at each interval and once at the end; null: nothing is sent. */
export async function exportMetrics(
  config: Config,
  link: Link,
  { role, worker, others = () => [] }: Exported,
): Promise<{ stop(): Promise<void> } | null> {
  if (config.otlp_endpoint === '' || config.metrics_exporter === 'none' || config.metric_interval_ms === 0) return null
  const { figures, log } = link
  const own = openProcessFigures(link.build)
  const headers = { 'content-type': 'application/json', ...headersOf(config) }
  const url = urlAt(config, 'metrics')
  const { attributes } = await resourceOf(role, { 'service.instance.id': worker })
  const onError = (err: unknown) => log.warn({ err }, 'a figure could not be read')
  const stopped = new AbortController()
  let isFailing = false

  async function send(ms: number): Promise<void> {
    try {
      const more = await (async () => others())().catch(error => {
        onError(error)
        return []
      })
      const samples = [...(await figures.samples(onError)), ...own.samples(), ...more]
      const body = JSON.stringify(requestOf(attributes, link.build.version, samples))
      const answer = await fetch(url, { method: 'POST', headers, body, signal: AbortSignal.timeout(ms) })
      await answer.body?.cancel()
      if (!answer.ok) throw new Error(`the collector answered ${answer.status}`)
      isFailing = false
    } catch (err) {
      // Once, not at each interval.
      if (!isFailing)
        log.warn({ err, url }, 'metrics could not be sent; with OTEL_METRICS_EXPORTER=none only traces are sent')
      isFailing = true
    }
  }

  const ended = (async () => {
    for (;;) {
      const isOver = await sleep(config.metric_interval_ms, false, { signal: stopped.signal, ref: false }).catch(
        () => true,
      )
      if (isOver) return
      await send(SEND_MS)
    }
  })()
  return {
    async stop() {
      stopped.abort()
      await Promise.race([ended.then(() => send(LAST_MS)), sleep(LAST_MS, undefined, { ref: false })])
      own.close()
    },
  }
}

/** An ExportMetricsServiceRequest. Names that `/metrics` does not know are left out there, too. */
function requestOf(resource: Attributes, version: string, samples: readonly Sample[]) {
  const now = nanoseconds(Date.now())
  const byName = new Map<MetricName, Point[]>()
  for (const one of samples) {
    const point = Object.hasOwn(METRICS, one.name) ? pointOf(one, now) : null
    if (point === null) continue
    const name = one.name as MetricName
    const points = byName.get(name) ?? []
    byName.set(name, points)
    points.push(point)
  }
  const metrics = [...byName].map(([name, dataPoints]) => {
    const { type, help: description } = METRICS[name]
    const data =
      type === 'gauge'
        ? { gauge: { dataPoints } }
        : type === 'counter'
          ? { sum: { aggregationTemporality: CUMULATIVE, isMonotonic: true, dataPoints } }
          : { histogram: { aggregationTemporality: CUMULATIVE, dataPoints } }
    return { name, description, unit: unitOf(name), ...data }
  })
  return {
    resourceMetrics: [
      { resource: { attributes: keyValues(resource) }, scopeMetrics: [{ scope: { name: 'weft', version }, metrics }] },
    ],
  }
}

/** AGGREGATION_TEMPORALITY_CUMULATIVE. */
const CUMULATIVE = 2

type Point = NonNullable<ReturnType<typeof pointOf>>

function pointOf({ name, labels = {}, value, counts, sum = 0 }: Sample, timeUnixNano: string) {
  const common = { attributes: keyValues(labels), startTimeUnixNano: STARTED, timeUnixNano }
  if (counts === undefined) return value === undefined ? null : { ...common, asDouble: value }
  return {
    ...common,
    count: `${counts.reduce((total, one) => total + one, 0)}`,
    sum,
    bucketCounts: counts.map(String),
    explicitBounds: boundsOf(name as MetricName),
  }
}

const unitOf = (name: string): string => (/_seconds(_total)?$/.test(name) ? 's' : /_bytes$/.test(name) ? 'By' : '1')

const keyValues = (attributes: Attributes) =>
  Object.entries(attributes).map(([key, value]) => ({ key, value: { stringValue: `${value}` } }))

/** JSON has 64-bit numbers as text. */
function nanoseconds(ms: number): string {
  return `${BigInt(Math.round(ms)) * 1_000_000n}`
}
