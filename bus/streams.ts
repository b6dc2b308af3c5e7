/**
 * The streams and the consumers. The settings are read back after each change:
 * an old server drops unknown fields silently.
 */
import { isDeepStrictEqual } from 'node:util'
import {
  AckPolicy,
  type ConsumerConfig,
  DiscardPolicy,
  ErrorCode,
  type JetStreamManager,
  nanos,
  RetentionPolicy,
  StorageType,
  type StreamConfig,
  type StreamInfo,
} from 'nats'
import type { Config } from '../schemas/config.js'
import { fail } from '../schemas/errors.js'
import type { Pool, RunId, ThreadId } from '../schemas/ids.js'
import {
  chunks,
  consumerOf,
  EVENTS_STREAM,
  poolOfConsumer,
  queue,
  RUNS_STREAM,
  SPANS_STREAM,
  spansOfThread,
  spans as spansSubject,
} from '../schemas/subjects.js'
import { MAX_SPANS_BYTES } from '../schemas/trace.js'
import type { Link } from './connect.js'
import type { Mux } from './mux.js'
import { isNotFound, onceElected, replicationOf } from './replicas.js'

const GB = 1024 ** 3
const json = (value: unknown) => Buffer.from(JSON.stringify(value))
const ACK_WAIT_MS = 15_000
/** Cluster-wide limit of runs in execution; the default of 1,000 would stall the queue silently. */
const MAX_ACK_PENDING = 20_000

type Wanted = Partial<StreamConfig> & { name: string; persist_mode?: 'async' }

const runs = (config: Config): Wanted => ({
  name: RUNS_STREAM,
  subjects: ['queue.*'],
  retention: RetentionPolicy.Workqueue,
  storage: StorageType.File,
  discard: DiscardPolicy.New,
  max_msgs: 1_000_000,
  max_bytes: Math.min(2 * GB, Math.floor(config.max_file_store / 4)),
  max_msg_size: 64 * 1024,
  duplicate_window: nanos(120_000),
  allow_direct: true,
  ...replicationOf(config),
})

const events = (config: Config): Wanted => ({
  name: EVENTS_STREAM,
  subjects: ['chunk.*.*'],
  retention: RetentionPolicy.Limits,
  storage: StorageType.File,
  // The server refuses it for a stream with copies.
  ...(config.nats_replicas > 1 ? {} : { persist_mode: 'async' as const }),
  discard: DiscardPolicy.Old,
  max_age: nanos(config.resumable_ttl_ms),
  max_bytes: Math.min(3.5 * GB, Math.floor((config.max_file_store * 7) / 16)),
  max_msg_size: 1024 * 1024,
  allow_direct: true,
  republish: { src: 'chunk.*.*', dest: 'live.{{wildcard(1)}}' },
  duplicate_window: nanos(100),
  ...replicationOf(config),
})

/** Without a leader or a disk for a moment it loses what comes meanwhile: nothing waits for its confirmations. */
const spans = (config: Config): Wanted => ({
  name: SPANS_STREAM,
  subjects: ['spans.*.*'],
  retention: RetentionPolicy.Limits,
  storage: StorageType.File,
  ...(config.nats_replicas > 1 ? {} : { persist_mode: 'async' as const }),
  discard: DiscardPolicy.Old,
  max_age: nanos(Math.max(1, config.run_spans_hours) * 3_600_000),
  max_bytes: Math.min(GB / 2, Math.floor(config.max_file_store / 16)),
  // The server has each subject in memory.
  max_msgs: 500_000,
  max_msg_size: MAX_SPANS_BYTES,
  no_ack: true,
  allow_direct: true,
  ...replicationOf(config),
})

/** The streams whose storing is watched (stream-watch.ts). */
export type StreamName = typeof RUNS_STREAM | typeof EVENTS_STREAM

const settingsOf = (name: StreamName, config: Config): Wanted => (name === RUNS_STREAM ? runs(config) : events(config))

/** Creates or updates the streams; throws an Error with one sentence when the server does not keep a setting. */
export async function ensureStreams(link: Link, config: Config): Promise<void> {
  for (const wanted of [runs(config), events(config), spans(config)]) {
    const { name } = wanted
    const stored = await onceElected(link, config, () => ensureStream(link, wanted))
    const got = stored as unknown as { [name: string]: unknown }
    for (const [field, value] of Object.entries(wanted)) {
      if (field === 'republish' || field === 'subjects') continue
      if (JSON.stringify(got[field]) !== JSON.stringify(value))
        throw new Error(
          `the NATS server stores ${name}.${field} as ${JSON.stringify(got[field])}; Weft needs ${JSON.stringify(value)}`,
        )
    }
    if (wanted.republish !== undefined && stored.republish?.dest !== wanted.republish.dest)
      throw new Error(`the NATS server stores no republish on ${name}`)
  }
}

