/**
 * wait and join: one JSON document when the run is over (API: threads-and-runs 10). The head leaves at once, blank
 * lines keep the connection alive, JSON parsers skip them.
 */
import type { Ending, Listener } from '../../bus/follow.js'
import type { Peek } from '../../schemas/calls.js'
import { type RunId, token } from '../../schemas/ids.js'
import { isTerminal, type RunHead } from '../../schemas/runs.js'
import { rpc } from '../../schemas/subjects.js'
import { type Edge, reportDisconnect, runPath } from '../context.js'
import type { Exchange } from '../http/exchange.js'
import { Outlet } from '../http/outlet.js'
import type { Watched } from '../watch.js'
import type { Beating } from '../wheel.js'

const BLANK = Buffer.from('\n')
const NO_STATE = Buffer.from('{}')
const RETRY_MS = 500

export class RunWait implements Listener, Watched, Beating {
  wroteAt = 0
  heardAt = 0
  run: RunId
  private head: RunHead | null = null
  private cancels = false
  private readonly outlet: Outlet
  private unfollow: () => void
  private closed = false
  private opened = false
  /** Set at the end: the answer, or null when it has to be asked for. */
  private result: Uint8Array | null | undefined = undefined

  constructor(
    private readonly edge: Edge,
    private readonly exchange: Exchange,
    run: string,
    /** It has joined the run, not made it. */
    private readonly reader = false,
  ) {
    this.run = token<'run'>('run', run)
    this.outlet = new Outlet(exchange, edge.stalls, () => {})
    this.unfollow = edge.follower.follow(this.run, this)
    exchange.onAbort = () => this.abandoned()
  }

  /** The run is accepted, or was found: 200, and its result as soon as it is over. */
  open(head: RunHead, cancels: boolean): void {
    this.cancels = cancels
    if (this.closed) {
      if (cancels && !isTerminal(head.status) && !this.edge.stopping)
        void reportDisconnect(this.edge, head, this.reader)
      return
    }
    if (head.run_id !== this.run) {
      this.unfollow()
      this.run = token<'run'>('run', head.run_id)
      this.unfollow = this.edge.follower.follow(this.run, this)
    }
    this.head = head
    this.heardAt = Date.now()
    const path = runPath(head)
    const headers = {
      'Content-Type': 'application/json',
      'Cache-Control': 'no-store',
      'X-Accel-Buffering': 'no',
      Location: `${path}/join`,
      'Content-Location': path,
    }
    if (!this.exchange.begin(headers, '\n')) return
    this.opened = true
    this.edge.watch.add(this)
    this.edge.wheel.add(this)
    if (isTerminal(head.status)) this.result ??= null
    if (this.result !== undefined) void this.answer()
  }

  /** Asks whether the run ended before it was followed. */
  recheck(): void {
    this.edge.watch.ask(this)
  }

  /** Nothing to wait for: the caller answers. */
  drop(): void {
    this.exchange.onAbort = null
    this.release()
    this.outlet.drop()
  }

  onEnd({ result }: Ending): void {
    this.ended(result === null ? null : Buffer.from(result))
  }

  onPeek(peek: Peek | null): void {
    if (peek === null || isTerminal(peek.status)) this.ended(null)
  }

  onReconnect(): void {}

  beat(): void {
    if (this.outlet.ready) this.outlet.write(BLANK)
  }

  private ended(result: Uint8Array | null): void {
    if (this.closed || this.result !== undefined) return
    this.result = result
    if (this.opened) void this.answer()
  }

  private async answer(): Promise<void> {
    const result = this.result ?? (await this.ask())
    if (this.closed || result === null) return
    const { outlet } = this
    this.exchange.onAbort = () => outlet.drop()
    this.release()
    outlet.write(result)
    outlet.end()
  }

  /** The result of a run whose end came without it. Asked until somebody answers; a run that is gone has no state. */
  private async ask(): Promise<Uint8Array | null> {
    const head = { request_id: this.exchange.requestId, params: { run_id: this.run as string } }
    while (!this.closed) {
      try {
        const { head: answer, body } = await this.edge.caller.call(rpc('runs', 'result'), head)
        if (answer.status < 400) return body.length === 0 ? NO_STATE : body
        if (answer.status === 404) return NO_STATE
        this.edge.link.log.warn({ run_id: this.run, status: answer.status }, 'the result of a run was refused')
      } catch (error) {
        this.edge.link.log.debug({ err: error, run_id: this.run }, 'the result of a run is not to be had yet')
      }
      await new Promise(done => setTimeout(done, RETRY_MS))
    }
    return null
  }

  private release(): void {
    if (this.closed) return
    this.closed = true
    this.unfollow()
    this.edge.watch.remove(this)
    this.edge.wheel.remove(this)
  }

  private abandoned(): void {
    const { head, cancels } = this
    const running = this.result === undefined
    this.release()
    this.outlet.drop()
    if (cancels && running && head !== null && !this.edge.stopping) void reportDisconnect(this.edge, head, this.reader)
  }
}
