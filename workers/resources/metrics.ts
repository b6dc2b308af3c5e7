/** The figures of a resource worker, and those of the whole cluster that the store and the broker know. */
import { hostname } from 'node:os'
import type { Lifecycle } from '../../bus/lifecycle.js'
import { answerMetrics, type Histogram, openHistogram, sample } from '../../bus/metrics.js'
import { queueInfo } from '../../bus/streams.js'
import type { ClusterMetrics, Sample } from '../../schemas/metrics.js'
import type { RunSummary, Store } from '../../store/port.js'
import type { Deps } from './context.js'

/** Runs that are looked at for the oldest of each pool; pools without one of these have younger runs. */
const OLDEST = 1_000

export interface StoreFigures {
  writes: Histogram
  failures: number
}

/** A store whose writes are measured. */
export function measureWrites(store: Store): { store: Store; figures: StoreFigures } {
  const figures: StoreFigures = { writes: openHistogram(), failures: 0 }
  const apply: Store['apply'] = async steps => {
    const started = performance.now()
    try {
      return await store.apply(steps)
    } catch (error) {
      figures.failures++
      throw error
    } finally {
      figures.writes.observe((performance.now() - started) / 1_000)
    }
  }
  return { store: { ...store, apply }, figures }
}

/** Answers edges until the lifecycle stops it. */
export function reportMetrics(
  { store, link, deliveries }: Deps,
  { writes, failures }: StoreFigures,
  life: Lifecycle,
): void {
  const metrics = answerMetrics(link, { role: 'resources', worker: `${hostname()}.${process.pid}` }, async () => {
    const started = performance.now()
    await store.ping()
    return [
      writes.sample('weft_store_write_seconds'),
      sample('weft_store_failures_total', failures),
      sample('weft_store_ping_seconds', (performance.now() - started) / 1_000),
      sample('weft_webhooks_under_way', deliveries.underWay.size),
    ]
  })
  life.push({ name: 'metrics', quiet: () => metrics.close() })
}

/** One worker answers for all: queues, runs and streams. */
export async function clusterMetrics({ store, link }: Deps): Promise<ClusterMetrics> {
  const [{ pending, running }, oldest, { queues, streams }] = await Promise.all([
    store.runs.counts(),
    store.runs.unsettled(OLDEST),
    queueInfo(link),
  ])
  const samples: Sample[] = [
    sample('lg_api_num_pending_runs', pending),
    sample('lg_api_num_running_runs', running),
    ...[...oldestOf(oldest)].map(([pool, seconds]) => sample('weft_queue_oldest_seconds', seconds, { pool })),
    ...queues.flatMap(({ pool, waiting, taken, redelivered }) => [
      sample('weft_queue_waiting', waiting, { pool }),
      sample('weft_queue_taken', taken, { pool }),
      sample('weft_queue_redelivered', redelivered, { pool }),
    ]),
    ...streams.map(({ name, bytes }) => sample('weft_stream_bytes', bytes, { stream: name })),
  ]
  return { samples }
}

function oldestOf(runs: readonly RunSummary[]): Map<string, number> {
  const now = Date.now()
  const oldest = new Map<string, number>()
  for (const { pool, status, created_at, due_at } of runs) {
    if (status !== 'pending' || due_at > now) continue
    const seconds = (now - Math.max(created_at, due_at)) / 1_000
    oldest.set(pool, Math.max(seconds, oldest.get(pool) ?? 0))
  }
  return oldest
}
