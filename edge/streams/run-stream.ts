/**
 * The events of a run as the answer to one request: the creator's stream. What follows what, and when it ends, is
 * decided in reader.ts.
 */
import type { Batch, Ending } from '../../bus/follow.js'
import { token } from '../../schemas/ids.js'
import { isTerminal, type RunHead } from '../../schemas/runs.js'
import { type Edge, reportDisconnect, runPath } from '../context.js'
import type { Exchange } from '../http/exchange.js'
import { Outlet } from '../http/outlet.js'
import type { Beating } from '../wheel.js'
import type { EventFilter } from './filter.js'
import { RunReader } from './run-reader.js'

/** A single line end: after a comment with a blank line some SDKs dispatch a phantom event (API: threads-and-runs 12). */
export const HEARTBEAT = Buffer.from(': heartbeat\n')
/** Something must be written for the head to leave; a comment of its own keeps the heartbeats' cadence unbroken. */
export const FIRST = ': connected\n'
/** Headers of every event stream. */
export const SSE = {
  'Content-Type': 'text/event-stream',
  'Cache-Control': 'no-store',
  'X-Accel-Buffering': 'no',
} as const

export class RunStream extends RunReader implements Beating {
  wroteAt = 0
  protected filter: EventFilter | null = null
  protected cancels = false
  /** It has joined the run, not made it. */
  protected readonly reader: boolean = false
  private readonly outlet: Outlet

  constructor(
    edge: Edge,
    protected readonly exchange: Exchange,
    run: string,
  ) {
    super(edge, token<'run'>('run', run))
    this.outlet = new Outlet(exchange, edge.stalls, () => this.settle(false))
    exchange.onAbort = () => this.onAbort()
  }

  /** The creator's stream, after the run was accepted: 200 and everything from id 0. */
  openCreated(head: RunHead): void {
    this.cancels = head.on_disconnect === 'cancel'
    if (this.closed) {
      if (this.cancels && !this.edge.stopping && !isTerminal(head.status))
        void reportDisconnect(this.edge, head, this.reader)
      return
    }
    const other = head.run_id !== this.run
    // The same request made a run before (Idempotency-Key, or a repeated call): that one is streamed, from its start.
    if (other) this.refollow(head.run_id)
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

  beat(): void {
    if (this.outlet.ready) this.outlet.write(HEARTBEAT)
  }

  protected get ready(): boolean {
    return this.outlet.ready
  }

  protected deliver({ bytes, v2 }: Batch): void {
    if (v2) return
    this.wroteAt = this.edge.wheel.tick
    this.outlet.write(this.filter === null ? bytes : this.filter(bytes))
  }

  protected deliverError(id: number, error: NonNullable<Ending['error']>): void {
    this.outlet.write(Buffer.from(`id: ${id}\nevent: error\ndata: ${JSON.stringify(error)}\n\n`))
  }

  protected finish(): void {
    const { outlet } = this
    this.exchange.onAbort = () => outlet.drop()
    this.release()
    outlet.end()
  }

  protected cut(): void {
    this.edge.link.log.warn({ run_id: this.run, sent: this.sent }, 'events of a run are gone: its stream is cut')
    this.cancels = false
    this.exchange.destroy()
  }

  /** The head of the answer, at once: the SDKs count a request as open until then. */
  protected begin(): boolean {
    const path = runPath(this.head!)
    const headers = { ...SSE, Location: `${path}/stream`, 'Content-Location': path }
    if (this.closed || !this.exchange.begin(headers, FIRST)) return false
    this.opened = true
    this.edge.wheel.add(this)
    return true
  }

  protected override release(): void {
    super.release()
    this.edge.wheel.remove(this)
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
    if (cancels && end === null && head !== null && !this.edge.stopping)
      void reportDisconnect(this.edge, head, this.reader)
  }
}
