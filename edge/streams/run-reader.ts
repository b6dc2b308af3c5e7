/**
 * A run's events to one reader: every id once, in order, and always an end. Ids have no gap within an attempt, so all
 * this needs is the last id it delivered. Anything else than the next one means: replay from where events are kept,
 * then go on. It ends when it has delivered the last id of the ended run, and is cut, never ended cleanly, when
 * something in between cannot be had any more.
 */
import { after, type Batch, type Ending, follows, type Listener } from '../../bus/follow.js'
import type { Peek } from '../../schemas/calls.js'
import { type RunId, token } from '../../schemas/ids.js'
import { isTerminal, type RunHead } from '../../schemas/runs.js'
import { rpc } from '../../schemas/subjects.js'
import type { Edge } from '../context.js'
import type { Watched } from '../watch.js'

/** Live events held while the client or a replay is behind; beyond it only the cursor is remembered. */
const HOLD_BYTES = 256 * 1024
const FIRST_RETRY_MS = 50
const LAST_RETRY_MS = 2_000
/** How long something must be gone before we believe it: supervisors reconnect to a restarted broker, too. */
const GONE_MS = 3_000
/** After a reconnect of ours, replay is asked for until somebody answers, for so long. */
const RECONNECT_MS = 5_000
/** Tries to get the tail of an ended run before it counts as all there is. */
const TAIL_TRIES = 4

/** Thrown to end a replay early. */
export const STOP = new Error('enough for now')

/** What is known of the end: the row's word. `last` null: nothing is known but that it is over. */
export interface End {
  last: number | null
  status: string
  error: Ending['error']
  /** Whether the row's error may have to be asked for: a peek does not carry it. */
  ask: boolean
}

export abstract class RunReader implements Listener, Watched {
  heardAt = 0
  protected head: RunHead | null = null

  /** Last id that was delivered, or that needs no delivery. */
  protected sent = -1
  /** False: the first event that comes is the right one to begin with. */
  protected anchored = true
  /** What is heard before is held. */
  protected opened = false
  protected closed = false
  protected replaying = false
  private held: Batch[] = []
  private heldBytes = 0
  /** Behind what is held something is missing: replay once it is delivered. */
  private overflow = false
  /** An event in the present replay did not follow the one before. */
  protected hole = false
  protected end: End | null = null
  private replayedSinceEnd = 0
  private retry: NodeJS.Timeout | null = null
  private tries = 0
  private goneSince = 0
  private reconnectedAt = 0
  private unfollow: () => void

  constructor(
    protected readonly edge: Edge,
    /** The id it follows; the head comes with the answer to create or join. */
    public run: RunId,
  ) {
    this.unfollow = edge.follower.follow(run, this)
  }

  /** Takes a batch now; while it does not, nothing is delivered and `settle` is called once it does again. */
  protected abstract get ready(): boolean
  /** The next events, each once. */
  protected abstract deliver(batch: Batch): void
  /** The last event, which nobody lived to write. */
  protected abstract deliverError(id: number, error: NonNullable<Ending['error']>): void
  /** Everything was delivered, and the run is over. */
  protected abstract finish(): void
  /** Everything that is kept was delivered, and the run goes on. */
  protected live(): void {}
  /** Something is gone: the clean end would say that this was all. */
  protected abstract cut(): void

  // What is heard.

  onBatch(batch: Batch): void {
    if (this.closed) return
    this.heardAt = this.edge.wheel.now
    if (batch.first + batch.count - 1 <= this.sent) return
    if (!this.opened || this.replaying || this.overflow || this.held.length > 0 || !this.ready) this.hold(batch)
    else if (!this.take(batch, false)) {
      this.hold(batch)
      this.replay()
    } else if (this.end !== null) this.settle(false)
  }

  onEnd({ status, last_event_id, resumable_until_id, error }: Ending): void {
    this.keptUntil(resumable_until_id)
    this.ended({ last: last_event_id, status, error, ask: false })
  }

