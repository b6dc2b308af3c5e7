/**
 * Delivers a run's events to one sink: every id once, in order, and always an end. Ids have no gap within an attempt,
 * so the last delivered id is all the state it needs. An event that does not follow starts a replay from where events
 * are stored. The stream ends when the last id of the ended run was delivered; it is cut, never ended cleanly, when an
 * event in between is no longer available.
 */
import { after, type Batch, type Ending, follows, type Listener, type Replayed } from '../../bus/follow.js'
import type { Peek } from '../../schemas/calls.js'
import { type RunId, token } from '../../schemas/ids.js'
import { isTerminal, type RunView } from '../../schemas/runs.js'
import type { Edge } from '../context.js'
import type { WatchEntry } from '../watch.js'
import { Backlog } from './backlog.js'
import { fetchResult } from './run-result.js'

const FIRST_RETRY_MS = 50
const LAST_RETRY_MS = 2_000
/** An event counts as lost after it was missing for this long: supervisors reconnect to a restarted broker, too. */
const GONE_MS = 3_000
/** Time after our own reconnect in which a replay that finds nothing is repeated. */
const RECONNECT_MS = 5_000
/** The same for the last events of an ended run: their supervisor may still be sending them to the stored stream. */
const TAIL_GONE_MS = 10_000
/** Events and the end travel over different connections: an event published before the end may arrive this much later. */
const TAIL_MS = 250

/** Thrown to end a replay early. */
const STOP = new Error('the replay is no longer needed')

export type RunError = NonNullable<Ending['error']>

/** Where the events go. `events` and `error` are called only while it is `ready`. */
export interface RunSink {
  readonly ready: boolean
  /** Begins the answer, before the first event; false when the client left. */
  begin(): boolean
  /** The next events, each once. */
  events(batch: Batch): void
  /** The last event, which no host was alive to write. */
  error(id: number, error: RunError): void
  /** Everything that is stored was delivered, and the run goes on; may be called again. */
  caughtUp?(): void
  /** Everything was delivered, and the run has ended. */
  ended(): void
  /** An event is lost: a clean end would claim that this was all. */
  cut(): void
}

/**
 * waiting: the run may not exist yet, events are stored. joining: the first replay decides whether the answer can
 * begin. live: events are delivered as they come. replaying: live events wait behind the replay.
 */
type Phase = 'waiting' | 'joining' | 'live' | 'replaying' | 'closed'

export type Outcome = Replayed | 'stopped' | 'silent'

/** What the row says of the end. `last` null: only that the run is over. */
interface End {
  last: number | null
  status: string
  error: RunError | null
  /** The row's error may have to be fetched: a peek does not carry it. */
  fetchError: boolean
}

/** Where delivery begins. */
export interface Start {
  /** Last id that needs no delivery. */
  after: number
  /** False: the first event that comes is the right one to begin with. */
  anchored?: boolean
  /** The beginning may be missing: only a gap behind the first delivered event is a loss. */
  lenient?: boolean
  /** A probe accepts the event behind `after` only, not the first one of a later attempt. */
  exact?: boolean
}

export class RunReader implements Listener, WatchEntry {
  heardAt = 0
  view: RunView | null = null
  /** Last id that was delivered, or that needs no delivery. */
  sent = -1
  end: End | null = null
  private phase: Phase = 'waiting'
  private anchored = true
  private lenient = false
  private readonly backlog = new Backlog()
  /** An event of the present replay did not follow the one before. */
  private hole = false
  /** A batch of the present replay reached the reader. */
  private found = false
  private tries = 0
  private replaysSinceEnd = 0
  private goneSince = 0
  private reconnectedAt = 0
  private retry: NodeJS.Timeout | null = null
  private readonly closing = new AbortController()
  private unfollow: () => void

  constructor(
    private readonly edge: Edge,
    public run: RunId,
    private readonly sink: RunSink,
  ) {
    this.unfollow = edge.follower.follow(run, this)
  }

  get closed(): boolean {
    return this.phase === 'closed'
  }

  // Opening and closing.

