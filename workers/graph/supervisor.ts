/**
 * The supervisor of a pool: takes wake-ups, claims runs, keeps leases, gives runs to hosts, stamps and publishes what
 * they send. It runs no user code, so its heartbeats never stop for a graph that blocks; a run whose authority is lost
 * is stopped without another word. A run is charged an attempt only for what it did itself: those that merely shared
 * its host are given back and start again at once.
 */
import type { Caller } from '../../bus/call.js'
import type { Link } from '../../bus/connect.js'
import type { Mux } from '../../bus/mux.js'
import { openPublisher } from '../../bus/publish.js'
import { type Job, type Puller, pull } from '../../bus/queue.js'
import { openRings } from '../../bus/ring.js'
import type { Config } from '../../schemas/config.js'
import { type Pool, type RunId, token } from '../../schemas/ids.js'
import { attemptOf } from '../../schemas/subjects.js'
import { ASK, CHUNK, FROM_HOST, type Frame, TO_HOST } from '../pipe.js'
import { openGiving } from './hand-back.js'
import type { HostEnd } from './host-end.js'
import type { GraphHost } from './host-process.js'
import { BEAT_MS, isFenced, isUnreachable, openAuthority, STORE_MS } from './lease-client.js'
import type { HostPool } from './pool.js'
import { openOrders } from './run-signals.js'
import { type Executing, executing, openTable, type Taken } from './run-table.js'
import { openStopping } from './stopping.js'

/** Time to see whether the holder of a redelivered run still beats (reliability 2.1.4). */
const WATCH_MS = 6_000
/** A claimed run goes back to the line when no host was up for so long. */
const SEAT_MS = 30_000
/** So long a run that has ended a host waits for one to itself. */
const SOLO_MS = 10_000
const MAX_SUSPECTS = 10_000
/** Unconfirmed messages of a run at which its host is held back. */
const MAX_BACKLOG = 2_048
/** Kept of the time to stop, to give back what is left. */
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
  start(hosts: HostPool): void
  onFrame(host: GraphHost, frame: Frame): void
  /** The code of a slot holds the event loop of its host. */
  onBlocked(host: GraphHost, slot: number, ms: number): void
  onLost(host: GraphHost, end: HostEnd): void
  /** There may be a place for what waits, and for more. */
  fill(): void
  /** Lends a slot to a question about a thread; its asks may read and nothing else. */
  lend(host: GraphHost): { slot: number; back(): void }
  onCalled: Map<number, (frame: Frame) => void>
  /** Frames for slots that were not assigned, dropped. */
  foreignFrames(): number
  running(): number
  quiet(): void
  stop(ms: number): Promise<void>
}

/** A wake-up whose claim is on its way. */
interface Claiming {
  job: Job
  cancelled: boolean
}

