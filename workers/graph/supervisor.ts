/**
 * The supervisor of a pool: takes wake-ups, claims runs, keeps leases, gives runs to hosts, stamps and publishes what
 * they send. It runs no user code, so a graph that blocks never stops its heartbeats; a run that has lost its lease is
 * stopped without further output. A run is charged an attempt only for what it did itself: runs that merely shared its
 * host are given back and start again at once.
 */
import type { Caller } from '../../bus/call.js'
import type { Link } from '../../bus/connect.js'
import type { Mux } from '../../bus/mux.js'
import type { Tracer } from '../../bus/otlp/traces.js'
import { openPublisher } from '../../bus/publish.js'
import { type Puller, pull } from '../../bus/queue.js'
import { openRings } from '../../bus/ring.js'
import type { Context, Reply } from '../../bus/serve.js'
import type { ClaimedLease } from '../../schemas/calls.js'
import type { Config } from '../../schemas/config.js'
import { type Member, type Pool, type RunId, token } from '../../schemas/ids.js'
import type { HostReport } from '../../schemas/metrics.js'
import { FROM_HOST, type Frame, monotonicMs, START, TO_HOST } from '../pipe.js'
import { type Claimed, openClaims } from './claims.js'
import { openHandBack } from './hand-back.js'
import { openHostAsks } from './host-asks.js'
import { type HostCalls, openHostCalls } from './host-calls.js'
import type { HostEnd } from './host-end.js'
import { logFailure, noteCheckpoint, publishEvents } from './host-events.js'
import type { GraphHost } from './host-process.js'
import { reportHosts } from './host-reports.js'
import { HEARTBEAT_MS, openLeaseClient, STORE_MS } from './lease-client.js'
import type { LineRun } from './log-ring.js'
import { openMisplaced } from './misplaced.js'
import { openOffers } from './offers.js'
import type { HostPool } from './pool.js'
import { openRunSignals } from './run-signals.js'
import { openRunSpans } from './run-spans.js'
import { type ActiveRun, isMuted, newActiveRun, openRunTable } from './run-table.js'
import { openStopping } from './stopping.js'

/** A claimed run is returned to the queue when no host was ready for this time. */
const NO_HOST_MS = 30_000
/** Writing so many bytes as JSON takes the event loop of a host for as long as dozens of short runs. */
const LARGE = 4 * 1024 * 1024
const MAX_SUSPECTS = 10_000
/** While its host is blocked, the time left to a run is looked at this often. */
const MIN_LIMIT_MS = 200
/** A stop without a broker for this time gives up on its runs: the process that stops us has ended the broker, too. */
const CUT_OFF_MS = 1_000
/** The part of the time to stop that is reserved for giving runs back. */
const HAND_BACK_MS = 1_500

export interface SupervisorOptions {
  config: Config
  link: Link
  mux: Mux
  caller: Caller
  pool: Pool
  worker: string
  tracer: Tracer | null
}

export interface Supervisor {
  /** Takes runs that are handed over, as `member`. `graph_ids`: the graphs that are loaded. */
  offer(hosts: HostPool, graph_ids: readonly string[], member: Member): void
  /** Takes runs from the work queue, too. */
  start(): void
  /** A run that was claimed for this worker; the answer is the next offer of slots. */
  take(start: Uint8Array, context: Context): Reply
  onFrame(host: GraphHost, frame: Frame): void
  /** The code of a slot holds the event loop of its host. */
  onBlocked(host: GraphHost, slot: number, ms: number): void
  onHostEnd(host: GraphHost, end: HostEnd): void
  /** Gives waiting runs to hosts and asks for more work. */
  fill(): void
  /** Passes a call to graph code, and its answer back. `host` is null when none is ready. */
  call(host: GraphHost | null, body: Uint8Array): Promise<{ body: Uint8Array }>
  /** Like `call`, to a host that `pick` returns; another one is asked when a run blocks it. */
  callAny: HostCalls['callAny']
  /** Frames dropped because their slot was not assigned. */
  foreignFrames(): number
  running(): number
  /** The hosts, and which run holds the event loop of each. */
  hostReports(): HostReport[]
  /** The run of a slot, also when it has ended: its last output may come later. */
  runOf(host: GraphHost, slot: number): LineRun | null
  /** Milliseconds since the oldest confirmed heartbeat of a run; 0 without runs. */
  leaseAge(): number
  /** Wake-ups since the start. */
  jobs(): ReturnType<Puller['counts']>
  quiet(): void
  stop(ms: number): Promise<void>
}