  /** The run exists. Nothing is delivered before `begin`. */
  accept(view: RunView): void {
    this.view = view
    this.heardAt = Date.now()
    if (isTerminal(view.status)) {
      const fetchError = view.status === 'error' || view.status === 'timeout'
      this.end ??= { last: view.last_event_id, status: view.status, error: null, fetchError }
    }
    this.edge.watch.add(this)
  }

  /** Follows another run instead: an earlier attempt of the same request made that one. */
  refollow(run: string): void {
    this.unfollow()
    this.run = token<'run'>('run', run)
    this.backlog.clear()
    this.unfollow = this.edge.follower.follow(this.run, this)
  }

  /** Begins the answer; false when the client left. */
  begin(): boolean {
    if (this.closed || !this.sink.begin()) return false
    this.phase = this.phase === 'joining' ? 'replaying' : 'live'
    return true
  }

  /** Begins the answer and delivers from `start` on. */
  open({ after, anchored = true, lenient = false }: Start): void {
    if (!this.begin()) return
    this.sent = after
    this.anchored = anchored
    this.lenient = lenient
    if (this.end !== null && this.end.last !== null && after >= this.end.last) this.finish()
    else if (anchored) this.replay()
    else this.advance()
  }

  /** Begins the answer of a new run: every event since its first is in the backlog or still to come. */
  openNew(): void {
    if (this.begin()) this.advance()
  }

  /**
   * The first replay of a join: the answer begins with the first event that may be delivered. `began` false: the
   * caller refuses, probes again, or calls `resume`.
   */
  async probe(from: number, { after, anchored = true, lenient = false, exact = false }: Start): Promise<Probe> {
    if (this.closed) return { outcome: 'stopped', found: false, hole: false, began: false }
    this.phase = 'joining'
    this.sent = after
    this.anchored = anchored
    this.lenient = lenient
    this.hole = false
    this.found = false
    let outcome: Outcome
    try {
      outcome = await this.fetch(from, batch => this.onProbed(batch, exact))
    } catch (error) {
      outcome = error === STOP ? 'stopped' : 'silent'
    }
    return { outcome, found: this.found, hole: this.hole, began: this.is('replaying') }
  }

  /** Whether any event of the run is stored. Rejects when the broker does not answer. */
  async hasStored(): Promise<boolean> {
    let found = false
    const onBatch = () => {
      found = true
      throw STOP
    }
    await this.fetch(-1, onBatch).catch(error => {
      if (error !== STOP) throw error
    })
    return found
  }

  /** Goes on after a probe; begins the answer if no event did. */
  resume(outcome: Outcome, { anchored = this.anchored, lenient = this.lenient } = {}): void {
    this.anchored = anchored
    this.lenient = lenient
    if (this.phase === 'joining' && !this.begin()) return
    this.onReplayEnd(outcome)
  }

  close(): void {
    if (this.closed) return
    this.phase = 'closed'
    this.closing.abort()
    this.unfollow()
    this.edge.watch.remove(this)
    if (this.retry !== null) clearTimeout(this.retry)
    this.backlog.clear()
  }

  /** `phase` changes during awaits and callbacks, which the compiler does not see. */
  private is(phase: Phase): boolean {
    return this.phase === phase
  }

  // Messages.

  onBatch(batch: Batch): void {
    if (this.closed) return
    this.heardAt = this.edge.wheel.now
    if (batch.first + batch.count - 1 <= this.sent) return
    const { batches, overflowed } = this.backlog
    if (this.phase !== 'live' || overflowed || batches.length > 0 || !this.sink.ready) this.backlog.push(batch)
    else if (!this.take(batch, 'live')) {
      this.backlog.push(batch)
      this.replay()
    } else if (this.end !== null) this.advance()
  }

  onEnd({ status, last_event_id, resumable_until_id, error }: Ending): void {
    this.storedUntil(resumable_until_id)
    this.onEnded({ last: last_event_id, status, error, fetchError: false })
  }

