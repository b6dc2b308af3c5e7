/**
 * Delivers everything that the runs of a thread stream to one sink: run after run in the order of their claims, each
 * read to its end (run-reader.ts) before the next begins. It subscribes to the thread's news before it asks for the
 * rows, and asks again whenever a claim is missing between two that were announced, or the broker was away: so no run
 * is skipped.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { followThread } from '../../bus/events.js'
import type { Batch } from '../../bus/follow.js'
import type { CallHead } from '../../schemas/calls.js'
import { PER_CLAIM } from '../../schemas/checkpoints.js'
import { fail, WeftError } from '../../schemas/errors.js'
import { token } from '../../schemas/ids.js'
import { rpc } from '../../schemas/subjects.js'
import { type Followed, type FollowedRun, type From, idBefore, type ThreadNews } from '../../schemas/thread-stream.js'
import type { Edge } from '../context.js'
import type { RunError } from './run-end.js'
import { RunReader, type RunSink } from './run-reader.js'

/** Runs in line here; of further ones only that there are more. */
const MAX_LINE = 1_000
const ASK_AGAIN_MS = 1_000
/** Longest wait for the broker's confirmation of the subscriptions, before the first answer. */
const SUBSCRIBED_MS = 500

/** Where the events go. `events`, `error` and `ended` are called only while it is `ready`. */
export interface ThreadSink {
  readonly ready: boolean
  /** Which part of a run this reader can want. */
  wants(run: FollowedRun): 'events' | 'end' | 'nothing'
  /** The next events of a run. */
  events(batch: Batch, run: FollowedRun): void
  /** The last event of a run, which no host was alive to write. */
  error(id: number, error: RunError, run: FollowedRun): void
  /**
   * A run has ended; `last` is the id of its last event, `read` is false when nothing of it was due. The next one
   * begins when the returned promise resolves.
   */
  ended(run: FollowedRun, status: string, last: number, read: boolean): void | Promise<void>
  /** A run that waited will not start. */
  dropped(run_id: string, status: string): void
  /** Everything that existed at the start was delivered; may be called again. */
  caughtUp?(): void
  /** `removed`: the thread was deleted. `lost`: events are not available any more, so this is no clean end. */
  closed(why: 'removed' | 'lost'): void
}

/** A run and the part of it that is due. after: all behind this id; stored: whatever is stored of it; live: new events. */
interface DueRun {
  run: FollowedRun
  after: number
  how: 'after' | 'stored' | 'live'
}

export class ThreadReader {
  private line: DueRun[] = []
  private more = false
  /** Claims up to this one are delivered, in line, or not wanted. */
  private lastClaim = 0
  private app = ''
  /** False: the thread did not exist when it was asked for, so the access of this reader was not checked. */
  private exists = true
  private current: { due: DueRun; reader: RunReader } | null = null
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

