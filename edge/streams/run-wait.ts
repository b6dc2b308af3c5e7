/**
 * wait and join: one JSON document when the run has ended (docs/spec/runs.md#wait-and-join). The headers leave at
 * once, blank lines keep the connection alive, JSON parsers skip them.
 */
import type { Ending, Listener } from '../../bus/follow.js'
import type { Peek } from '../../schemas/calls.js'
import { type RunId, token } from '../../schemas/ids.js'
import { isTerminal, type RunView } from '../../schemas/runs.js'
import { type Edge, reportDisconnect, runPath } from '../context.js'
import type { Exchange } from '../http/exchange.js'
import { Outlet } from '../http/outlet.js'
import type { WatchEntry } from '../watch.js'
import type { WheelEntry } from '../wheel.js'
import { fetchResult } from './run-result.js'

const BLANK = Buffer.from('\n')

export interface RunWaitOptions {
  /** This client joined the run; else it created it. */
  joined: boolean
}

export class RunWait implements Listener, WatchEntry, WheelEntry {
  wroteAt = 0
  heardAt = 0
  run: RunId
  private view: RunView | null = null
  private cancels = false
  private readonly joined: boolean
  private readonly outlet: Outlet
  private closed = false
  /** Ends the question for the result. A run that tells its result needs none. */
  private asking: AbortController | null = null
  private unfollow: () => void
  /** Set at the end of the run: the answer, or null when it has to be fetched. */
  private result: Uint8Array | null | undefined = undefined

  constructor(
    private readonly edge: Edge,
    private readonly exchange: Exchange,
    run_id: string,
    { joined }: RunWaitOptions,
  ) {
    this.run = token<'run'>('run', run_id)
    this.joined = joined
    this.outlet = new Outlet(exchange, edge.stalls, () => {})
    this.unfollow = edge.follower.follow(this.run, this)
    exchange.onAbort = () => this.onAbort()
  }

  /** The run was accepted, or found: 200, and its result as soon as it has ended. */
  open(view: RunView, { cancels }: { cancels: boolean }): void {
    this.cancels = cancels
    if (this.closed) {
      if (cancels && !isTerminal(view.status)) this.report(view)
      return
    }
    if (view.run_id !== this.run) {
      this.unfollow()
      this.run = token<'run'>('run', view.run_id)
      this.unfollow = this.edge.follower.follow(this.run, this)
    }
    this.view = view
    this.heardAt = performance.now()
    const path = runPath(view)
    const headers = {
      'Content-Type': 'application/json',
      'Cache-Control': 'no-store',
      'X-Accel-Buffering': 'no',
      Location: `${path}/join`,
      'Content-Location': path,
    }
    if (!this.exchange.begin(headers, '\n')) return
    this.edge.watch.add(this)
    this.edge.wheel.add(this)
    if (isTerminal(view.status)) this.result ??= null
    if (this.result !== undefined) void this.answer()
  }

  /** Asks whether the run ended before it was followed. */
  recheck(): void {
    this.edge.watch.ask(this)
  }

  /** There is nothing to wait for: the caller answers. */
  drop(): void {
    this.exchange.onAbort = null
    this.close()
    this.outlet.drop()
  }

  onEnd({ result }: Ending): void {
    this.onResult(result === null ? null : Buffer.from(result))
  }

  onPeek(peek: Peek | null): void {
    if (peek === null || isTerminal(peek.status)) this.onResult(null)
  }

  onReconnect(): void {}

  beat(): void {
    if (this.outlet.ready) this.outlet.write(BLANK)
  }

  private onResult(result: Uint8Array | null): void {
    if (this.closed || this.result !== undefined) return
    this.result = result
    if (this.view !== null) void this.answer()
  }

  private async answer(): Promise<void> {
    const { exchange, outlet } = this
    const result = this.result ?? (await this.ask())
    if (result === null || this.closed) return
    exchange.onAbort = () => outlet.drop()
    this.close()
    // Together they leave in one write.
    exchange.cork(() => {
      outlet.write(result)
      outlet.end()
    })
  }

  private ask(): Promise<Uint8Array | null> {
    this.asking = new AbortController()
    return fetchResult(this.edge, this.run, this.exchange.requestId, this.asking.signal)
  }

  private close(): void {
    if (this.closed) return
    this.closed = true
    this.asking?.abort()
    this.unfollow()
    this.edge.watch.remove(this)
    this.edge.wheel.remove(this)
  }

  /** The client left before the end of the run. */
  private onAbort(): void {
    const { view, cancels } = this
    const running = this.result === undefined
    this.close()
    this.outlet.drop()
    if (cancels && running && view !== null) this.report(view)
  }

  private report(view: RunView): void {
    if (!this.edge.stopping.aborted) void reportDisconnect(this.edge, view, this.joined)
  }
}
