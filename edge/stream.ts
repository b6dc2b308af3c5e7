/**
 * A run's events to one client: every id once, in order, and always an end. Ids have no gap within an attempt, so all
 * this needs is the last id it sent. Anything else than the next one means: replay from where events are kept, then go
 * on. It closes when it has sent the last id of the ended run, and cuts the connection, never ends it cleanly, when
 * something in between cannot be had any more.
 */
import { after, type Batch, type Ending, follows, type Listener } from '../bus/follow.js'
import type { Peek } from '../schemas/calls.js'
import { type RunId, token } from '../schemas/ids.js'
import { isTerminal, type RunHead } from '../schemas/runs.js'
import { rpc } from '../schemas/subjects.js'
import { type Edge, reportDisconnect, runPath } from './context.js'
import type { Exchange } from './exchange.js'
import type { EventFilter } from './filter.js'
import { Outlet } from './outlet.js'
import type { Watched } from './watch.js'
import type { Beating } from './wheel.js'

/** A single line end: after a comment with a blank line some SDKs dispatch a phantom event (API: threads-and-runs 12). */
const HEARTBEAT = Buffer.from(': heartbeat\n')
/** Something must be written for the head to leave; a comment of its own keeps the heartbeats' cadence unbroken. */
const FIRST = ': connected\n'
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
interface End {
  last: number | null
  status: string
  error: Ending['error']
  /** Whether the row's error may have to be asked for: a peek does not carry it. */
  ask: boolean
}

export class RunStream implements Listener, Watched, Beating {
  wroteAt = 0
  heardAt = 0
  /** The id it follows; the head comes with the answer to create or join. */
  run: RunId
  protected head: RunHead | null = null
  protected filter: EventFilter | null = null
  protected cancels = false
  private readonly outlet: Outlet
  private unfollow: () => void

  /** Last id that was sent, or that needs no sending. */
  protected sent = -1
  /** False: the first event that comes is the right one to begin with. */
  protected anchored = true
  protected opened = false
  protected closed = false
  protected replaying = false
  private held: Batch[] = []
  private heldBytes = 0
  /** Behind what is held something is missing: replay once it is written. */
  private overflow = false
  /** An event in the present replay did not follow the one before. */
  protected hole = false
  protected end: End | null = null
  private replayedSinceEnd = 0
  private retry: NodeJS.Timeout | null = null
  private tries = 0
  private goneSince = 0
  private reconnectedAt = 0

  constructor(
    protected readonly edge: Edge,
    protected readonly exchange: Exchange,
    run: string,
  ) {
    this.run = token<'run'>('run', run)
    this.outlet = new Outlet(exchange, edge.stalls, () => this.settle(false))
    this.unfollow = edge.follower.follow(this.run, this)
    exchange.onAbort = () => this.onAbort()
  }

  /** The creator's stream, after the run was accepted: 200 and everything from id 0. */
  openCreated(head: RunHead): void {
    this.cancels = head.on_disconnect === 'cancel'
    if (this.closed) {
      if (this.cancels && !this.edge.stopping && !isTerminal(head.status)) void reportDisconnect(this.edge, head)
      return
    }
    const other = head.run_id !== this.run
    // The same request made a run before (Idempotency-Key, or a repeated call): that one is streamed, from its start.
    if (other) {
      this.unfollow()
      this.run = token<'run'>('run', head.run_id)
      this.forget()
      this.unfollow = this.edge.follower.follow(this.run, this)
    }
    this.accept(head)
    if (!this.begin()) return
    if (other || isTerminal(head.status)) this.replay()
    else this.settle(false)
  }

  /** Nothing was created: the caller answers. */
  drop(): void {
    this.exchange.onAbort = null
    this.release()
    this.outlet.drop()
  }

  // What is heard.

  onBatch(batch: Batch): void {
    if (this.closed) return
    this.heardAt = this.edge.wheel.now
    if (batch.first + batch.count - 1 <= this.sent) return
    if (!this.opened || this.replaying || this.overflow || this.held.length > 0 || !this.outlet.ready) this.hold(batch)
    else if (!this.take(batch, false)) {
      this.hold(batch)
      this.replay()
    } else if (this.end !== null) this.settle(false)
  }

  onEnd({ status, last_event_id, error }: Ending): void {
    this.ended({ last: last_event_id, status, error, ask: false })
  }

  onPeek(peek: Peek | null): void {
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

  beat(): void {
    if (this.outlet.ready) this.outlet.write(HEARTBEAT)
  }

  // Taking events.

  /** Sends what is new of a batch; false when it does not follow what was sent. `replayed`: all kept before it was seen. */
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
    this.wroteAt = this.edge.wheel.tick
    this.outlet.write(this.filter === null ? next.bytes : this.filter(next.bytes))
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
    this.held.push({ first: batch.first, count: batch.count, bytes: Buffer.from(batch.bytes) })
    this.heldBytes += batch.bytes.length
  }

