/**
 * The supervisor of a pool: takes wake-ups, claims runs, keeps leases, gives runs to hosts, stamps and publishes what
 * they send. It runs no user code, so its heartbeats never stop for a graph that blocks; a run whose authority is lost
 * is dropped without another word.
 */
import type { Caller } from '../../bus/call.js'
import type { Link } from '../../bus/connect.js'
import { readOrder } from '../../bus/events.js'
import type { Mux } from '../../bus/mux.js'
import { openPublisher, type Publisher } from '../../bus/publish.js'
import { type Job, type Puller, pull } from '../../bus/queue.js'
import { openRings } from '../../bus/ring.js'
import type { Beaten, Lease } from '../../schemas/calls.js'
import type { Config } from '../../schemas/config.js'
import { WeftError } from '../../schemas/errors.js'
import { type Pool, type RunId, token } from '../../schemas/ids.js'
import { attemptOf, control, rpc } from '../../schemas/subjects.js'
import { ASK, FROM_HOST, type Frame, TO_HOST } from './frames.js'
import type { GraphHost } from './host-process.js'
import type { HostPool } from './pool.js'

const BEAT_MS = 5_000
/** Time to see whether the holder of a redelivered run still beats (reliability 2.1.4). */
const WATCH_MS = 6_000
/** An unreachable store pauses a run; after so long it is given up here and taken over elsewhere. */
const STORE_MS = 60_000
/** Unconfirmed messages of a run at which its host is held back. */
const MAX_BACKLOG = 2_048
/** Ended runs whose ring is kept, at most: the oldest goes first. */
const MAX_ENDED = 10_000

interface Executing {
  host: GraphHost
  slot: number
  run: RunId
  lease: Lease
  resumable: boolean
  job: Job
  publisher: Publisher
  /** The greatest event id taken from the host. */
  last: number
  paused: boolean
}

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
  onLost(host: GraphHost, why: string): void
  /** Asks for what the free slots allow. */
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

