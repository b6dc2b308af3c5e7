/**
 * The supervisor of a pool: takes wake-ups, claims runs, keeps leases, gives runs to hosts, stamps and publishes what
 * they send. It runs no user code, so a graph that blocks never stops its heartbeats; a run that has lost its lease is
 * stopped without further output. A run is charged an attempt only for what it did itself: runs that merely shared its
 * host are given back and start again at once.
 */
import type { Caller } from '../../bus/call.js'
import type { Link } from '../../bus/connect.js'
import type { Mux } from '../../bus/mux.js'
import { openPublisher } from '../../bus/publish.js'
import { type Puller, pull } from '../../bus/queue.js'
import { openRings } from '../../bus/ring.js'
import { validateCheckpointQuery } from '../../schemas/checkpoints.js'
import type { Config } from '../../schemas/config.js'
import { validateRunFailure } from '../../schemas/host.js'
import { type Pool, type RunId, token } from '../../schemas/ids.js'
import { attemptOf } from '../../schemas/subjects.js'
import { ANSWER, ASK, CHUNK, FROM_HOST, type Frame, MalformedFrame, monotonicMs, readJson, TO_HOST } from '../pipe.js'
import { type Claimed, openClaims } from './claims.js'
import { openHandBack } from './hand-back.js'
import { type HostCalls, openHostCalls } from './host-calls.js'
import type { HostEnd } from './host-end.js'
import type { GraphHost } from './host-process.js'
import { HEARTBEAT_MS, isFenced, isUnreachable, openLeaseClient, STORE_MS } from './lease-client.js'
import type { HostPool } from './pool.js'
import { openRunSignals } from './run-signals.js'
import { type ActiveRun, newActiveRun, openRunTable } from './run-table.js'
import { openStopping } from './stopping.js'

/** A claimed run goes back to the queue when no host was ready for this time. */
const NO_HOST_MS = 30_000
const MAX_SUSPECTS = 10_000
const PAUSE_MS = 10_000
/** The questions that a slot without a run may ask. */
const READS = new Set<number>([ASK.get, ASK.list])
/** While its host is blocked, the time left to a run is looked at this often. */
const MIN_LIMIT_MS = 200
/** A run of a graph that is not loaded here is given back after this time, so that another worker may take it. */
const MISPLACED_MS = 1_000
/** After this time it is charged: it ends as an error when no worker of the pool loads its graph. */
const MISPLACED_LIMIT_MS = 60_000
const MAX_MISPLACED = 10_000
/** `id: 0`, `event: x` and `data: 0`, with their line ends. */
const MIN_EVENT_BYTES = 22
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
}

export interface Supervisor {
  /** `graph_ids`: the graphs that are loaded. */
  start(hosts: HostPool, graph_ids: readonly string[]): void
  onFrame(host: GraphHost, frame: Frame): void
  /** The code of a slot holds the event loop of its host. */
  onBlocked(host: GraphHost, slot: number, ms: number): void
  onHostEnd(host: GraphHost, end: HostEnd): void
  /** Gives waiting runs to hosts and asks for more work. */
  fill(): void
  /** Passes a call to graph code, and its answer back. `host` is null when none is ready. */
  call(host: GraphHost | null, body: Uint8Array): Promise<{ body: Uint8Array }>
  /** As `call`, to a host that `pick` returns; another one is asked when a run blocks it. */
  callAny: HostCalls['callAny']
  /** Frames dropped because their slot was not assigned. */
  foreignFrames(): number
  running(): number
  quiet(): void
  stop(ms: number): Promise<void>
}

