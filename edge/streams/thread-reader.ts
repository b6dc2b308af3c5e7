/**
 * Everything that the runs of a thread stream, to one reader: run after run in the order of their claims, each read
 * to its end (reader.ts) before the next begins. News of the thread are heard before its rows are asked for, and asked
 * for again whenever a claim is missing between two that were heard, or the broker was away: so no run is skipped.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { followThread } from '../../bus/events.js'
import type { Batch, Ending } from '../../bus/follow.js'
import type { CallHead } from '../../schemas/calls.js'
import { PER_CLAIM } from '../../schemas/checkpoints.js'
import { fail } from '../../schemas/errors.js'
import { token } from '../../schemas/ids.js'
import { rpc } from '../../schemas/subjects.js'
import { type Followed, type FollowedRun, type From, idBefore, type ThreadNews } from '../../schemas/thread-stream.js'
import type { Edge } from '../context.js'
import { RunReader } from './run-reader.js'

/** Runs known to wait for their turn; of further ones only that there are more. */
const MAX_LINE = 1_000
const ASK_AGAIN_MS = 1_000
/** The longest the first answer waits for the broker's word that the subscriptions stand. */
const SUBSCRIBED_MS = 500

/** Where the events go. `events`, `error` and `ended` are called only while it is `ready`. */
export interface ThreadSink {
  readonly ready: boolean
  /** What of a run can be wanted. */
  wants(run: FollowedRun): 'events' | 'end' | 'nothing'
  /** The next events of a run. */
  events(batch: Batch, run: FollowedRun): void
  /** The last event of a run, which nobody lived to write. */
  error(id: number, error: NonNullable<Ending['error']>, run: FollowedRun): void
  /**
   * A run is over; `last` is the id of its last event, `read` is false when nothing of it was due. The next one begins
   * when it resolves.
   */
  ended(run: FollowedRun, status: string, last: number, read: boolean): void | Promise<void>
  /** A run that waited will not start. */
  dropped(run_id: string, status: string): void
  /** Everything that was there at the start has been told; may be said again. */
  caughtUp?(): void
  /** `removed`: the thread is no more. `gone`: something cannot be had any more, so this is no clean end. */
  closed(why: 'removed' | 'gone'): void
}

/** A run and what of it is due. after: all behind this id; kept: whatever is kept of it; live: what comes. */
interface Due {
  run: FollowedRun
  after: number
  how: 'after' | 'kept' | 'live'
}

export class ThreadReader {
  private line: Due[] = []
  private more = false
  private known = 0
  private app = ''
  private current: ClaimReader | null = null
  private started = false
  private closed = false
  private asking = false
  private early: ThreadNews[] = []
  private undo: (() => void)[] = []

  constructor(
    private readonly edge: Edge,
    private readonly call: CallHead,
    private readonly sink: ThreadSink,
  ) {}

  /** Rejects with a WeftError: no such thread, or what follows `from` is not kept. Nothing is delivered before `start`. */
  async open(from: From, may_miss = false): Promise<void> {
    const { link } = this.edge
    this.undo.push(followThread(link, this.call.params!.thread_id!.toLowerCase(), news => this.onNews(news)))
    this.undo.push(link.onReconnect(() => this.started && void this.again()))
    try {
      const followed = await this.follow(from, may_miss)
      this.app = followed.app
      if (followed.gone) throw fail('conflict', 'The events after this id are no longer kept')
      for (const run of followed.runs) this.line.push(dueOf(run, from))
      this.known = followed.known
      this.more = followed.more
      // Whoever sees the answer may count on what happens from then on.
      if (from === 'now')
        await Promise.race([link.nc.flush().catch(() => {}), sleep(SUBSCRIBED_MS, null, { ref: false })])
    } catch (error) {
      this.close()
      throw error
    }
  }

  start(): void {
    if (this.closed) return
    this.started = true
    const { early } = this
    this.early = []
    for (const news of early) this.onNews(news)
    this.next()
  }

  /** The sink takes more again. */
  settle(): void {
    if (this.current !== null) this.current.go()
    else this.next()
  }

  close(): void {
    this.closed = true
    for (const undo of this.undo) undo()
    this.undo = []
    this.current?.close()
    this.line = []
  }

  // Which runs there are.

  private onNews(news: ThreadNews): void {
    if (this.closed) return
    if (!this.started) this.early.push(news)
    // Thread ids are unique over all applications, but a reader may name one that is not of its own.
    else if (news.app !== this.app) return
    else if ('removed' in news) this.sink.closed('removed')
    else if ('dropped' in news) this.sink.dropped(news.dropped.run_id, news.dropped.status)
    else if (news.claimed.claim_no > this.known + 1) void this.again()
    else this.add(news.claimed)
  }