export function openSupervisor({ config, link, mux, caller, pool, worker }: SupervisorOptions): Supervisor {
  const { log, nc } = link
  const rings = openRings(link)
  const executing = new Map<number, Executing>()
  const byRun = new Map<RunId, Executing>()
  const lent = new Map<number, GraphHost>()
  const orders = new Map<RunId, { unsubscribe(): void }>()
  const ended: { run: RunId; at: number }[] = []
  const onCalled = new Map<number, (frame: Frame) => void>()
  let hosts: HostPool | null = null
  let puller: Puller | null = null
  let claiming = 0
  let lastSlot = 0
  let foreign = 0
  let open = true

  const free = () => (open && hosts?.choose() !== null ? Math.max(0, config.slots - executing.size - claiming) : 0)

  async function onJob(job: Job): Promise<void> {
    claiming++
    const working = setInterval(() => job.working(), BEAT_MS)
    try {
      await take(job)
    } catch (error) {
      log.warn({ err: error, run_id: job.run_id }, 'a wake-up could not be worked on; giving it back')
      job.back(1_000)
    } finally {
      clearInterval(working)
      claiming--
      puller?.fill()
    }
  }

  async function take(job: Job): Promise<void> {
    let hb: number | undefined
    for (;;) {
      const body = Buffer.from(
        JSON.stringify({ run_id: job.run_id, thread_id: job.thread_id, worker, ...(hb === undefined ? {} : { hb }) }),
      )
      const answer = await caller.ask(rpc('runs', 'claim'), { request_id: job.run_id }, body, {
        timeout: 10_000,
        patience: 5_000,
      })
      const { claim, lease } = answer.head
      if (claim === 'taken' && lease !== undefined) return execute(job, lease, answer.body)
      if (claim !== 'held' || byRun.has(token('run', job.run_id))) return void job.done()
      if (hb !== undefined) return job.back(15_000)
      hb = lease?.hb
      await new Promise(done => setTimeout(done, WATCH_MS))
    }
  }

  function execute(job: Job, lease: Lease & { resumable: boolean }, start: Uint8Array): void {
    const host = hosts?.choose() ?? null
    const run = token<'run'>('run', lease.run_id)
    if (host === null) {
      void release(lease, false, 'no host is up')
      return void job.done()
    }
    do lastSlot = (lastSlot + 1) % 0xffffffff
    while (executing.has(lastSlot) || lent.has(lastSlot))
    const publisher = openPublisher(link, mux, rings, {
      run,
      attempt: lease.attempt,
      resumable: lease.resumable,
      budget: config.resumable_bytes,
    })
    const one: Executing = {
      host,
      slot: lastSlot,
      run,
      lease,
      resumable: lease.resumable,
      job,
      publisher,
      last: -1,
      paused: false,
    }
    executing.set(one.slot, one)
    byRun.set(run, one)
    host.slots.add(one.slot)
    obey(run)
    log.info({ run_id: run, thread_id: lease.thread_id, attempt: lease.attempt, host: host.pid }, 'run started')
    host.send({ kind: TO_HOST.start, slot: one.slot, body: start })
  }

  /** Orders for the run: cancel while it runs, replay while its ring is kept. */
  function obey(run: RunId): void {
    if (orders.has(run)) return
    const subscription = nc.subscribe(control(run), {
      callback: (error, message) => {
        if (error) return
        const order = readOrder(message.data)
        if (order.do === 'replay') rings.answer(run, order.after, message)
        else cancel(run)
      },
    })
    orders.set(run, subscription)
  }

  function cancel(run: RunId): void {
    const one = byRun.get(run)
    if (one !== undefined) one.host.send({ kind: TO_HOST.cancel, slot: one.slot })
  }

  function forget(one: Executing): void {
    executing.delete(one.slot)
    if (byRun.get(one.run) === one) byRun.delete(one.run)
    one.host.slots.delete(one.slot)
    if (one.paused) one.host.resume()
    one.publisher.end()
    rings.ended(one.run)
    ended.push({ run: one.run, at: Date.now() })
    puller?.fill()
  }

  function expire(now: number): void {
    while (ended.length > 0 && (ended.length > MAX_ENDED || ended[0]!.at < now - config.keep_ended_ms)) {
      const { run } = ended.shift()!
      if (byRun.has(run)) continue
      orders.get(run)?.unsubscribe()
      orders.delete(run)
      rings.drop(run)
    }
  }

  function onFrame(host: GraphHost, frame: Frame): void {
    if (frame.kind === FROM_HOST.called) return void onCalled.get(frame.id)?.(frame)
    const one = executing.get(frame.slot)
    if (one === undefined || one.host !== host) {
      if (frame.kind === FROM_HOST.ask && lent.get(frame.slot) === host && frame.flags !== ASK.save)
        return void ask(host, frame, null)
      foreign++
      return
    }
    if (frame.kind === FROM_HOST.chunk) chunk(one, frame)
    else if (frame.kind === FROM_HOST.ask) void ask(host, frame, one)
    else if (frame.kind === FROM_HOST.finish) void finish(one, frame)
    else foreign++
  }

  /** The host numbers its events; ids that are not this attempt's, or not the next, are not ours to pass on. */
  function chunk(one: Executing, { id, count, body }: Frame): void {
    const lastId = id + count - 1
    if (
      attemptOf(id) !== one.lease.attempt ||
      attemptOf(lastId) !== one.lease.attempt ||
      id <= one.last ||
      count === 0
    ) {
      foreign++
      return
    }
    one.last = lastId
    one.publisher.send(id, count, body)
    if (one.paused || one.publisher.backlog() < MAX_BACKLOG) return
    one.paused = true
    one.host.pause()
    void one.publisher.settled(10_000).then(() => {
      one.paused = false
      one.host.resume()
    })
  }

  async function ask(host: GraphHost, frame: Frame, one: Executing | null): Promise<void> {
    const verb = frame.flags === ASK.save ? 'save' : frame.flags === ASK.get ? 'get' : 'list'
    const reply = (flags: number, body?: Uint8Array) =>
      host.send({ kind: TO_HOST.answer, slot: frame.slot, id: frame.id, flags, ...(body ? { body } : {}) })
    try {
      const head = { request_id: one?.run ?? '', ...(one === null ? {} : { lease: one.lease }) }
      const { body } = await persist(() =>
        caller.ask(rpc('checkpoints', verb), head, frame.body, { timeout: 15_000, patience: 5_000 }),
      )
      reply(0, body)
    } catch (error) {
      if (error instanceof WeftError && error.code === 'fenced') {
        if (one !== null) lose(one)
        reply(1)
      } else reply(2, Buffer.from(JSON.stringify({ detail: (error as Error).message })))
    }
  }

  async function finish(one: Executing, frame: Frame): Promise<void> {
    forget(one)
    const beating = setInterval(() => {
      one.job.working()
      void beat([one])
    }, BEAT_MS)
    try {
      if (one.resumable) await one.publisher.settled(10_000)
      await persist(() =>
        caller.ask(rpc('runs', 'finish'), { request_id: one.run, lease: one.lease }, frame.body, {
          timeout: 15_000,
          patience: 5_000,
        }),
      )
      if (!(await one.job.done())) log.warn({ run_id: one.run }, 'the broker had given the wake-up to somebody else')
    } catch (error) {
      if (error instanceof WeftError && error.code === 'fenced') {
        log.warn({ run_id: one.run, attempt: one.lease.attempt }, 'a later attempt holds the run; its end was refused')
        void one.job.done()
      } else {
        log.error({ err: error, run_id: one.run }, 'the end of a run could not be stored; it will be taken over')
        one.job.back()
      }
    } finally {
      clearInterval(beating)
    }
  }

  /** Repeats what nobody answered until the store has been away for a minute: refused is not unreachable. */
  async function persist<T>(work: () => Promise<T>): Promise<T> {
    const until = Date.now() + STORE_MS
    for (;;) {
      try {
        return await work()
      } catch (error) {
        if (!(error instanceof WeftError) || error.code !== 'unavailable' || Date.now() > until || !open) throw error
        await new Promise(done => setTimeout(done, 250))
      }
    }
  }

  /** Another attempt holds the run: stop it here and say nothing more about it. */
  function lose(one: Executing): void {
    if (executing.get(one.slot) !== one) return
    log.warn({ run_id: one.run, attempt: one.lease.attempt }, 'authority over a run was lost')
    one.host.send({ kind: TO_HOST.cancel, slot: one.slot })
    forget(one)
    void one.job.done()
  }

  const release = (lease: Lease, charge: boolean, reason: string) =>
    persist(() =>
      caller.ask(
        rpc('runs', 'release'),
        { request_id: lease.run_id, lease },
        Buffer.from(JSON.stringify({ charge, reason })),
      ),
    ).catch(error =>
      log.warn({ err: error, run_id: lease.run_id }, 'a run could not be given back; it will be taken over'),
    )

  function onLost(host: GraphHost, why: string): void {
    for (const [slot, owner] of lent) if (owner === host) lent.delete(slot)
    for (const one of [...executing.values()]) {
      if (one.host !== host) continue
      forget(one)
      void release(one.lease, true, `its host ended with ${why}`).then(() => one.job.done())
    }
  }

  async function beat(runs: Executing[]): Promise<void> {
    if (runs.length === 0) return
    try {
      const body = Buffer.from(
        JSON.stringify({ worker, runs: runs.map(one => ({ run_id: one.run, token: one.lease.token })) }),
      )
      const answer = await caller.ask(rpc('runs', 'heartbeat'), { request_id: worker }, body, { timeout: BEAT_MS })
      const { cancel: stop, lost } = JSON.parse(Buffer.from(answer.body).toString()) as Beaten
      for (const run of stop) cancel(token('run', run))
      for (const run of lost) {
        const one = byRun.get(token('run', run))
        if (one !== undefined) lose(one)
      }
    } catch (error) {
      log.warn({ err: error, runs: runs.length }, 'a heartbeat was not confirmed')
    }
  }

  const beats = setInterval(() => {
    const runs = [...executing.values()]
    for (const one of runs) one.job.working()
    void beat(runs)
  }, BEAT_MS)
  const expiry = setInterval(() => expire(Date.now()), 1_000)

  return {
    start(pool_of_hosts) {
      hosts = pool_of_hosts
      puller = pull(link, mux, pool, free, job => void onJob(job))
      puller.fill()
    },
    onFrame,
    onLost,
    fill: () => puller?.fill(),
    lend(host) {
      do lastSlot = (lastSlot + 1) % 0xffffffff
      while (executing.has(lastSlot) || lent.has(lastSlot))
      const slot = lastSlot
      lent.set(slot, host)
      return { slot, back: () => void lent.delete(slot) }
    },
    onCalled,
    foreignFrames: () => foreign,
    running: () => executing.size,
    quiet() {
      open = false
      puller?.quiet()
    },
    async stop(ms) {
      const until = Date.now() + Math.max(0, ms - 1_500)
      while (executing.size > 0 && Date.now() < until) await new Promise(done => setTimeout(done, 50))
      clearInterval(beats)
      clearInterval(expiry)
      const left = [...executing.values()]
      for (const one of left) forget(one)
      await Promise.all(left.map(one => release(one.lease, false, 'its worker stops').then(() => one.job.done())))
    },
  }
}
