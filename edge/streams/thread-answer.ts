/**
 * The common part of both streams over a thread: one answer of server-sent events that stays open until the client
 * leaves, at the client's speed.
 */
import type { Batch } from '../../bus/follow.js'
import type { FollowedRun } from '../../schemas/thread-stream.js'
import type { Edge } from '../context.js'
import type { Exchange } from '../http/exchange.js'
import { Outlet } from '../http/outlet.js'
import type { WheelEntry } from '../wheel.js'
import type { RunError } from './run-end.js'
import { FIRST, HEARTBEAT, SSE } from './run-stream.js'
import { ThreadReader, type ThreadSink } from './thread-reader.js'

export abstract class ThreadAnswer implements ThreadSink, WheelEntry {
  wroteAt = 0
  protected readonly reader: ThreadReader
  private readonly outlet: Outlet
  /** Written once the client has taken what it was sent. */
  private waiting: Uint8Array[] = []

  constructor(
    protected readonly edge: Edge,
    protected readonly exchange: Exchange,
  ) {
    this.outlet = new Outlet(exchange, edge.stalls, () => this.onReady())
    this.reader = new ThreadReader(edge, exchange.callHead(), this)
    exchange.onAbort = () => this.leave()
  }

  abstract wants(run: FollowedRun): 'events' | 'end' | 'nothing'
  abstract events(batch: Batch, run: FollowedRun): void
  abstract error(id: number, error: RunError, run: FollowedRun): void
  abstract ended(run: FollowedRun, status: string, last: number, read: boolean): void | Promise<void>
  abstract dropped(run_id: string, status: string): void

  get ready(): boolean {
    return this.outlet.ready && this.waiting.length === 0
  }

  closed(why: 'removed' | 'lost'): void {
    const { outlet } = this
    if (why === 'lost') return this.exchange.destroy()
    this.exchange.onAbort = () => outlet.drop()
    this.reader.close()
    this.edge.wheel.remove(this)
    outlet.end()
  }

  beat(): void {
    if (this.ready) this.outlet.write(HEARTBEAT)
  }

  /** Sends the headers, and from then on the events. When `opening` rejects, nothing was sent. */
  protected async begin(opening: Promise<void>): Promise<void> {
    try {
      await opening
    } catch (error) {
      this.leave()
      throw error
    }
    if (!this.exchange.begin({ ...SSE, Location: this.exchange.path }, FIRST)) return this.leave()
    this.edge.wheel.add(this)
    this.reader.start()
  }

  protected write(bytes: Uint8Array): void {
    if (bytes.length === 0) return
    this.wroteAt = this.edge.wheel.tick
    if (this.ready) this.outlet.write(bytes)
    else this.waiting.push(bytes)
  }

  private onReady(): void {
    while (this.outlet.ready && this.waiting.length > 0) this.outlet.write(this.waiting.shift()!)
    if (this.ready) this.reader.advance()
  }

  private leave(): void {
    this.exchange.onAbort = null
    this.reader.close()
    this.edge.wheel.remove(this)
    this.outlet.drop()
  }
}