  private add(run: FollowedRun): void {
    if (run.claim_no <= this.known) return
    const last = this.line.at(-1)
    // The next attempt of a run is a claim of its own.
    if (last?.run.run_id === run.run_id) last.run = run
    else if (last === undefined && this.current?.run === run.run_id) this.current.renew(run)
    else if (this.line.length >= MAX_LINE) {
      this.more = true
      return
    } else this.line.push({ run, after: -1, how: 'after' })
    this.known = run.claim_no
    this.next()
  }

  /** Asks for the claims behind the last that is known. */
  private async again(): Promise<void> {
    if (this.asking || this.closed || (this.more && this.line.length > 0)) return
    this.asking = true
    try {
      const followed = await this.follow((this.known + 1) * PER_CLAIM - 1, true)
      if (this.closed) return
      if (followed.gone) return this.sink.closed('gone')
      this.more = followed.more
      for (const run of followed.runs) this.add(run)
      this.known = Math.max(this.known, followed.known)
    } catch (error) {
      this.edge.link.log.warn({ err: error, thread_id: this.call.params!.thread_id }, 'a thread could not be followed')
      setTimeout(() => void this.again(), ASK_AGAIN_MS).unref()
    } finally {
      this.asking = false
    }
    this.next()
  }

  private async follow(from: From, may_miss: boolean): Promise<Followed> {
    const body = Buffer.from(JSON.stringify({ from, may_miss }))
    const answer = await this.edge.caller.ask(rpc('threads', 'follow'), this.call, body)
    return JSON.parse(Buffer.from(answer.body).toString()) as Followed
  }

  // One after the other.

  private next(): void {
    while (this.started && !this.closed && this.current === null && this.sink.ready) {
      const due = this.line.shift()
      if (due === undefined) {
        if (this.more) void this.again()
        else this.sink.caughtUp?.()
        return
      }
      const wanted = this.sink.wants(due.run)
      if (wanted === 'nothing') continue
      if (wanted === 'end') due.how = 'live'
      const reader = new ClaimReader(this.edge, this.sink, due, last => void this.over(reader, last))
      this.current = reader
      reader.start()
    }
  }

  private async over(reader: ClaimReader, last: number): Promise<void> {
    try {
      await this.sink.ended(reader.due.run, reader.status, last, reader.due.after < last || last < 0)
    } catch (error) {
      this.edge.link.log.warn({ err: error, run_id: reader.run }, 'the end of a run could not be told')
      if (!this.closed) this.sink.closed('gone')
    }
    if (this.closed) return
    this.current = null
    this.next()
  }
}

function dueOf(run: FollowedRun, from: From): Due {
  if (from === 'now') return { run, after: -1, how: 'live' }
  if (typeof from !== 'number') return { run, after: -1, how: 'kept' }
  return { run, after: idBefore(from, run), how: 'after' }
}

/** One of the runs, read to its end. */
class ClaimReader extends RunReader {
  constructor(
    edge: Edge,
    private readonly sink: ThreadSink,
    readonly due: Due,
    private readonly over: (last: number) => void,
  ) {
    super(edge, token<'run'>('run', due.run.run_id))
  }

  start(): void {
    const { run, after, how } = this.due
    this.accept(run)
    this.opened = true
    if (this.end !== null && this.end.last !== null && after >= this.end.last) return this.finish()
    this.sent = after
    if (how === 'live') {
      this.anchored = false
      this.edge.watch.ask(this)
      this.settle(false)
    } else this.replay()
  }

  go(): void {
    this.settle(false)
  }

  renew(run: FollowedRun): void {
    this.due.run = run
  }

  /** The status it ended with; what was rolled back has none. */
  get status(): string {
    const status = this.end?.status ?? 'gone'
    return status === 'gone' ? 'interrupted' : status
  }

  close(): void {
    this.release()
  }

  protected get ready(): boolean {
    return this.sink.ready
  }

  protected deliver(batch: Batch): void {
    this.sink.events(batch, this.due.run)
  }

  protected deliverError(id: number, error: NonNullable<Ending['error']>): void {
    this.sink.error(id, error, this.due.run)
  }

  /** Of what is only kept by chance the beginning may be gone. */
  protected override replayed(outcome: 'complete' | 'gone' | 'stopped' | 'silent'): void {
    if (this.due.how === 'kept' && this.sent < 0 && outcome === 'gone') {
      this.anchored = false
      if (this.end !== null) this.end.last = null
    }
    super.replayed(outcome)
  }

  protected override live(): void {
    this.sink.caughtUp?.()
  }

  protected finish(): void {
    const last = this.end?.last ?? this.sent
    this.release()
    this.over(last)
  }

  protected cut(): void {
    this.release()
    this.sink.closed('gone')
  }
}
