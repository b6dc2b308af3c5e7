/**
 * `/metrics`: the figures of this edge, of all workers, and of the queues (docs/spec/http.md#system). Workers are
 * asked when somebody scrapes, at most once in 5 s.
 */
import { hostname } from 'node:os'
import { openProcessFigures, sample } from '../bus/figures.js'
import { expositionOf, openReports, samplesOf } from '../bus/metrics.js'
import type { Mux } from '../bus/mux.js'
import { exportMetrics } from '../bus/otlp/metrics.js'
import { allows } from '../schemas/auth/keys.js'
import { fail } from '../schemas/errors.js'
import { BUILT_IN_APP } from '../schemas/ids.js'
import {
  type ClusterMetrics,
  type CollectedMetrics,
  type HostReport,
  type MetricsReport,
  type Sample,
  validateClusterMetrics,
} from '../schemas/metrics.js'
import type { Build } from '../schemas/protocol.js'
import { rpc } from '../schemas/subjects.js'
import type { Edge } from './context.js'
import type { Exchange } from './http/exchange.js'

const CACHE_MS = 5_000
/** Named as workers are: the edge of `weft start` is the process of its other roles. */
const OWN = `${hostname()}.${process.pid}`
const CLUSTER_MS = 2_000
const decoder = new TextDecoder()

export interface Metrics {
  /** All figures; concurrent callers and those of the next 5 s share one question to the workers. */
  collect(edge: Edge): Promise<CollectedMetrics>
  close(): void
}

export function openMetrics(mux: Mux, build: Build): Metrics {
  const reports = openReports(mux)
  const figures = openProcessFigures(build)
  let cached: { found: Promise<CollectedMetrics>; until: number } | null = null

  async function collect(edge: Edge): Promise<CollectedMetrics> {
    const onError = (err: unknown) => edge.link.log.warn({ err }, 'a figure could not be read')
    const [found, cluster, counted] = await Promise.all([
      reports.ask(),
      askCluster(edge),
      edge.link.figures.samples(onError),
    ])
    const own = [
      ...counted,
      ...samplesOfEdge(edge),
      ...figures.samples().map(one => ({ ...one, labels: { ...one.labels, role: 'edge' } })),
    ]
    const others = found.flatMap(samplesOf)
    return {
      samples: [...own, ...slotsOf(found), ...cluster.samples, ...others],
      hosts: found.flatMap(({ worker, hosts = [] }) => hosts.map(host => ({ worker, ...host }))),
    }
  }

  return {
    collect(edge) {
      if (cached === null || cached.until < performance.now())
        cached = { found: collect(edge), until: performance.now() + CACHE_MS }
      return cached.found
    },
    close: () => figures.close(),
  }
}

/** Samples that are not in the figures of its link. */
function samplesOfEdge(edge: Edge): Sample[] {
  return [
    ...edge.traffic.samples(),
    sample('weft_edge_open_requests', edge.open.size),
    sample('weft_edge_open_sockets', edge.sockets.size),
    sample('weft_edge_open_streams', [...edge.open].filter(one => one.streaming).length),
    sample('weft_edge_blocked_clients', edge.stalls.size()),
  ]
}

/** Sends the figures of this edge to the collector of the settings, if there is one. */
export const exportEdgeMetrics = (edge: Edge) =>
  exportMetrics(edge.config, edge.link, { role: 'edge', worker: OWN, others: () => samplesOfEdge(edge) })

/** Empty while no resource worker answers: the other figures are wanted most of all then. */
async function askCluster({ caller, link }: Edge): Promise<ClusterMetrics> {
  try {
    const head = { request_id: 'metrics' }
    const { body } = await caller.ask(rpc('system', 'metrics'), head, undefined, { timeout: CLUSTER_MS, patience: 0 })
    const parsed = validateClusterMetrics(JSON.parse(decoder.decode(body)))
    if (parsed.success) return parsed.data
  } catch (error) {
    link.log.warn({ err: error }, 'no resource worker answers the question for metrics')
  }
  return { samples: [] }
}

/** The slots of all graph workers, under the names of the platform. */
function slotsOf(reports: readonly MetricsReport[]): Sample[] {
  const all = reports.flatMap(({ samples }) => samples)
  const sum = (name: string) => all.reduce((total, one) => total + (one.name === name ? (one.value ?? 0) : 0), 0)
  const [max, active] = [sum('weft_pool_slots'), sum('weft_pool_running')]
  return [
    sample('lg_api_workers_max', max),
    sample('lg_api_workers_active', active),
    sample('lg_api_workers_available', Math.max(0, max - active)),
  ]
}

/** `?format=json`, or the text of Prometheus. A deployment has no metrics of its own. */
export async function metrics(edge: Edge, exchange: Exchange): Promise<void> {
  if (exchange.mount !== null) return exchange.refuse('not_found')
  const format = new URLSearchParams(exchange.query).get('format') ?? 'prometheus'
  if (format !== 'prometheus' && format !== 'json')
    throw fail('invalid', `format: expected prometheus or json, got "${format.slice(0, 80)}"`)
  const { samples, hosts } = await edge.metrics.collect(edge)
  if (format === 'json') {
    const isTrusted = await mayReadRuns(edge, exchange)
    const named = hosts.map(host => ({ ...host, run: isTrusted(host) ? host.run : null }))
    return exchange.reply(200, JSON.stringify({ ...asJson(samples), hosts: named, edge: OWN }))
  }
  const { type, text } = await expositionOf(samples)
  exchange.reply(200, text, { 'Content-Type': type })
}

/**
 * Which hosts may be told with their runs: figures need no key, but a run belongs to somebody. A key that may read gets
 * all; without one, runs of an application are named whose API is open to everybody.
 */
async function mayReadRuns(edge: Edge, exchange: Exchange): Promise<(host: HostReport) => boolean> {
  const isOpen = !edge.guard.needsKey && edge.application?.auth == null
  const key = await edge.guard.keyOf(exchange)
  if (key !== null && allows(key.record.scopes, ['read'])) return () => true
  return ({ app }) => isOpen && app === BUILT_IN_APP
}

/**
 * `queue` and `workers` as the platform names them, and all samples. A figure is null when no worker has told it: with 0
 * an autoscaler would stop all workers while the store is overloaded.
 */
function asJson(samples: readonly Sample[]) {
  const value = (name: string) => samples.find(one => one.name === name)?.value ?? null
  const ages = samples.flatMap(one => (one.name === 'weft_queue_oldest_seconds' ? (one.value ?? []) : []))
  return {
    queue: {
      n_pending: value('lg_api_num_pending_runs'),
      n_running: value('lg_api_num_running_runs'),
      max_age_secs: ages.length === 0 ? null : Math.max(...ages),
    },
    workers: {
      max: value('lg_api_workers_max'),
      active: value('lg_api_workers_active'),
      available: value('lg_api_workers_available'),
    },
    samples,
  }
}