async function ensureStream(link: Link, wanted: Wanted): Promise<StreamConfig> {
  const { streams } = await managerOf(link)
  const found = await streams.info(wanted.name).catch(error => {
    if (isNotFound(error)) return null
    throw error
  })
  // nats@2.29 has no type for persist_mode: the casts.
  if (found !== null && persistModeOf(found.config) === persistModeOf(wanted)) {
    const { num_replicas } = found.config
    // The servers refuse to change both at once: first the servers, then the number of copies.
    if (num_replicas !== wanted.num_replicas && !isDeepStrictEqual(found.config.placement, wanted.placement))
      await streams.update(wanted.name, { ...wanted, num_replicas } as StreamConfig)
    return (await streams.update(wanted.name, wanted as StreamConfig)).config
  }
  if (found !== null) {
    // It belongs to one copy or to several, and no server changes it.
    link.log.warn(
      { stream: wanted.name, stored: found.state.messages },
      'a stream is made anew with another persist mode',
    )
    await streams.delete(wanted.name)
  }
  return (await streams.add(wanted as StreamConfig)).config
}

const persistModeOf = (config: object): string => (config as { persist_mode?: string }).persist_mode || 'default'

/** Like `ensureStreams`, for the stream of recorded parts of runs alone. */
export const ensureSpans = (link: Link, config: Config): Promise<unknown> => ensureStream(link, spans(config))

/** Creates a stream, without the messages of an existing one. */
export async function createStream(link: Link, config: Config, name: StreamName): Promise<void> {
  const { streams } = await managerOf(link)
  await streams.delete(name).catch(error => {
    if (!isNotFound(error)) throw error
  })
  await streams.add(settingsOf(name, config) as StreamConfig)
}

/** Throws one sentence when the server has no JetStream. */
async function managerOf(link: Link): Promise<JetStreamManager> {
  try {
    return await link.nc.jetstreamManager()
  } catch (error) {
    const { code } = error as { code?: string }
    if (code !== ErrorCode.NoResponders && code !== ErrorCode.JetStreamNotEnabled) throw error
    throw new Error(`the NATS server at ${link.nc.getServer()} has JetStream switched off: start it with -js`)
  }
}

/** The durable consumer of a pool; it has as many copies as its stream. Attempts are counted in the store, so nothing is ever dropped after n deliveries. */
export async function ensureConsumer(link: Link, pool: Pool): Promise<void> {
  const manager = await managerOf(link)
  const wanted: Partial<ConsumerConfig> = {
    durable_name: consumerOf(pool),
    filter_subject: queue(pool),
    ack_policy: AckPolicy.Explicit,
    ack_wait: nanos(ACK_WAIT_MS),
    max_ack_pending: MAX_ACK_PENDING,
    max_deliver: -1,
    max_waiting: 512,
  }
  const known = await manager.consumers.info(RUNS_STREAM, consumerOf(pool)).catch(error => {
    if (isNotFound(error)) return null
    throw error
  })
  if (known === null) await manager.consumers.add(RUNS_STREAM, wanted)
  else await manager.consumers.update(RUNS_STREAM, consumerOf(pool), wanted)
}

/** Removes the consumer of a pool and its queued wake-ups. A pool without a consumer is no error. */
export async function removeConsumer(link: Link, pool: Pool): Promise<void> {
  const manager = await managerOf(link)
  await manager.consumers.delete(RUNS_STREAM, consumerOf(pool)).catch(error => {
    if (!isNotFound(error)) throw error
  })
  await manager.streams.purge(RUNS_STREAM, { filter: queue(pool) })
}

/** Removes the stored events of a run. A broker that does not answer keeps them until they expire. */
export async function purgeEvents(link: Link, mux: Mux, run: RunId): Promise<void> {
  const body = json({ filter: chunks(run) })
  await mux
    .ask(`$JS.API.STREAM.PURGE.${EVENTS_STREAM}`, body)
    .catch(error => link.log.warn({ err: error, run_id: run }, 'the stored events of a run were not removed'))
}