  onPeek(peek: Peek | null): void {
    this.keptUntil(peek?.resumable_until_id)
    if (this.closed || this.end !== null) return
    if (peek === null) this.ended({ last: null, status: 'gone', error: null, ask: false })
    else if (isTerminal(peek.status)) {
      const ask = peek.status === 'error' || peek.status === 'timeout'
      this.ended({ last: peek.last_event_id, status: peek.status, error: null, ask })
    }
  }

  onReconnect(): void {
    this.reconnectedAt = Date.now()
    if (this.opened && this.anchored) this.replay()
  }

  // Taking events.

  /** Delivers what is new of a batch; false when it does not follow what was delivered. `replayed`: all kept before it was seen. */
  private take(batch: Batch, replayed: boolean): boolean {
    const next = after(batch, this.sent)
    if (next === null) return true
    if (this.anchored && next.first !== this.sent + 1) {
      if (!follows(this.sent, next.first)) return false
      // A new attempt: what is stored of the old one comes first.
      if (!replayed && this.sent >= 0 && this.head!.resumable) return false
    }
    this.anchored = true
    this.sent = next.first + next.count - 1
    this.tries = 0
    this.goneSince = 0
    this.deliver(next)
    return true
  }

  private hold(batch: Batch): void {
    if (this.overflow) return
    if (this.heldBytes + batch.bytes.length > HOLD_BYTES) {
      this.forget()
      this.overflow = true
      return
    }
    // A copy: the bytes of a message keep everything alive that came with it from the socket.
    this.held.push({ ...batch, bytes: Buffer.from(batch.bytes) })
    this.heldBytes += batch.bytes.length
  }

  protected forget(): void {
    this.held = []
    this.heldBytes = 0
  }

  /** Goes on with whatever is next: held events, a replay, the end. */
  protected settle(replayed: boolean): void {
    if (this.closed || !this.opened || !this.ready) return
    // During a replay that overflowed only replayed events are held; else they come after it.
    if (this.replaying && !this.overflow) return
    let i = 0
    while (i < this.held.length && this.ready) {
      const batch = this.held[i]!
      if (!this.take(batch, replayed || this.overflow)) break
      this.heldBytes -= batch.bytes.length
      i++
    }
    if (i > 0) this.held = i === this.held.length ? [] : this.held.slice(i)
    if (!this.ready || this.replaying) return
    if (this.held.length > 0) this.replayLater()
    else if (this.overflow) this.replay()
    else if (this.end !== null) this.conclude(this.end)
  }

  // Replay.

  /** The stored stream was full at this event: what comes after it is kept elsewhere. */
  private keptUntil(id: number | null | undefined): void {
    if (this.head !== null) this.head.resumable_until_id ??= id ?? null
  }

  private replayLater(): void {
    // It brought nothing: the stored stream may have become full meanwhile.
    if (this.tries > 0 && this.head?.resumable && this.head.resumable_until_id === null) this.edge.watch.ask(this)
    this.retry ??= setTimeout(
      () => {
        this.retry = null
        this.replay()
      },
      this.tries === 0 ? 0 : Math.min(FIRST_RETRY_MS * 2 ** this.tries, LAST_RETRY_MS),
    )
  }

  protected replay(): void {
    if (this.closed || this.replaying || this.head === null) return
    if (this.retry !== null) clearTimeout(this.retry)
    this.retry = null
    this.replaying = true
    // What was held behind an overflow is older than what the replay brings anew: it goes on from `sent`.
    if (this.overflow) this.forget()
    this.overflow = false
    this.hole = false
    const { resumable, resumable_until_id: until } = this.head
    this.edge.follower
      .replay(this.run, { resumable, after: this.sent, until }, batch => this.onReplayed(batch))
      .then(
        outcome => this.replayed(outcome),
        error => this.replayed(error === STOP ? 'stopped' : 'silent'),
      )
  }

  protected onReplayed(batch: Batch): void {
    if (this.closed) throw STOP
    this.heardAt = this.edge.wheel.now
    if (batch.first + batch.count - 1 <= this.sent) return
    if (this.opened && this.ready && !(this.overflow && this.held.length > 0)) {
      // Something sent twice after it was lost stands behind what came later: go on reading.
      this.hole = !this.take(batch, true)
      return
    }
    if (!this.overflow) {
      this.forget()
      this.overflow = true
    } else if (this.heldBytes + batch.bytes.length > HOLD_BYTES) throw STOP
    this.held.push({ ...batch, bytes: Buffer.from(batch.bytes) })
    this.heldBytes += batch.bytes.length
  }

