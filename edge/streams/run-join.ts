/**
 * Joining a run that exists (API: threads-and-runs 14). What is no longer kept is a 409 before the stream starts, so the
 * 200 waits for the first replayed event, or for the word that there is none.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { after, type Batch, follows } from '../../bus/follow.js'
import { isTerminal, type RunHead } from '../../schemas/runs.js'
import type { Cursor } from './cursor.js'
import type { EventFilter } from './filter.js'
import { STOP } from './run-reader.js'
import { RunStream } from './run-stream.js'

/** The longest a head waits for the broker's word that the subscription stands. */
const SUBSCRIBED_MS = 500

type Outcome = 'complete' | 'gone' | 'stopped' | 'silent'

export class JoinedStream extends RunStream {
  protected override readonly reader = true

  /** Begins where the cursor says; the run's own default is to replay all that is kept, or to begin with what comes. */
  async open(head: RunHead, cursor: Cursor, filter: EventFilter | null, cancels: boolean): Promise<void> {
    this.accept(head)
    this.filter = filter
    this.cancels = cancels
    const ended = isTerminal(head.status)
    if (typeof cursor === 'number' && ended && head.last_event_id !== null && cursor >= head.last_event_id) {
      if (this.begin()) this.finish()
      return
    }
    if (cursor === null && head.from === 'live') {
      this.anchored = false
      // Whoever sees the 200 may count on what happens from then on.
      if (!ended)
        await Promise.race([this.edge.link.nc.flush().catch(() => {}), sleep(SUBSCRIBED_MS, undefined, { ref: false })])
      if (!this.begin()) return
      if (ended) return this.finish()
      this.edge.watch.ask(this)
      return this.settle(false)
    }
    if (!ended) this.edge.watch.ask(this)
    if (typeof cursor === 'number') await this.fromCursor(cursor)
    else await this.fromStart(cursor === null)
  }

  /** Strictly after `cursor`. Asking from one before it tells an id of this run from a foreign one. */
  private async fromCursor(cursor: number): Promise<void> {
    this.replaying = true
    this.sent = cursor
    let seen = false
    const onBatch = (batch: Batch) => {
      seen = true
      this.onJoined(batch)
    }
    let outcome = await this.ask(Math.max(cursor - 1, -1), onBatch)
    const foreign = !seen && outcome === 'complete'
    // The event itself may be gone while all behind it is kept.
    if (!seen && outcome === 'gone') outcome = await this.ask(cursor, onBatch)
    if (this.closed) return
    if (!this.opened && outcome === 'silent') return this.refuse('unavailable')
    if (!this.opened && (this.hole || (!seen && outcome === 'gone'))) return this.refuse('conflict')
    if (foreign) {
      // It sorts after the end of what there is, so it counts as absent.
      this.sent = -1
      if (this.head!.from === 'start') return this.fromStart(true)
      this.anchored = false
    }
    this.joined(outcome)
  }

  /** `lenient`: what is kept, wherever it begins; else everything, or 409. */
  private async fromStart(lenient: boolean): Promise<void> {
    this.replaying = true
    this.anchored = !lenient
    const outcome = await this.ask(-1, batch => this.onJoined(batch))
    if (this.closed) return
    if (!this.opened && outcome === 'silent') return this.refuse('unavailable')
    const pending = this.head!.status === 'pending'
    const isCut = outcome === 'gone' && this.head!.resumable_until_id !== null
    if (!this.opened && isCut) return this.refuse('conflict')
    if (!this.opened && !lenient && (this.hole || (outcome === 'gone' && !pending))) return this.refuse('conflict')
    // Nothing was published yet: the first event to come is the first of all.
    if (!this.opened && (outcome === 'complete' || pending)) this.anchored = true
    this.joined(outcome)
  }

  private async ask(from: number, onBatch: (batch: Batch) => void): Promise<Outcome> {
    try {
      const { resumable, resumable_until_id: until } = this.head!
      return await this.edge.follower.replay(this.run, { resumable, after: from, until }, onBatch)
    } catch (error) {
      return error === STOP ? 'stopped' : 'silent'
    }
  }

  private onJoined(batch: Batch): void {
    if (this.closed) throw STOP
    if (!this.opened && batch.first + batch.count - 1 > this.sent) {
      const next = after(batch, this.sent)!
      if (this.anchored && !follows(this.sent, next.first)) {
        this.hole = true
        return
      }
      if (!this.begin()) throw STOP
    }
    this.onReplayed(batch)
  }

  private joined(outcome: Outcome): void {
    if (!this.opened && !this.begin()) return
    if (this.end !== null && this.sent < 0 && outcome === 'gone') this.end.last = null
    this.replayed(outcome)
  }

  private refuse(code: 'conflict' | 'unavailable'): void {
    const { exchange } = this
    this.drop()
    if (code === 'conflict') exchange.refuse(code, 'The events after this id are no longer kept')
    else exchange.refuse(code)
  }
}