  /** Rejects with a WeftError: no such thread, or what follows `from` is not stored. Nothing is delivered before `start`. */
  async open(from: From, { mayMiss = false } = {}): Promise<void> {
    const { link } = this.edge
    this.undo.push(followThread(link, this.call.params!.thread_id!.toLowerCase(), news => this.onNews(news)))
    this.undo.push(link.onReconnect(() => this.started && void this.refresh()))
    try {
      const followed = await this.follow(from, mayMiss)
      this.app = followed.app
      if (followed.gone) throw fail('conflict', 'The events after this id are no longer kept')
      for (const run of followed.runs) this.line.push(dueOf(run, from))
      this.lastClaim = followed.known
      this.more = followed.more
      // A client that sees the answer may rely on every event from then on.
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

  /** The sink is ready again. */
  advance(): void {
    if (this.current !== null) this.current.reader.advance()
    else this.next()
  }

  close(): void {
    this.closed = true
    for (const undo of this.undo) undo()
    this.undo = []
    this.current?.reader.close()
    this.line = []
  }

  // Which runs there are.

  private onNews(news: ThreadNews): void {
    if (this.closed) return
    if (!this.started) this.early.push(news)
    // Thread ids are unique over all applications, but a reader may name one of another application.
    else if (news.app !== this.app) return
    else if ('removed' in news) this.sink.closed('removed')
    else if (!this.exists && this.call.filters !== undefined) void this.refresh()
    else if ('dropped' in news) this.sink.dropped(news.dropped.run_id, news.dropped.status)
    else if (news.claimed.claim_no > this.lastClaim + 1) void this.refresh()
    else this.add(news.claimed)
  }

  private add(run: FollowedRun): void {
    if (run.claim_no <= this.lastClaim) return
    const last = this.line.at(-1)
    // The next attempt of a run is a separate claim.
    if (last?.run.run_id === run.run_id) last.run = run
    else if (last === undefined && this.current?.due.run.run_id === run.run_id) this.current.due.run = run
    else if (this.line.length >= MAX_LINE) {
      this.more = true
      return
    } else this.line.push({ run, after: -1, how: 'after' })
    this.lastClaim = run.claim_no
    this.next()
  }

  /** Asks for the claims behind the last one known. */
  private async refresh(): Promise<void> {
    if (this.asking || this.closed || (this.more && this.line.length > 0)) return
    this.asking = true
    try {
      const followed = await this.follow((this.lastClaim + 1) * PER_CLAIM - 1, true)
      if (this.closed) return
      if (followed.gone) return this.sink.closed('lost')
      this.more = followed.more
      for (const run of followed.runs) this.add(run)
      this.lastClaim = Math.max(this.lastClaim, followed.known)
    } catch (error) {
      if (error instanceof WeftError && error.code === 'not_found') return this.sink.closed('removed')
      this.edge.link.log.warn({ err: error, thread_id: this.call.params!.thread_id }, 'a thread could not be followed')
      setTimeout(() => void this.refresh(), ASK_AGAIN_MS).unref()
    } finally {
      this.asking = false
    }
    this.next()
  }

  private async follow(from: From, may_miss: boolean): Promise<Followed> {
    const body = Buffer.from(JSON.stringify({ from, may_miss }))
    const answer = await this.edge.caller.ask(rpc('threads', 'follow'), this.call, body, { repeat: true })
    const followed = JSON.parse(Buffer.from(answer.body).toString()) as Followed
    this.exists = followed.exists
    return followed
  }

  // One after the other.

  private next(): void {
    while (this.started && !this.closed && this.current === null && this.sink.ready) {
      const due = this.line.shift()
      if (due === undefined) {
        if (this.more) void this.refresh()
        else this.sink.caughtUp?.()
        return
      }
      const wanted = this.sink.wants(due.run)
      if (wanted === 'nothing') continue
      if (wanted === 'end') due.how = 'live'
      this.read(due)
    }
  }

  /** Reads one run to its end. */
  private read(due: DueRun): void {
    const { edge, sink } = this
    const runSink: RunSink = {
      get ready() {
        return sink.ready
      },
      begin: () => true,
      events: batch => sink.events(batch, due.run),
      error: (id, error) => sink.error(id, error, due.run),
      caughtUp: () => sink.caughtUp?.(),
      ended: () => void this.onRunEnded(due, reader),
      cut: () => {
        reader.close()
        sink.closed('lost')
      },
    }
    const reader = new RunReader(edge, token<'run'>('run', due.run.run_id), runSink)
    this.current = { due, reader }
    const { after, how } = due
    reader.accept(due.run)
    if (how === 'live') edge.watch.ask(reader)
    reader.open({ after, anchored: how !== 'live', lenient: how === 'stored' })
  }

  private async onRunEnded({ run, after }: DueRun, { end, sent }: RunReader): Promise<void> {
    const last = end?.last ?? sent
    // A run that was rolled back has no status.
    const status = end === null || end.status === 'removed' ? 'interrupted' : end.status
    try {
      await this.sink.ended(run, status, last, after < last || last < 0)
    } catch (error) {
      this.edge.link.log.warn({ err: error, run_id: run.run_id }, 'the end of a run could not be delivered')
      if (!this.closed) this.sink.closed('lost')
    }
    if (this.closed) return
    this.current = null
    this.next()
  }
}

function dueOf(run: FollowedRun, from: From): DueRun {
  if (from === 'now') return { run, after: -1, how: 'live' }
  if (typeof from !== 'number') return { run, after: -1, how: 'stored' }
  return { run, after: idBefore(from, run), how: 'after' }
}