export function openSupervisor({ config, link, mux, caller, pool, worker, tracer }: SupervisorOptions): Supervisor {
  const { log } = link
  const rings = openRings()
  const table = openRunTable()
  const calls = openHostCalls(table)
  const leases = openLeaseClient(caller, worker, { app: config.app_id, pool })
  const signals = openRunSignals(link, pool, rings, config.keep_ended_ms, { cancel, locate })
  const awaitsHost = () => open && hosts?.hasReadyHost() === false
  const handBack = openHandBack({ log, table, leases, signals, onSlotFree: fill, awaitsHost })
  const suspects = new Set<RunId>()
  const isolate = (graph_id: string, why: string, host?: GraphHost) => hosts?.isolate(graph_id, why, host)
  const onStop = (reason: string) => link.figures.count('weft_run_stops_total', { pool, reason })
  const stopping = openStopping({ log, table, handBack, onStop, isolate, suspect })
  const claims = openClaims({ log, table, leases, signals, onClaimed: execute, onEnd: () => puller?.fill() })
  const limits = { reads_per_second: config.host_reads_per_second, bytes: config.host_bytes_in_flight }
  const asks = openHostAsks({ table, leases, stopping, limits })
  const spans = openRunSpans(link, tracer, config.run_spans_hours > 0)
  const misplaced = openMisplaced({ log, pool, handBack })
  const limit_ms = config.run_timeout_secs * 1000
  let graphs: ReadonlySet<string> = new Set()
  let hosts: HostPool | null = null
  let puller: Puller | null = null
  let foreign = 0
  let open = true

  const freeSlots = () => (open && hosts?.hasReadyHost() ? Math.max(0, config.slots - table.size() - claims.size()) : 0)
  const canStart = ({ run_id, graph_id }: ClaimedLease) =>
    freeSlots() > 0 && graphs.has(graph_id) && !table.runs.has(token('run', run_id))
  const offers = openOffers({ link, pool, worker, freeSlots, canStart, signals, onClaimed: execute })

  // Executing runs.

  function execute(claimed: Claimed): void {
    const { run_id, lease } = claimed
    const { attempt, resumable } = lease
    // An earlier attempt has used up the budget: nothing is left for this one.
    const budget = lease.resumable_until_id === null ? config.resumable_bytes : 0
    const onSpent = (until: number) => {
      log.warn({ run_id, attempt, until }, 'the stored stream of a run is full; it continues and cannot be resumed')
      if (lease.resumable_until_id !== null) return
      run.streamFullStored = leases
        .streamFull(lease, until)
        .catch(error => log.warn({ err: error, run_id }, 'the end of a stored stream could not be saved'))
    }
    const publisher = openPublisher(link, mux, rings, { run: run_id, attempt, resumable, budget, onSpent })
    signals.begin(run_id)
    const run = newActiveRun(run_id, lease, claimed, publisher)
    spans.begin(run)
    table.runs.set(run_id, run)
    if (!graphs.has(lease.graph_id) && !claimed.cancelled) return misplaced.giveBack(run)
    table.waiting.add(run)
    if (claimed.cancelled) stopping.stop(run, 'cancel')
    else if (!open) handBack.giveBack(run, NOT_HERE)
    else assign(run)
  }

  /** Starts a waiting run in a host, if there is one for it. */
  function assign(run: ActiveRun): void {
    const waited_ms = performance.now() - run.claimed_at
    const host = hosts?.pick(run.lease.graph_id, suspects.has(run.run_id), waited_ms) ?? null
    if (host === null || run.start === null) return
    table.assign(run, host)
    const { run_id, thread_id, attempt, graph_id } = run.lease
    log.info({ run_id, thread_id, graph_id, attempt, host: host.pid }, 'run started')
    const flags = spans.wants(run) ? START.recorded : 0
    host.send({ kind: TO_HOST.start, slot: run.slot, flags, id: run.confirmed_at, body: run.start })
    run.start = null
    limitTime(run, host)
  }

  /** The time in which other runs held the event loop does not count: a run is not to blame for its host. */
  function limitTime(run: ActiveRun, host: GraphHost): void {
    // A longer time than setTimeout can count is no limit.
    if (limit_ms <= 0 || limit_ms >= 2 ** 31) return
    const ownTime = () => performance.now() - host.held.byOthers(run.slot)
    const started_at = ownTime()
    const check = () => {
      const left = started_at + limit_ms - ownTime()
      if (left <= 0) stopping.stop(run, 'timeout')
      else run.limitTimer = setTimeout(check, Math.max(left, MIN_LIMIT_MS))
    }
    run.limitTimer = setTimeout(check, limit_ms)
  }

  function suspect(run: RunId): void {
    suspects.add(run)
    if (suspects.size > MAX_SUSPECTS) suspects.delete(suspects.values().next().value!)
  }

  function fill(): void {
    for (const run of table.waiting) assign(run)
    puller?.fill()
  }

  function cancel(run_id: RunId): void {
    claims.cancel(run_id)
    const run = table.runs.get(run_id)
    if (run !== undefined) stopping.stop(run, 'cancel')
  }

  /** The last event of the run before this checkpoint. */
  function locate(run_id: RunId, checkpoint: string): number | null {
    return table.runs.get(run_id)?.checkpoints?.get(checkpoint) ?? null
  }

  // Frames from hosts.

  function onFrame(host: GraphHost, frame: Frame): void {
    if (frame.kind === FROM_HOST.called) return calls.onAnswer(host, frame)
    const run = table.get(host, frame.slot)
    if (run !== undefined && frame.body.length >= LARGE)
      isolate(run.lease.graph_id, 'its state or events are large', host)
    if (frame.kind === FROM_HOST.ask) {
      if (!asks.onAsk(host, frame, run)) foreign++
    } else if (run === undefined) foreign++
    else if (frame.kind === FROM_HOST.chunk) {
      if (!publishEvents(run, frame)) foreign++
    } else if (frame.kind === FROM_HOST.checkpoint) {
      if (!noteCheckpoint(run, frame)) foreign++
    } else if (frame.kind === FROM_HOST.failed) {
      if (!logFailure(log, run, frame)) foreign++
    } else if (frame.kind === FROM_HOST.spans) spans.onFrame(run, frame)
    else if (frame.kind === FROM_HOST.finish) finish(run, frame)
    else foreign++
  }

  function finish(run: ActiveRun, frame: Frame): void {
    if (isMuted(run)) stopping.onStopped(run)
    else void handBack.finish(run, frame.body)
  }

  function onHostEnd(host: GraphHost, end: HostEnd): void {
    stopping.onHostEnd(host, end)
    calls.onHostEnd(host)
    asks.onHostEnd(host)
    table.removeHost(host)
  }

  // Leases.

  /** `sent_at`: of the heartbeat. Its answer may be late, and later than that of a newer one. */
  function confirm(run: ActiveRun, sent_at: number): void {
    run.confirmed_at = Math.max(run.confirmed_at, sent_at)
    // A stopped run starts no node any more.
    if (run.phase === 'running' && run.stopReason === null)
      run.host?.send({ kind: TO_HOST.confirm, slot: run.slot, id: sent_at })
  }

  /** Runs that the answer takes away are passed on before those that it permits. */
  async function heartbeat(runs: ActiveRun[]): Promise<void> {
    if (runs.length === 0) return
    const sent_at = monotonicMs()
    try {
      const { cancel: cancelled, lost } = await leases.heartbeat(runs.map(run => run.lease))
      const lostRuns = new Set(lost)
      for (const run of runs) if (lostRuns.has(run.run_id)) stopping.stop(run, 'lost')
      for (const run_id of cancelled) cancel(token('run', run_id))
      for (const run of runs) if (!lostRuns.has(run.run_id)) confirm(run, sent_at)
    } catch (error) {
      log.warn({ err: error, runs: runs.length }, 'a heartbeat was not confirmed')
    }
  }

  const heartbeats = setInterval(() => {
    const now = performance.now()
    const runs = [...table.runs.values()]
    for (const { job } of runs) job.working()
    claims.extend()
    for (const run of table.waiting) assign(run)
    for (const run of runs) {
      if (run.phase === 'waiting' && run.claimed_at < now - NO_HOST_MS && !hosts?.hasReadyHost())
        handBack.giveBack(run, NOT_HERE)
      else if (run.confirmed_at < monotonicMs() - STORE_MS) stopping.stop(run, 'store')
    }
    void heartbeat(runs)
  }, HEARTBEAT_MS)
  // An outage may have taken the last one along, and the next one may come too late (resources/runs/holders.ts).
  const stopListening = link.onReconnect(() => void heartbeat([...table.runs.values()]))

  return {
    offer(hostPool, graph_ids, member) {
      hosts = hostPool
      graphs = new Set(graph_ids)
      if (config.hand_over) offers.open(member)
    },
    start() {
      puller = pull(link, mux, pool, offers.forQueue, claims.onJob)
      puller.fill()
    },
    take: (start, context) => ({ body: JSON.stringify(offers.start(context, start)) }),
    onFrame,
    onBlocked: stopping.onBlocked,
    onHostEnd,
    fill,
    call: calls.call,
    callAny: calls.callAny,
    foreignFrames: () => foreign,
    running: table.size,
    runOf(host, slot) {
      if (slot === 0) return null
      const former = table.formerRun(slot)
      const run = table.get(host, slot)?.lease ?? (former?.pid === host.pid ? former : undefined)
      // A lease has the input of its run, which must not be kept as long as a line.
      return run === undefined ? null : { run_id: run.run_id, thread_id: run.thread_id, graph_id: run.graph_id }
    },
    hostReports: () => reportHosts(hosts?.all() ?? [], table, config.app_id, pool),
    leaseAge: () => {
      const now = monotonicMs()
      return Math.max(0, ...[...table.runs.values()].map(run => now - run.confirmed_at))
    },
    jobs: () => puller?.counts() ?? { jobs: 0, redelivered: 0 },
    quiet() {
      open = false
      offers.quiet()
      claims.quiet()
      puller?.quiet()
    },
    /** A run that does not finish in time is given back: its host is killed first, so that it never runs twice. */
    async stop(ms) {
      const until = performance.now() + ms
      let connected_at = performance.now()
      const isCutOff = () => connected_at < performance.now() - CUT_OFF_MS
      const isBusy = () => table.runs.size > 0 || claims.size() > 0 || puller?.ended() === false
      while (isBusy() && performance.now() < until - HAND_BACK_MS && !isCutOff()) {
        await new Promise(done => setTimeout(done, 20))
        if (link.connected()) connected_at = performance.now()
      }
      leases.stopRetrying()
      hosts?.quiet()
      const runs = [...table.runs.values()]
      for (const run of runs) {
        if (run.phase === 'waiting') handBack.giveBack(run, NOT_HERE)
        else if (run.phase === 'running') run.host?.kill()
      }
      // Without a broker nothing can be given back: the runs are taken over.
      if (!isCutOff()) await Promise.all(runs.map(run => run.left))
      clearInterval(heartbeats)
      stopListening()
      signals.close()
    },
  }
}

const NOT_HERE = {
  charge: false,
  end: null,
  error: { error: 'WorkerLost', message: 'its worker could not go on with it' },
} as const