export function openSupervisor({ config, link, mux, caller, pool, worker }: SupervisorOptions): Supervisor {
  const { log } = link
  const rings = openRings()
  const table = openTable()
  const claims = new Map<RunId, Claiming>()
  const authority = openAuthority(caller, worker)
  const orders = openOrders(link, rings, config.keep_ended_ms, cancel)
  const giving = openGiving({ log, table, authority, orders, onFree: () => fill() })
  const suspects = new Set<RunId>()
  const stopping = openStopping({ log, table, giving, isolate: (graph, why) => hosts?.isolate(graph, why), suspect })
  const onCalled = new Map<number, (frame: Frame) => void>()
  const limit_ms = config.run_timeout_secs * 1000
  let hosts: HostPool | null = null
  let puller: Puller | null = null
  let foreign = 0
  let open = true

  const free = () => (open && hosts?.open() ? Math.max(0, config.slots - table.size() - claims.size) : 0)

  // Taking work.

  /** The broker may deliver a wake-up again, or hold two for one run: one of them stays, and none starts it twice. */
  function onJob(job: Job): void {
    const run = token<'run'>('run', job.run_id)
    const known = table.runs.get(run)
    if (known?.phase === 'ends' && known.job.seq !== job.seq) {
      // The wake-up of its next attempt, maybe: not before this one is over.
      void known.over.then(() => (open ? onJob(job) : job.back()))
      return
    }
    const holder = known ?? claims.get(run)
    if (holder === undefined) return void claim(run, job)
    // The newer one counts; the same message again needs no second answer.
    if (holder.job.seq !== job.seq) void holder.job.done()
    holder.job = job
  }

  async function claim(run: RunId, job: Job): Promise<void> {
    const claiming: Claiming = { job, cancelled: false }
    claims.set(run, claiming)
    orders.listen(run)
    try {
      const taken = await take(claiming)
      if (taken === null) orders.dismiss(run)
      else execute(run, claiming, taken.lease, taken.start)
    } catch (error) {
      log.warn({ err: error, run_id: run }, 'a wake-up could not be worked on; giving it back')
      orders.dismiss(run)
      claiming.job.back(1_000)
    } finally {
      claims.delete(run)
      puller?.fill()
    }
  }

  async function take(claiming: Claiming): Promise<{ lease: Taken; start: Uint8Array } | null> {
    let hb: number | undefined
    for (;;) {
      const { head, body } = await authority.claim(claiming.job, hb)
      if (head.claim === 'taken' && head.lease !== undefined) return { lease: head.lease, start: body }
      if (head.claim !== 'held') void claiming.job.done()
      else if (hb !== undefined) claiming.job.back(15_000)
      if (head.claim !== 'held' || hb !== undefined) return null
      hb = head.lease?.hb
      await new Promise(done => setTimeout(done, WATCH_MS))
    }
  }

  function execute(run: RunId, { job, cancelled }: Claiming, lease: Taken, start: Uint8Array): void {
    const { attempt, resumable } = lease
    // What an earlier attempt has spent is not there for this one.
    const budget = lease.resumable_until_id === null ? config.resumable_bytes : 0
    const onSpent = (until: number) => {
      log.warn(
        { run_id: run, attempt, until },
        'the stored stream of a run is full; it streams on and cannot be resumed',
      )
      if (lease.resumable_until_id !== null) return
      const untold = (error: unknown) =>
        log.warn({ err: error, run_id: run }, 'how far a stream is kept was not stored')
      one.kept = authority.kept(lease, until).catch(untold)
    }
    const publisher = openPublisher(link, mux, rings, { run, attempt, resumable, budget, onSpent })
    const one = executing(run, lease, job, publisher, start)
    table.runs.set(run, one)
    table.waits.add(one)
    if (cancelled) stopping.stop(one, 'cancel')
    else if (!open) giving.back(one, NOT_HERE)
    else seat(one)
  }

  function seat(one: Executing): void {
    const solo = !suspects.has(one.run) ? 'no' : Date.now() - one.since < SOLO_MS ? 'yes' : 'given up'
    const host = hosts?.place(one.lease.graph_id, solo) ?? null
    if (host === null || one.start === null) return
    table.seat(one, host)
    const { run_id, thread_id, attempt } = one.lease
    log.info({ run_id, thread_id, attempt, host: host.pid }, 'run started')
    host.send({ kind: TO_HOST.start, slot: one.slot, body: one.start })
    one.start = null
    // More than setTimeout can count is for ever.
    if (limit_ms > 0 && limit_ms < 2 ** 31) one.limit = setTimeout(() => stopping.stop(one, 'timeout'), limit_ms)
  }

  function suspect(run: RunId): void {
    suspects.add(run)
    if (suspects.size > MAX_SUSPECTS) suspects.delete(suspects.values().next().value!)
  }

  function fill(): void {
    for (const one of table.waits) seat(one)
    puller?.fill()
  }

  function cancel(run: RunId): void {
    const one = table.runs.get(run)
    const claiming = claims.get(run)
    if (claiming !== undefined) claiming.cancelled = true
    if (one !== undefined) stopping.stop(one, 'cancel')
  }

  // What hosts send.

  function onFrame(host: GraphHost, frame: Frame): void {
    if (frame.kind === FROM_HOST.called) return void onCalled.get(frame.id)?.(frame)
    const one = table.at(host, frame.slot)
    const isAsk = frame.kind === FROM_HOST.ask
    if (one === undefined) {
      if (isAsk && frame.flags !== ASK.save && table.isLent(host, frame.slot)) return void ask(host, frame, null)
      foreign++
    } else if (isAsk) void ask(host, frame, one)
    else if (frame.kind === FROM_HOST.chunk) chunk(one, frame)
    else if (frame.kind === FROM_HOST.finish) finish(one, frame)
    else foreign++
  }

  /** The host numbers its events; ids that are not this attempt's, or not greater, are not ours to pass on. */
  function chunk(one: Executing, { id, count, body, flags }: Frame): void {
    if (isMute(one)) return
    const lastId = id + count - 1
    const { attempt } = one.lease
    if (attemptOf(id) !== attempt || attemptOf(lastId) !== attempt || id <= one.last || count === 0) {
      foreign++
      return
    }
    one.last = lastId
    one.publisher.send(id, count, body, flags === CHUNK.v2)
    if (one.paused || one.publisher.backlog() < MAX_BACKLOG) return
    one.paused = true
    one.host?.pause()
    void one.publisher.settled(10_000).then(() => {
      one.paused = false
      one.host?.resume()
    })
  }

  async function ask(host: GraphHost, { slot, id, flags, body }: Frame, one: Executing | null): Promise<void> {
    const verb = flags === ASK.save ? 'save' : flags === ASK.get ? 'get' : 'list'
    const reply = (flags: number, body?: Uint8Array) =>
      host.send({ kind: TO_HOST.answer, slot, id, flags, ...(body ? { body } : {}) })
    if (one !== null && isMute(one)) return reply(REFUSED)
    const answer = authority.checkpoints(verb, one?.lease ?? null, body)
    if (verb === 'save') one?.saves.add(answer)
    try {
      reply(GOOD, await answer)
    } catch (error) {
      const why = isFenced(error) ? 'lost' : isUnreachable(error) ? 'store' : null
      if (one === null || why === null)
        return reply(FAILED, Buffer.from(JSON.stringify({ detail: (error as Error).message })))
      stopping.stop(one, why)
      reply(REFUSED)
    } finally {
      one?.saves.delete(answer)
    }
  }

  function finish(one: Executing, frame: Frame): void {
    if (isMute(one)) stopping.stopped(one)
    else void giving.finish(one, frame.body)
  }

  function onLost(host: GraphHost, end: HostEnd): void {
    table.forget(host)
    stopping.died(host, end)
  }

  // Leases.

  async function beat(runs: Executing[]): Promise<void> {
    if (runs.length === 0) return
    try {
      const { cancel: stop, lost } = await authority.beat(runs.map(one => one.lease))
      const now = Date.now()
      for (const one of runs) one.confirmed = now
      for (const run of stop) cancel(token('run', run))
      const gone = new Set(lost)
      for (const one of runs) if (gone.has(one.run)) stopping.stop(one, 'lost')
    } catch (error) {
      log.warn({ err: error, runs: runs.length }, 'a heartbeat was not confirmed')
    }
  }

  const beats = setInterval(() => {
    const now = Date.now()
    const runs = [...table.runs.values()]
    for (const { job } of runs) job.working()
    for (const { job } of claims.values()) job.working()
    for (const one of table.waits) seat(one)
    for (const one of runs) {
      if (one.phase === 'waits' && one.since < now - SEAT_MS && !hosts?.open()) giving.back(one, NOT_HERE)
      else if (one.confirmed < now - STORE_MS) stopping.stop(one, 'store')
    }
    void beat(runs)
  }, BEAT_MS)

  return {
    start(pool_of_hosts) {
      hosts = pool_of_hosts
      puller = pull(link, mux, pool, free, onJob)
      puller.fill()
    },
    onFrame,
    onBlocked: stopping.blocked,
    onLost,
    fill,
    lend: table.lend,
    onCalled,
    foreignFrames: () => foreign,
    running: table.size,
    quiet() {
      open = false
      puller?.quiet()
    },
    /** What has not finished by then is given back: its host is killed first, so that it runs nowhere twice. */
    async stop(ms) {
      const until = Date.now() + ms
      while ((table.runs.size > 0 || claims.size > 0) && Date.now() < until - HAND_BACK_MS)
        await new Promise(done => setTimeout(done, 20))
      authority.hurry()
      hosts?.quiet()
      const left = [...table.runs.values()]
      for (const one of left) {
        if (one.phase === 'waits') giving.back(one, NOT_HERE)
        else if (one.phase === 'runs') one.host?.kill()
      }
      await Promise.all(left.map(one => one.over))
      clearInterval(beats)
      orders.close()
    },
  }
}

/** flags of an answer frame. */
const [GOOD, REFUSED, FAILED] = [0, 1, 2]

const NOT_HERE = {
  charge: false,
  end: null,
  error: { error: 'WorkerLost', message: 'its worker could not go on with it' },
} as const

/** Nothing more of it leaves this process. */
const isMute = (one: Executing): boolean => one.stop === 'lost' || one.stop === 'store'
