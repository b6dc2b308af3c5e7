/** The figures of a resource worker, and those of the whole cluster that the store and the broker know. */
import { hostname } from 'node:os'
import type { Link } from '../../bus/connect.js'
import { freeBytes, sample, timely } from '../../bus/figures.js'
import type { Lifecycle } from '../../bus/lifecycle.js'
import { answerMetrics } from '../../bus/metrics.js'
import { exportMetrics } from '../../bus/otlp/metrics.js'
import { queueInfo } from '../../bus/streams.js'
import type { ClusterMetrics, Sample } from '../../schemas/metrics.js'
import type { Store } from '../../store/port.js'
import type { RunSummary } from '../../store/rows/runs.js'
import { clock } from './clock.js'
import type { Deps } from './context.js'

/** Runs that are looked at for the oldest of each pool; pools without one of these have younger runs. */
const OLDEST = 1_000

/** A store whose writes are measured. */
export function measureWrites(store: Store, { figures }: Link): Store {
  const writes = figures.histogram('weft_store_write_seconds')
  figures.count('weft_store_failures_total', undefined, 0)
  const apply: Store['apply'] = async steps => {
    const started = performance.now()
    try {
      return await store.apply(steps)
    } catch (error) {
      figures.count('weft_store_failures_total')
      throw error
    } finally {
      writes.observe((performance.now() - started) / 1_000)
    }
  }
  return { ...store, apply }
}

/** Answers edges, and sends to the collector of the settings, until the lifecycle stops it. */
export async function reportMetrics(deps: Deps, life: Lifecycle): Promise<void> {
  const { store, link, deliveries, alarms, config } = deps
  const { figures } = link
  figures.count('weft_run_takeovers_total', undefined, 0)
  for (const status of ENDED) figures.count('weft_runs_ended_total', { status }, 0)
  for (const answer of ['started', 'refused', 'unknown']) figures.count('weft_run_hand_overs_total', { answer }, 0)
  for (const outcome of DELIVERIES) figures.count('weft_webhooks_total', { outcome }, 0)
  figures.onRead(async () => {
    const started = performance.now()
    await store.ping()
    return [sample('weft_store_ping_seconds', (performance.now() - started) / 1_000)]
  })
  figures.onRead(async () => [sample('weft_store_bytes', await store.bytes())])
  figures.onRead(async () => [sample('weft_disk_free_bytes', await freeBytes(config.data))])
  figures.onRead(() => [sample('weft_webhooks_under_way', deliveries.underWay.size)])
  figures.onRead(() => {
    const ahead = alarms.ahead()
    return ahead === null ? [] : [sample('weft_clock_ahead_seconds', ahead / 1_000)]
  })
  const self = { role: 'resources', worker: `${hostname()}.${process.pid}` } as const
  const metrics = answerMetrics(link, self)
  life.push({ name: 'metrics', quiet: () => metrics.close() })
  const exported = await exportMetrics(config, link, {
    ...self,
    others: async () => (await clusterMetrics(deps)).samples,
  })
  if (exported !== null) life.push({ name: 'metrics for the collector', stop: () => exported.stop() })
}

/** Labels of ended runs. */
const ENDED = ['success', 'error', 'timeout', 'interrupted', 'rolled_back']
/** Labels of tries to deliver a webhook. */
const DELIVERIES = ['delivered', 'retried', 'given_up']

/** An edge waits for two seconds. */
const PART_MS = 1_500

/** One worker answers for all: queues, runs and streams. What the store cannot tell hides nothing of the broker, and the reverse. */
export async function clusterMetrics({ store, link }: Deps): Promise<ClusterMetrics> {
  const parts = await Promise.allSettled(
    [countsOf(store), agesOf(store), brokerFigures(link)].map(part => timely(part, PART_MS)),
  )
  for (const part of parts)
    if (part.status === 'rejected') link.log.warn({ err: part.reason }, 'figures of the cluster cannot be read')
  return { samples: parts.flatMap(part => (part.status === 'fulfilled' ? part.value : [])) }
}

async function countsOf({ runs }: Store): Promise<Sample[]> {
  const { pending, running } = await runs.counts()
  return [sample('lg_api_num_pending_runs', pending), sample('lg_api_num_running_runs', running)]
}

async function agesOf({ runs }: Store): Promise<Sample[]> {
  const oldest = await runs.unsettled(OLDEST)
  return [
    ...[...oldestOf(oldest, waitingFor)].map(([pool, age]) => sample('weft_queue_oldest_seconds', age, { pool })),
    ...[...oldestOf(oldest, runningFor)].map(([pool, age]) => sample('weft_running_oldest_seconds', age, { pool })),
  ]
}

async function brokerFigures(link: Link): Promise<Sample[]> {
  const { queues, streams, account } = await queueInfo(link)
  return [
    ...queues.flatMap(({ pool, waiting, taken, redelivered }) => [
      sample('weft_queue_waiting', waiting, { pool }),
      sample('weft_queue_taken', taken, { pool }),
      sample('weft_queue_redelivered', redelivered, { pool }),
    ]),
    ...streams.flatMap(({ name: stream, bytes, max_bytes, copies, servers }) => [
      sample('weft_stream_bytes', bytes, { stream }),
      sample('weft_stream_limit_bytes', max_bytes, { stream }),
      sample('weft_stream_copies', copies, { stream }),
      ...servers.flatMap(({ server, is_current, lag }) => [
        sample('weft_stream_copy_current', is_current ? 1 : 0, { stream, server }),
        sample('weft_stream_copy_lag', lag, { stream, server }),
      ]),
    ]),
    sample('weft_broker_bytes', account.bytes),
    sample('weft_broker_api_errors_total', account.api_errors),
  ]
}

/** The longest time of each pool. */
function oldestOf(runs: readonly RunSummary[], age: (run: RunSummary, now: number) => number | null) {
  const now = clock.now()
  const oldest = new Map<string, number>()
  for (const run of runs) {
    const ms = age(run, now)
    if (ms !== null) oldest.set(run.pool, Math.max(ms / 1_000, oldest.get(run.pool) ?? 0))
  }
  return oldest
}

/** In milliseconds; null: it runs, or may not start yet. */
const waitingFor = ({ status, created_at, due_at }: RunSummary, now: number): number | null =>
  status !== 'pending' || due_at > now ? null : now - Math.max(created_at, due_at)

const runningFor = ({ status, started_at }: RunSummary, now: number): number | null =>
  status !== 'running' || started_at === null ? null : Math.max(0, now - started_at)