export interface QueueInfo {
  pool: string
  /** Wake-ups that no worker has. */
  waiting: number
  /** Wake-ups that workers have and that are not done. */
  taken: number
  /** How many of them were delivered more than once. */
  redelivered: number
}

/** The queues of all pools, and the bytes that the streams store. Throws when the broker does not answer. */
export async function queueInfo(
  link: Link,
): Promise<{ queues: QueueInfo[]; streams: StreamFigures[]; account: AccountFigures }> {
  const manager = await managerOf(link)
  const queues: QueueInfo[] = []
  for await (const { name, num_pending, num_ack_pending, num_redelivered } of manager.consumers.list(RUNS_STREAM)) {
    const pool = poolOfConsumer(name)
    if (pool !== null) queues.push({ pool, waiting: num_pending, taken: num_ack_pending, redelivered: num_redelivered })
  }
  const [streams, { storage, api }] = await Promise.all([
    Promise.all(
      [RUNS_STREAM, EVENTS_STREAM, SPANS_STREAM].map(async name => figuresOf(await manager.streams.info(name))),
    ),
    manager.getAccountInfo(),
  ])
  return { queues, streams, account: { bytes: storage, api_errors: api.errors } }
}

interface AccountFigures {
  bytes: number
  api_errors: number
}

interface StreamFigures {
  name: string
  bytes: number
  max_bytes: number
  /** That it should have. */
  copies: number
  /** The replicas that its leader knows, with itself. */
  servers: { server: string; is_current: boolean; lag: number }[]
}

function figuresOf({ config, state, cluster }: StreamInfo): StreamFigures {
  const followers = (cluster?.replicas ?? []).map(({ name, current, offline, lag = 0 }) => ({
    server: name,
    is_current: current && offline !== true,
    lag,
  }))
  // A single server reports no name; a stream of a cluster may have no leader during an election.
  const leader = cluster === undefined ? 'single' : cluster.leader
  const leading = leader ? [{ server: leader, is_current: true, lag: 0 }] : []
  const { name, max_bytes, num_replicas } = config
  return { name, bytes: state.bytes, max_bytes, copies: num_replicas, servers: [...leading, ...followers] }
}

const SPANS_PAGE = 1_000
/** Bytes of one answer of the broker, and of all that is read of one run. */
const SPANS_PAGE_BYTES = 4 * 1024 * 1024
const MOST_SPANS_BYTES = 16 * MAX_SPANS_BYTES

export interface RunPlace {
  thread: ThreadId
  run: RunId
}

/** A graph worker waits for no confirmation: what the broker does not take is lost, and no run waits for it. */
export function publishSpans({ nc }: Pick<Link, 'nc'>, { thread, run }: RunPlace, batch: Uint8Array): void {
  nc.publish(spansSubject(thread, run), batch)
}

/** The batches of a run in the order of their storing. Throws `unavailable` when the broker does not answer. */
export async function readSpans(mux: Mux, { thread, run }: RunPlace): Promise<Uint8Array[]> {
  const found: Uint8Array[] = []
  let bytes = 0
  for (let seq = 1; ; ) {
    let pending = 0
    const before = found.length
    const request = { seq, batch: SPANS_PAGE, max_bytes: SPANS_PAGE_BYTES, next_by_subj: spansSubject(thread, run) }
    await mux.many(`$JS.API.DIRECT.GET.${SPANS_STREAM}`, json(request), ({ headers, data }) => {
      const code = headers?.code ?? 0
      // Nothing of the run, or the end of a page.
      if (code === 204 || code === 404) return true
      if (code >= 400) throw fail('unavailable', `The broker cannot read the spans of a run: ${headers?.description}`)
      seq = Number(headers?.get('Nats-Sequence')) + 1
      pending = Number(headers?.get('Nats-Num-Pending'))
      found.push(data)
      bytes += data.length
      return false
    })
    if (pending === 0 || found.length === before || bytes > MOST_SPANS_BYTES) return found
  }
}

/** Removes those of a run, or of all runs of a thread. A broker that does not answer keeps them until they expire. */
export async function purgeSpans(link: Link, mux: Mux, thread: ThreadId, run?: RunId): Promise<void> {
  const filter = run === undefined ? spansOfThread(thread) : spansSubject(thread, run)
  await mux
    .ask(`$JS.API.STREAM.PURGE.${SPANS_STREAM}`, json({ filter }))
    .catch(err => link.log.warn({ err, thread_id: thread, run_id: run }, 'the spans of runs were not removed'))
}