  private forget(): void {
    this.held = []
    this.heldBytes = 0
  }

  /** Goes on with whatever is next: held events, a replay, the end. */
  protected settle(replayed: boolean): void {
    if (this.closed || !this.opened || !this.outlet.ready) return
    // During a replay that overflowed only replayed events are held; else they come after it.
    if (this.replaying && !this.overflow) return
    let i = 0
    while (i < this.held.length && this.outlet.ready) {
      const batch = this.held[i]!
      if (!this.take(batch, replayed || this.overflow)) break
      this.heldBytes -= batch.bytes.length
      i++
    }
    if (i > 0) this.held = i === this.held.length ? [] : this.held.slice(i)
    if (!this.outlet.ready || this.replaying) return
    if (this.held.length > 0) this.replayLater()
    else if (this.overflow) this.replay()
    else if (this.end !== null) this.conclude(this.end)
  }

  // Replay.

  private replayLater(): void {
    this.retry ??= setTimeout(
      () => {
        this.retry = null
        this.replay()
      },
      this.tries === 0 ? 0 : Math.min(FIRST_RETRY_MS * 2 ** this.tries, LAST_RETRY_MS),
    )
  }

  private replay(): void {
    if (this.closed || this.replaying || this.head === null) return
    if (this.retry !== null) clearTimeout(this.retry)
    this.retry = null
    this.replaying = true
    // What was held behind an overflow is older than what the replay brings anew: it goes on from `sent`.
    if (this.overflow) this.forget()
    this.overflow = false
    this.hole = false
    const { resumable } = this.head
    this.edge.follower
      .replay(this.run, { resumable, after: this.sent }, batch => this.onReplayed(batch))
      .then(
        outcome => this.replayed(outcome),
        error => this.replayed(error === STOP ? 'stopped' : 'silent'),
      )
  }

  protected onReplayed(batch: Batch): void {
    if (this.closed) throw STOP
    this.heardAt = this.edge.wheel.now
    if (batch.first + batch.count - 1 <= this.sent) return
    if (this.opened && this.outlet.ready && !(this.overflow && this.held.length > 0)) {
      // Something sent twice after it was lost stands behind what came later: go on reading.
      this.hole = !this.take(batch, true)
      return
    }
    if (!this.overflow) {
      this.forget()
      this.overflow = true
    } else if (this.heldBytes + batch.bytes.length > HOLD_BYTES) throw STOP
    this.held.push({ first: batch.first, count: batch.count, bytes: Buffer.from(batch.bytes) })
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
    if (early || this.hole) this.replayLater()
    else this.settle(true)
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
    const head = { request_id: this.exchange.requestId, params: { run_id: this.run as string } }
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
    this.outlet.write(Buffer.from(`id: ${id}\nevent: error\ndata: ${JSON.stringify(error)}\n\n`))
    this.sent = id
    this.finish()
  }

  protected finish(): void {
    const { outlet } = this
    this.exchange.onAbort = () => outlet.drop()
    this.release()
    outlet.end()
  }

  /** The clean end would say that this was all. */
  private cut(): void {
    this.edge.link.log.warn({ run_id: this.run, sent: this.sent }, 'events of a run are gone: its stream is cut')
    this.cancels = false
    this.exchange.destroy()
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

  /** The head of the answer, at once: the SDKs count a request as open until then. */
  protected begin(): boolean {
    const path = runPath(this.head!)
    const headers = {
      'Content-Type': 'text/event-stream',
      'Cache-Control': 'no-store',
      'X-Accel-Buffering': 'no',
      Location: `${path}/stream`,
      'Content-Location': path,
    }
    if (this.closed || !this.exchange.begin(headers, FIRST)) return false
    this.opened = true
    this.edge.wheel.add(this)
    return true
  }

  private release(): void {
    if (this.closed) return
    this.closed = true
    this.unfollow()
    this.edge.watch.remove(this)
    this.edge.wheel.remove(this)
    if (this.retry !== null) clearTimeout(this.retry)
    this.forget()
  }

  private onAbort() {
    if (this.head === null) return this.drop()
    this.abandoned()
  }

  /** The connection is gone before the run's end. */
  private abandoned(): void {
    const { head, end, cancels } = this
    this.release()
    this.outlet.drop()
    if (cancels && end === null && head !== null && !this.edge.stopping) void reportDisconnect(this.edge, head)
  }
}
