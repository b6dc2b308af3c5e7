/**
 * The answer to a request of JSON-RPC 2.0: one message, or a stream of events with a message each. Once it has begun, blank
 * lines or comments keep the connection alive while the run executes.
 */
import { jsonText } from '../../schemas/exact.js'
import type { Edge } from '../context.js'
import type { Exchange } from '../http/exchange.js'
import { Outlet } from '../http/outlet.js'
import type { Headers } from '../http/received.js'
import { FIRST, HEARTBEAT, SSE } from '../streams/run-stream.js'
import type { WheelEntry } from '../wheel.js'

const BLANK = '\n'
/** JSON parsers skip it. */
const IDLE = { message: Buffer.from(BLANK), events: HEARTBEAT } as const

export interface RpcError {
  code: number
  message: string
}

export class RpcAnswer implements WheelEntry {
  wroteAt = 0
  private readonly outlet: Outlet
  private readonly leaving = new AbortController()
  private begun: keyof typeof IDLE | null = null
  private resume: () => void = () => {}
  /** Headers of a success. */
  headers: Headers = {}

  constructor(
    private readonly edge: Edge,
    private readonly exchange: Exchange,
    private readonly id: string | number,
  ) {
    this.outlet = new Outlet(exchange, edge.stalls, () => this.resume())
    exchange.onAbort = () => {
      edge.wheel.remove(this)
      this.outlet.drop()
      this.leaving.abort()
      this.resume()
    }
  }

  /** Aborted when the client leaves. */
  get signal(): AbortSignal {
    return this.leaving.signal
  }

  /** A success for HTTP was sent. */
  get hasBegun(): boolean {
    return this.begun !== null
  }

  /** Sends the head and keeps the connection alive; the answer is a success for HTTP from here on. */
  begin(kind: keyof typeof IDLE): void {
    const headers = kind === 'events' ? SSE : { 'Content-Type': 'application/json' }
    if (!this.exchange.begin({ ...headers, ...this.headers }, kind === 'events' ? FIRST : BLANK)) return
    this.begun = kind
    this.edge.wheel.add(this)
  }

  beat(): void {
    if (this.begun !== null && this.outlet.ready) this.outlet.write(IDLE[this.begun])
  }

  /** One event of a stream; resolves when the client can take the next one. */
  async event(result: object, id: string | undefined): Promise<void> {
    const name = id === undefined ? '' : `id: ${id}\n`
    await this.write(`${name}data: ${jsonText({ jsonrpc: '2.0', id: this.id, result })}\n\n`)
  }

  /** The message of the answer, or the last event. */
  async result(result: object): Promise<void> {
    await this.finish(jsonText({ jsonrpc: '2.0', id: this.id, result }))
  }

  async error(error: RpcError): Promise<void> {
    await this.finish(errorText(this.id, error))
  }

  /** The clean end of a stream. */
  end(): void {
    this.edge.wheel.remove(this)
    this.exchange.onAbort = () => this.outlet.drop()
    this.outlet.end()
  }

  private async finish(text: string): Promise<void> {
    if (this.begun === null) return this.exchange.reply(200, text, this.headers)
    await this.write(this.begun === 'events' ? `data: ${text}\n\n` : text)
    this.end()
  }

  private async write(text: string): Promise<void> {
    if (this.signal.aborted) return
    // A heartbeat may still be on its way.
    await this.ready()
    if (this.signal.aborted) return
    this.wroteAt = this.edge.wheel.tick
    this.outlet.write(Buffer.from(text))
    await this.ready()
  }

  private async ready(): Promise<void> {
    while (!this.outlet.ready && !this.signal.aborted)
      await new Promise<void>(done => {
        this.resume = done
      })
  }
}

/** A whole answer; the id is null when the request has none that can be read. */
export const errorText = (id: string | number | null, error: RpcError): string =>
  jsonText({ jsonrpc: '2.0', id, error })