  protected replayed(outcome: 'complete' | 'gone' | 'stopped' | 'silent') {
    this.replaying = false
    if (this.closed || !this.opened) return
    if (outcome === 'stopped') return this.settle(true)
    this.tries++
    if (outcome === 'silent') return this.replayLater()
    if (this.end !== null) this.replayedSinceEnd++
    if (!this.hole && !(outcome === 'gone' && this.misses())) this.goneSince = 0
    else if (Date.now() - (this.goneSince ||= Date.now()) >= GONE_MS) return this.cut()
    // Whoever keeps the events may come back to the broker later than we do.
    const early = outcome === 'gone' && Date.now() - this.reconnectedAt < RECONNECT_MS
    if (early || this.hole) return this.replayLater()
    this.settle(true)
    if (!this.closed && this.end === null && this.retry === null) this.live()
  }

  /** Something behind `sent` is known to exist. */
  private misses(): boolean {
    const next = this.held[0]
    if (next !== undefined && next.first > this.sent && !follows(this.sent, next.first)) return true
    return this.end !== null && this.end.error === null && this.end.last !== null && this.sent < this.end.last
  }

  // The end.

  private ended(end: End): void {
    if (this.closed || this.end !== null) return
    this.end = end
    this.settle(false)
  }

  /** Everything heard is sent, and the run is over. */
  private conclude(end: End) {
    const { last, error } = end
    if (last !== null && this.sent >= last) return this.finish()
    // Events and the end come over different connections: what was published before may arrive a little later.
    if (!this.anchored) {
      if (this.replayedSinceEnd++ > 0) return this.finish()
      this.retry ??= setTimeout(() => {
        this.retry = null
        this.settle(false)
      }, 250)
      return
    }
    if (this.replayedSinceEnd === 0) {
      this.tries = 1
      return this.replayLater()
    }
    if (error !== null) return this.finishWithError(last ?? this.sent + 1, error)
    if (last === null) return this.finish()
    if (end.ask && follows(this.sent, last)) return void this.askForError(end)
    if (this.goneSince === 0 && this.tries >= TAIL_TRIES) return this.finish()
    this.replayLater()
  }

  /** The row was found ended, and its last event is one that nobody lived to write. */
  private async askForError(end: End): Promise<void> {
    end.ask = false
    const head = { request_id: `end-${this.run}`, params: { run_id: this.run as string } }
    try {
      const { body } = await this.edge.caller.ask(rpc('runs', 'result'), head)
      const result = JSON.parse(Buffer.from(body).toString()) as { __error__?: Ending['error'] }
      end.error = result.__error__ ?? null
    } catch (error) {
      this.edge.link.log.warn({ err: error, run_id: this.run }, 'the error of a run could not be read')
    }
    this.settle(true)
  }

  private finishWithError(id: number, error: NonNullable<Ending['error']>): void {
    this.deliverError(id, error)
    this.sent = id
    this.finish()
  }

  // Opening and leaving.

  protected accept(head: RunHead): void {
    this.head = head
    this.heardAt = Date.now()
    if (isTerminal(head.status)) {
      const ask = head.status === 'error' || head.status === 'timeout'
      this.end ??= { last: head.last_event_id, status: head.status, error: null, ask }
    }
    this.edge.watch.add(this)
  }

  /** Follows another run instead: the same request made that one before. */
  protected refollow(run: string): void {
    this.unfollow()
    this.run = token<'run'>('run', run)
    this.forget()
    this.unfollow = this.edge.follower.follow(this.run, this)
  }

  protected release(): void {
    if (this.closed) return
    this.closed = true
    this.unfollow()
    this.edge.watch.remove(this)
    if (this.retry !== null) clearTimeout(this.retry)
    this.forget()
  }
}