  onPeek(peek: Peek | null): void {
    this.storedUntil(peek?.resumable_until_id)
    if (peek === null) this.onEnded({ last: null, status: 'removed', error: null, fetchError: false })
    else if (isTerminal(peek.status)) {
      const fetchError = peek.status === 'error' || peek.status === 'timeout'
      this.onEnded({ last: peek.last_event_id, status: peek.status, error: null, fetchError })
    }
  }

  onReconnect(): void {
    this.reconnectedAt = Date.now()
    if (this.phase === 'live' && this.anchored) this.replay()
  }

  private onEnded(end: End): void {
    if (this.closed || this.end !== null) return
    this.end = end
    this.advance()
  }

  /** The stored stream was full at this event: what comes after it is stored elsewhere. */
  private storedUntil(id: number | null | undefined): void {
    if (this.view !== null) this.view.resumable_until_id ??= id ?? null
  }

  // Delivery.

  /** Delivers the new part of a batch; false when it does not follow what was delivered. */
  private take(batch: Batch, source: 'live' | 'replay'): boolean {
    const next = after(batch, this.sent)
    if (next === null) return true
    if (this.anchored && next.first !== this.sent + 1) {
      if (!follows(this.sent, next.first)) return false
      // A new attempt: the stored events of the old one come first.
      if (source === 'live' && this.sent >= 0 && this.view!.resumable) return false
    }
    this.anchored = true
    this.sent = next.first + next.count - 1
    this.tries = 0
    this.goneSince = 0
    this.sink.events(next)
    return true
  }

  /** Goes on with whatever is next: the backlog, a replay, the end. The sink calls it when it is ready again. */
  advance(source: 'live' | 'replay' = 'live'): void {
    const { backlog, sink } = this
    const replaying = this.phase === 'replaying'
    if ((this.phase !== 'live' && !replaying) || !sink.ready) return
    if (replaying && !backlog.overflowed) return
    backlog.drain(batch => sink.ready && this.take(batch, backlog.overflowed ? 'replay' : source))
    if (!sink.ready || replaying || this.closed) return
    if (backlog.batches.length > 0) this.replayLater()
    else if (backlog.overflowed) this.replay()
    else if (this.end !== null) this.conclude(this.end)
  }

  // Replay.

  private replayLater(): void {
    // The last one brought nothing: the stored stream may have become full meanwhile.
    if (this.tries > 0 && this.view?.resumable && this.view.resumable_until_id === null) this.edge.watch.ask(this)
    this.retry ??= setTimeout(
      () => {
        this.retry = null
        this.replay()
      },
      this.tries === 0 ? 0 : Math.min(FIRST_RETRY_MS * 2 ** this.tries, LAST_RETRY_MS),
    )
  }

  private replay(): void {
    if (this.phase !== 'live' || this.view === null) return
    if (this.retry !== null) clearTimeout(this.retry)
    this.retry = null
    this.phase = 'replaying'
    // The backlog behind an overflow is older than what the replay brings: it goes on from `sent`.
    if (this.backlog.overflowed) this.backlog.clear()
    this.backlog.overflowed = false
    this.hole = false
    this.fetch(this.sent, batch => this.onReplayed(batch)).then(
      outcome => this.onReplayEnd(outcome),
      error => this.onReplayEnd(error === STOP ? 'stopped' : 'silent'),
    )
  }

  private fetch(from: number, onBatch: (batch: Batch) => void): Promise<Replayed> {
    const { resumable, resumable_until_id: until } = this.view!
    return this.edge.follower.replay(this.run, { resumable, after: from, until }, onBatch)
  }

  private onProbed(batch: Batch, exact: boolean): void {
    if (this.closed) throw STOP
    // Behind the last event that the client has, the first one of a later attempt follows.
    const meetsStart = this.found && !this.hole
    this.found = true
    if (this.phase === 'joining' && batch.first + batch.count - 1 > this.sent) {
      const next = after(batch, this.sent)!
      const isNext = next.first === this.sent + 1 || ((meetsStart || !exact) && follows(this.sent, next.first))
      if (this.anchored && !isNext) {
        this.hole = true
        return
      }
      if (!this.begin()) throw STOP
    }
    this.onReplayed(batch)
  }

