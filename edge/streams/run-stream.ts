/**
 * The events of a run as the answer to one request, of the client that created the run or of one that joined it. The
 * order of the events and the end are decided in run-reader.ts.
 */
import type { Batch } from '../../bus/follow.js'
import { token } from '../../schemas/ids.js'
import { isTerminal, type RunView } from '../../schemas/runs.js'
import { type Edge, reportDisconnect, runPath } from '../context.js'
import type { Exchange } from '../http/exchange.js'
import { Outlet } from '../http/outlet.js'
import type { WheelEntry } from '../wheel.js'
import type { EventFilter } from './filter.js'
import type { RunError } from './run-end.js'
import { RunReader, type RunSink } from './run-reader.js'

/** A single line end: after a comment with a blank line some SDKs dispatch a phantom event (docs/spec/streams.md#format). */
export const HEARTBEAT = Buffer.from(': heartbeat\n')
/** Something must be written for the head to leave; a separate comment keeps the heartbeats' cadence unbroken. */
export const FIRST = ': connected\n'
/** Headers of every event stream. */
export const SSE = {
  'Content-Type': 'text/event-stream',
  'Cache-Control': 'no-store',
  'X-Accel-Buffering': 'no',
} as const

export interface RunStreamOptions {
  /** This client joined the run; else it created it. */
  joined: boolean
  /** Its disconnect may cancel the run. */
  cancels?: boolean
  filter?: EventFilter | null
}

export class RunStream implements RunSink, WheelEntry {
  wroteAt = 0
  readonly reader: RunReader
  private readonly outlet: Outlet
  private readonly filter: EventFilter | null
  private readonly joined: boolean
  private cancels: boolean

  constructor(
    readonly edge: Edge,
    readonly exchange: Exchange,
    run_id: string,
    { joined, cancels = false, filter = null }: RunStreamOptions,
  ) {
    this.joined = joined
    this.cancels = cancels
    this.filter = filter
    this.outlet = new Outlet(exchange, edge.stalls, () => this.reader.advance())
    this.reader = new RunReader(edge, token<'run'>('run', run_id), this)
    exchange.onAbort = () => this.onAbort()
  }

  /** The creator's stream, after the run was accepted: 200 and everything from id 0. */
  openCreated(view: RunView): void {
    const { reader } = this
    this.cancels = view.on_disconnect === 'cancel'
    if (reader.closed) {
      if (this.cancels && !isTerminal(view.status)) this.report(view)
      return
    }
    const other = view.run_id !== reader.run
    // The same request made a run before (Idempotency-Key, or a repeated call): that one is streamed, from its start.
    if (other) reader.refollow(view.run_id)
    reader.accept(view)
    if (other || isTerminal(view.status)) reader.open({ after: -1 })
    else reader.openNew()
  }

  /** Nothing is streamed: the caller answers. */
  drop(): void {
    this.exchange.onAbort = null
    this.close()
    this.outlet.drop()
  }

  beat(): void {
    if (this.outlet.ready) this.outlet.gather(HEARTBEAT)
  }

  get ready(): boolean {
    return this.outlet.ready
  }

  /** The headers leave at once: the SDKs count a request as open until then. */
  begin(): boolean {
    const path = runPath(this.reader.view!)
    const headers = { ...SSE, Location: `${path}/stream`, 'Content-Location': path }
    if (!this.exchange.begin(headers, FIRST)) return false
    this.edge.wheel.add(this)
    return true
  }

  events({ bytes, v2 }: Batch): void {
    if (v2) return
    this.wroteAt = this.edge.wheel.tick
    this.outlet.gather(this.filter === null ? bytes : this.filter(bytes))
  }

  error(id: number, error: RunError): void {
    this.outlet.gather(Buffer.from(`id: ${id}\nevent: error\ndata: ${JSON.stringify(error)}\n\n`))
  }

  ended(): void {
    const { outlet } = this
    this.exchange.onAbort = () => outlet.drop()
    this.close()
    outlet.end()
  }

  cut(): void {
    const { run, sent } = this.reader
    this.edge.link.log.warn({ run_id: run, sent }, 'events of a run are lost: stream cut')
    this.cancels = false
    this.exchange.destroy()
  }

  private close(): void {
    this.reader.close()
    this.edge.wheel.remove(this)
  }

  /** The client left before the end of the run. */
  private onAbort(): void {
    const { view, end } = this.reader
    if (view === null) return this.drop()
    this.close()
    this.outlet.drop()
    if (this.cancels && end === null) this.report(view)
  }

  private report(view: RunView): void {
    if (!this.edge.stopping.aborted) void reportDisconnect(this.edge, view, this.joined)
  }
}
