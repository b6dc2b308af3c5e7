/**
 * Delivers a run's events to one sink: every id once, in order, and always an end. Ids have no gap within an attempt,
 * so the last delivered id is all the state it needs. An event that does not follow starts a replay from where events
 * are stored. The stream ends when the last id of the ended run was delivered; it is cut, never ended cleanly, when an
 * event in between is no longer available.
 */
import { after, type Batch, type Ending, follows, type Listener, type Replayed } from '../../bus/follow.js'
import type { Peek } from '../../schemas/calls.js'
import { type RunId, token } from '../../schemas/ids.js'
import type { RunView } from '../../schemas/runs.js'
import { attemptOf } from '../../schemas/subjects.js'
import type { Edge } from '../context.js'
import type { WatchEntry } from '../watch.js'
import { Backlog } from './backlog.js'
import { Gap, type Outcome } from './gap.js'
import { announcedEnd, endOfRow, fetchEndError, type RunEnd, type RunError } from './run-end.js'

/** Events and the end travel over different connections: an event published before the end may arrive this much later. */
const TAIL_MS = 250

/** Thrown to end a replay early. */
const STOP = new Error('the replay is no longer needed')

/** Where the events go. `events` and `error` are called only while it is `ready`. */
export interface RunSink {
  readonly ready: boolean
  /** Begins the answer, before the first event; false when the client left. */
  begin(): boolean
  /** The next events, each once. */
  events(batch: Batch): void
  /** The last event, which no host was alive to write. */
  error(id: number, error: RunError): void
  /** Everything that is stored was delivered, and the run continues; may be called again. */
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
  end: RunEnd | null = null
  /** The first id of the last batch that came. */
  private newest = 0
  private phase: Phase = 'waiting'
  private anchored = true
  /** The connection was lost before the first event came: events may have passed unseen. */
  private missed = false
  private lenient = false
  private readonly backlog = new Backlog()
  private readonly gap = new Gap()
  /** A batch of the present replay reached the reader. */
  private found = false
  private replaysSinceEnd = 0
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
    this.heardAt = performance.now()
    this.end ??= endOfRow(view)
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
    this.gap.hole = false
    this.found = false
    let outcome: Outcome
    try {
      const running = this.view!.status === 'running'
      outcome = await this.fetch(from, batch => this.onProbed(batch, exact), running)
    } catch (error) {
      outcome = error === STOP ? 'stopped' : 'silent'
    }
    return { outcome, found: this.found, hole: this.gap.hole, began: this.is('replaying') }
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
    this.newest = batch.first
    if (batch.first + batch.count - 1 <= this.sent) return
    const { batches, overflowed } = this.backlog
    if (this.phase !== 'live' || overflowed || batches.length > 0 || !this.sink.ready) this.backlog.push(batch)
    else if (!this.take(batch, 'live')) {
      this.edge.link.figures.count('weft_stream_gaps_total')
      this.backlog.push(batch)
      this.replay()
    } else if (this.end !== null) this.advance()
  }

  onEnd(ending: Ending): void {
    this.storedUntil(ending.resumable_until_id)
    this.onEnded(announcedEnd(ending))
  }

  onPeek(peek: Peek | null): void {
    this.storedUntil(peek?.resumable_until_id)
    if (this.view !== null && peek !== null) {
      this.view.pool = peek.pool
      this.view.attempt = peek.attempt
    }
    this.onEnded(endOfRow(peek))
  }

  onReconnect(): void {
    this.gap.onReconnect()
    if (!this.anchored) this.missed = true
    else if (this.phase === 'live') this.replay()
  }

  private onEnded(end: RunEnd | null): void {
    if (this.closed || this.end !== null || end === null) return
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
    if (!this.anchored && this.missed && !follows(this.sent, next.first)) return false
    if (this.anchored && next.first !== this.sent + 1) {
      if (!follows(this.sent, next.first)) return false
      // A new attempt: the stored events of the old one come first.
      if (source === 'live' && this.sent >= 0 && this.view!.resumable) return false
    }
    this.anchored = true
    this.sent = next.first + next.count - 1
    this.gap.onDelivered()
    this.sink.events(next)
    return true
  }

  /** Continues with the backlog, a replay, or the end. The sink calls it when it is ready again. */
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
    if (this.gap.tries > 0 && this.view?.resumable && this.view.resumable_until_id === null) this.edge.watch.ask(this)
    this.retry ??= setTimeout(() => {
      this.retry = null
      this.replay()
    }, this.gap.pause)
  }

  private replay(): void {
    if (this.phase !== 'live' || this.view === null) return
    if (this.retry !== null) clearTimeout(this.retry)
    this.retry = null
    this.phase = 'replaying'
    // The backlog behind an overflow is older than what the replay brings, which begins behind `sent`.
    if (this.backlog.overflowed) this.backlog.clear()
    this.backlog.overflowed = false
    this.gap.hole = false
    this.fetch(this.sent, batch => this.onReplayed(batch)).then(
      outcome => this.onReplayEnd(outcome),
      error => this.onReplayEnd(error === STOP ? 'stopped' : 'silent'),
    )
  }

  private async fetch(from: number, onBatch: (batch: Batch) => void, running = false): Promise<Replayed> {
    const { follower, link, watch } = this.edge
    // A later attempt may be executed by the pool of another revision.
    if (attemptOf(this.newest) > this.view!.attempt) await watch.look(this)
    const { resumable, resumable_until_id: until } = this.view!
    const pool = token<'pool'>('pool', this.view!.pool)
    const again = this.gap.tries > 0
    const replay = follower.replay(this.run, { pool, resumable, after: from, until, again, running }, onBatch)
    const count = (outcome: Outcome) => link.figures.count('weft_stream_replays_total', { outcome })
    replay.then(count, error => count(error === STOP ? 'stopped' : 'silent'))
    return replay
  }

  private onProbed(batch: Batch, exact: boolean): void {
    if (this.closed) throw STOP
    // Behind the last event that the client has, the first one of a later attempt follows.
    const meetsStart = this.found && !this.gap.hole
    this.found = true
    if (this.phase === 'joining' && batch.first + batch.count - 1 > this.sent) {
      const next = after(batch, this.sent)!
      const isNext = next.first === this.sent + 1 || ((meetsStart || !exact) && follows(this.sent, next.first))
      if (this.anchored && !isNext) {
        this.gap.hole = true
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
      this.gap.hole = !this.take(batch, 'replay')
      return
    }
    if (!backlog.pushReplayed(batch)) throw STOP
  }

  private onReplayEnd(outcome: Outcome): void {
    if (this.phase !== 'replaying' && this.phase !== 'live') return
    this.phase = 'live'
    if (this.lenient && this.sent < 0 && (outcome === 'gone' || outcome === 'empty')) this.anchored = false
    if (outcome === 'stopped') return this.advance('replay')
    this.gap.tries++
    if (outcome === 'silent') return this.replayLater()
    if (this.end !== null) this.replaysSinceEnd++
    if (this.gap.isLost(this.sent, this.anchored, this.backlog, this.end)) {
      this.edge.link.figures.count('weft_stream_cuts_total')
      return this.sink.cut()
    }
    if (this.gap.isEarly(outcome) || this.gap.hole) return this.replayLater()
    this.advance('replay')
    if (!this.closed && this.end === null && this.retry === null) this.sink.caughtUp?.()
  }

  // The end.

  /** Everything received was delivered, and the run has ended. */
  private conclude(end: RunEnd): void {
    const { last, error } = end
    if (last !== null && this.sent >= last) return this.finish()
    if (!this.anchored && this.missed && last !== null) this.anchored = true
    if (!this.anchored) {
      if (this.replaysSinceEnd++ > 0) return this.finishUndelivered(end)
      this.retry ??= setTimeout(() => {
        this.retry = null
        this.advance()
      }, TAIL_MS)
      return
    }
    if (this.replaysSinceEnd === 0) {
      this.gap.tries = 1
      return this.replayLater()
    }
    if (last === null) return error === null ? this.finish() : this.finishWithError(this.sent + 1, error)
    if (error !== null && follows(this.sent, last)) return this.finishWithError(last, error)
    if (end.fetchError && follows(this.sent, last)) return void this.fetchError(end)
    this.replayLater()
  }

  /** The row was found ended, and no host was alive to write its last event. */
  private async fetchError(end: RunEnd): Promise<void> {
    end.fetchError = false
    const error = await fetchEndError(this.edge, this.run, this.closing.signal)
    if (error === undefined) return
    end.error = error
    this.advance('replay')
  }

  /** Nothing of the run could be delivered, and nothing more comes: its error may be the only event there is. */
  private finishUndelivered(end: RunEnd): void {
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

/** The result of the first replay of a join. */
export interface Probe {
  outcome: Outcome
  /** At least one batch came. */
  found: boolean
  /** The first batch behind the start does not follow it. */
  hole: boolean
  /** The answer has begun. */
  began: boolean
}