  private onReplayed(batch: Batch): void {
    if (this.closed) throw STOP
    this.heardAt = this.edge.wheel.now
    if (batch.first + batch.count - 1 <= this.sent) return
    const { backlog } = this
    if (this.phase === 'replaying' && this.sink.ready && !(backlog.overflowed && backlog.batches.length > 0)) {
      // An event that was sent again after a loss is stored behind later ones: go on reading.
      this.hole = !this.take(batch, 'replay')
      return
    }
    if (!backlog.pushReplayed(batch)) throw STOP
  }

  private onReplayEnd(outcome: Outcome): void {
    if (this.phase !== 'replaying' && this.phase !== 'live') return
    this.phase = 'live'
    if (this.lenient && this.sent < 0 && (outcome === 'gone' || outcome === 'empty')) this.anchored = false
    if (outcome === 'stopped') return this.advance('replay')
    this.tries++
    if (outcome === 'silent') return this.replayLater()
    if (this.end !== null) this.replaysSinceEnd++
    const missing = this.hole ? GONE_MS : this.misses()
    if (missing === 0) this.goneSince = 0
    else if (Date.now() - (this.goneSince ||= Date.now()) >= missing) return this.sink.cut()
    // The process that stores the events may reconnect to the broker later than we do.
    const early = outcome === 'gone' && Date.now() - this.reconnectedAt < RECONNECT_MS
    if (early || this.hole) return this.replayLater()
    this.advance('replay')
    if (!this.closed && this.end === null && this.retry === null) this.sink.caughtUp?.()
  }

  /** Milliseconds after which an event behind `sent`, known to exist, counts as lost; 0: none is missing. */
  private misses(): number {
    const { backlog, end, sent } = this
    const next = backlog.batches[0]
    if (next !== undefined) return next.first > sent && !follows(sent, next.first) ? GONE_MS : 0
    if (backlog.overflowed || !this.anchored || end === null || end.last === null || sent >= end.last) return 0
    // The last event is an error that no host was alive to write.
    if ((end.error !== null || end.fetchError) && follows(sent, end.last)) return 0
    return TAIL_GONE_MS
  }

  // The end.

  /** Everything received was delivered, and the run has ended. */
  private conclude(end: End): void {
    const { last, error } = end
    if (last !== null && this.sent >= last) return this.finish()
    if (!this.anchored) {
      if (this.replaysSinceEnd++ > 0) return this.finishUndelivered(end)
      this.retry ??= setTimeout(() => {
        this.retry = null
        this.advance()
      }, TAIL_MS)
      return
    }
    if (this.replaysSinceEnd === 0) {
      this.tries = 1
      return this.replayLater()
    }
    if (last === null) return error === null ? this.finish() : this.finishWithError(this.sent + 1, error)
    if (error !== null && follows(this.sent, last)) return this.finishWithError(last, error)
    if (end.fetchError && follows(this.sent, last)) return void this.fetchError(end)
    this.replayLater()
  }

  /** The row was found ended, and no host was alive to write its last event. */
  private async fetchError(end: End): Promise<void> {
    end.fetchError = false
    const body = await fetchResult(this.edge, this.run, `end-${this.run}`, this.closing.signal)
    if (body === null) return
    end.error = (JSON.parse(Buffer.from(body).toString()) as { __error__?: RunError }).__error__ ?? null
    this.advance('replay')
  }

  /** Nothing of the run could be delivered, and nothing more comes: its error may be the only event there is. */
  private finishUndelivered(end: End): void {
    if (end.fetchError && this.lenient) return void this.fetchError(end)
    if (end.error === null) this.finish()
    else this.finishWithError(end.last ?? this.sent + 1, end.error)
  }

  private finishWithError(id: number, error: RunError): void {
    this.sink.error(id, error)
    this.sent = id
    this.finish()
  }

  private finish(): void {
    this.close()
    this.sink.ended()
  }
}

/** What the first replay of a join found. */
export interface Probe {
  outcome: Outcome
  /** At least one batch came. */
  found: boolean
  /** The first batch behind the start does not follow it. */
  hole: boolean
  /** The answer has begun. */
  began: boolean
}