export function openSupervisor({ config, link, mux, caller, pool, worker }: SupervisorOptions): Supervisor {
  const { log } = link
  const rings = openRings()
  const table = openRunTable()
  const calls = openHostCalls(table)
  const leases = openLeaseClient(caller, worker, config.app_id)
  const signals = openRunSignals(link, rings, config.keep_ended_ms, cancel)
  const handBack = openHandBack({ log, table, leases, signals, onSlotFree: fill })
  const suspects = new Set<RunId>()
  const isolate = (graph_id: string, why: string) => hosts?.isolate(graph_id, why)
  const stopping = openStopping({ log, table, handBack, isolate, suspect })
  const claims = openClaims({ log, table, leases, signals, onClaimed: execute, onEnd: () => puller?.fill() })
  const limit_ms = config.run_timeout_secs * 1000
  /** Runs whose graph is not loaded here, and when the first of their attempts came. */
  const misplaced = new Map<RunId, number>()
  let graphs: ReadonlySet<string> = new Set()
  let hosts: HostPool | null = null
  let puller: Puller | null = null
  let foreign = 0
  let open = true

  const freeSlots = () => (open && hosts?.hasReadyHost() ? Math.max(0, config.slots - table.size() - claims.size()) : 0)

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
    const run = newActiveRun(run_id, lease, claimed, publisher)
    table.runs.set(run_id, run)
    if (!graphs.has(lease.graph_id) && !claimed.cancelled) return giveBackMisplaced(run)
    table.waiting.add(run)
    if (claimed.cancelled) stopping.stop(run, 'cancel')
    else if (!open) handBack.giveBack(run, NOT_HERE)
    else assign(run)
  }

  /**
   * Workers of one pool may load other graphs: during a deployment, or when two applications use the pool by mistake. The
   * run is not charged while another worker may take it.
   */
  function giveBackMisplaced(run: ActiveRun): void {
    const { run_id, graph_id, attempt } = run.lease
    const since = misplaced.get(run.run_id) ?? Date.now()
    misplaced.set(run.run_id, since)
    if (misplaced.size > MAX_MISPLACED) misplaced.delete(misplaced.keys().next().value!)
    log.warn({ run_id, graph_id, attempt, pool }, 'a run of this pool needs a graph that is not loaded here')
    const charge = Date.now() - since > MISPLACED_LIMIT_MS
    const error = {
      error: 'GraphNotLoaded',
      message: `Graph "${graph_id}" is not loaded by the workers of pool "${pool}"`,
    }
    setTimeout(() => handBack.giveBack(run, { charge, end: null, error }), MISPLACED_MS)
  }

  /** Starts a waiting run in a host, if there is one for it. */
  function assign(run: ActiveRun): void {
    const waited_ms = Date.now() - run.claimed_at
    const host = hosts?.pick(run.lease.graph_id, suspects.has(run.run_id), waited_ms) ?? null
    if (host === null || run.start === null) return
    table.assign(run, host)
    const { run_id, thread_id, attempt, graph_id } = run.lease
    log.info({ run_id, thread_id, graph_id, attempt, host: host.pid }, 'run started')
    host.send({ kind: TO_HOST.start, slot: run.slot, id: run.confirmed_at, body: run.start })
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

  // Frames from hosts.

  function onFrame(host: GraphHost, frame: Frame): void {
    if (frame.kind === FROM_HOST.called) return calls.onAnswer(host, frame)
    const run = table.get(host, frame.slot)
    const isAsk = frame.kind === FROM_HOST.ask
    if (run === undefined) {
      if (isAsk && READS.has(frame.flags) && table.isLent(host, frame.slot)) return ask(host, frame, null)
      foreign++
    } else if (isAsk) ask(host, frame, run)
    else if (frame.kind === FROM_HOST.chunk) publish(run, frame)
    else if (frame.kind === FROM_HOST.failed) logFailure(run, frame)
    else if (frame.kind === FROM_HOST.finish) finish(run, frame)
    else foreign++
  }

  /** One entry for an error of graph code. The error itself is in the finish of the run. */
  function logFailure(run: ActiveRun, { body }: Frame): void {
    if (isMuted(run)) return
    const { error, message, stack, ...where } = readJson(body, validateRunFailure)
    const { run_id, thread_id, attempt } = run.lease
    log.error({ run_id, thread_id, attempt, ...where, err: errorFrom(error, message, stack) }, 'run failed')
  }

  /** The host numbers its events; ids of another attempt, or not greater than the last, are dropped. */
  function publish(run: ActiveRun, { id, count, body, flags }: Frame): void {
    if (isMuted(run)) return
    if (count * MIN_EVENT_BYTES > body.length) throw new MalformedFrame(`${count} events do not fit into its body`)
    const lastId = id + count - 1
    const { attempt } = run.lease
    if (attemptOf(id) !== attempt || attemptOf(lastId) !== attempt || id <= run.last_event_id || count === 0) {
      foreign++
      return
    }
    run.last_event_id = lastId
    run.publisher.send(id, count, body, flags === CHUNK.v2)
    if (run.isHostPaused || !run.publisher.isCongested()) return
    run.isHostPaused = true
    run.host?.pause()
    void run.publisher.settled(PAUSE_MS).then(() => {
      run.isHostPaused = false
      run.host?.resume()
    })
  }

  /**
   * Reads checkpoints of the slot's own thread, whatever thread the host names, or saves them under its lease. `run` is
   * null for a slot that is lent to a call: it may read and not save.
   */
  function ask(host: GraphHost, frame: Frame, run: ActiveRun | null): void {
    const { slot, flags, id, body } = frame
    if (run !== null && isMuted(run)) return host.send({ kind: TO_HOST.answer, slot, id, flags: ANSWER.refused })
    if (run !== null && flags === ASK.save) return void answerAsk(host, frame, run, saveOf(run, body))
    if (run !== null && flags === ASK.items) return void answerAsk(host, frame, run, leases.items(run.lease, body))
    if (!READS.has(flags)) throw new MalformedFrame('its question is not known')
    const query = { ...readJson(body, validateCheckpointQuery), thread_id: table.threadOf(host, slot) }
    const bytes = Buffer.from(JSON.stringify(query))
    const verb = flags === ASK.get ? 'get' : 'list'
    void answerAsk(host, frame, run, leases.checkpoints(verb, run?.lease ?? null, bytes))
  }

  async function answerAsk(
    host: GraphHost,
    { slot, id }: Frame,
    run: ActiveRun | null,
    answer: Promise<Uint8Array>,
  ): Promise<void> {
    const reply = (flags: number, body?: Uint8Array) =>
      host.send({ kind: TO_HOST.answer, slot, id, flags, ...(body ? { body } : {}) })
    try {
      reply(ANSWER.ok, await answer)
    } catch (error) {
      const reason = isFenced(error) ? 'lost' : isUnreachable(error) ? 'store' : null
      if (run === null || reason === null)
        return reply(ANSWER.failed, Buffer.from(JSON.stringify({ detail: (error as Error).message })))
      stopping.stop(run, reason)
      reply(ANSWER.refused)
    }
  }

  function saveOf(run: ActiveRun, body: Uint8Array): Promise<Uint8Array> {
    const save = leases.checkpoints('save', run.lease, body)
    run.saves.add(save)
    const done = () => void run.saves.delete(save)
    save.then(done, done)
    return save
  }

  function finish(run: ActiveRun, frame: Frame): void {
    if (isMuted(run)) stopping.onStopped(run)
    else void handBack.finish(run, frame.body)
  }

  function onHostEnd(host: GraphHost, end: HostEnd): void {
    stopping.onHostEnd(host, end)
    calls.onHostEnd(host)
    table.removeHost(host)
  }

  // Leases.

  async function heartbeat(runs: ActiveRun[]): Promise<void> {
    if (runs.length === 0) return
    const sent_at = monotonicMs()
    try {
      const { cancel: cancelled, lost } = await leases.heartbeat(runs.map(run => run.lease))
      for (const run of runs) run.confirmed_at = sent_at
      for (const host of hosts?.all() ?? []) host.send({ kind: TO_HOST.confirm, id: sent_at })
      for (const run_id of cancelled) cancel(token('run', run_id))
      const lostRuns = new Set(lost)
      for (const run of runs) if (lostRuns.has(run.run_id)) stopping.stop(run, 'lost')
    } catch (error) {
      log.warn({ err: error, runs: runs.length }, 'a heartbeat was not confirmed')
    }
  }

  const heartbeats = setInterval(() => {
    const now = Date.now()
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

  return {
    start(hostPool, graph_ids) {
      hosts = hostPool
      graphs = new Set(graph_ids)
      puller = pull(link, mux, pool, freeSlots, claims.onJob)
      puller.fill()
    },
    onFrame,
    onBlocked: stopping.onBlocked,
    onHostEnd,
    fill,
    call: calls.call,
    callAny: calls.callAny,
    foreignFrames: () => foreign,
    running: table.size,
    quiet() {
      open = false
      claims.quiet()
      puller?.quiet()
    },
    /** A run that does not finish in time is given back: its host is killed first, so that it never runs twice. */
    async stop(ms) {
      const until = Date.now() + ms
      let connected_at = Date.now()
      const isCutOff = () => connected_at < Date.now() - CUT_OFF_MS
      while ((table.runs.size > 0 || claims.size() > 0) && Date.now() < until - HAND_BACK_MS && !isCutOff()) {
        await new Promise(done => setTimeout(done, 20))
        if (link.connected()) connected_at = Date.now()
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
      signals.close()
    },
  }
}

/** An error as the logger serialises it: its `type` is the name where there is no constructor. */
function errorFrom(name: string, message: string, stack: string | null): Error {
  const error = new Error(message)
  error.stack = stack ?? `${name}: ${message}`
  return Object.defineProperties(error, { name: { value: name }, constructor: { value: null } })
}

const NOT_HERE = {
  charge: false,
  end: null,
  error: { error: 'WorkerLost', message: 'its worker could not go on with it' },
} as const

/** Nothing more of the run leaves this process. */
const isMuted = (run: ActiveRun): boolean => run.stopReason === 'lost' || run.stopReason === 'store'
