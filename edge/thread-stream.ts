/**
 * GET /threads/{id}/stream: one answer for all runs of a thread, until the client leaves (API: threads-and-runs 15).
 * Ids are those of the thread: claim · 2²⁴ + n; the events' own ids are replaced in the bytes, nothing else is touched.
 */
import type { Batch, Ending } from '../bus/follow.js'
import { fail } from '../schemas/errors.js'
import { readList } from '../schemas/query.js'
import { rpc } from '../schemas/subjects.js'
import { type FollowedRun, markOf, seqOf } from '../schemas/thread-stream.js'
import type { Edge } from './context.js'
import { readCursor } from './cursor.js'
import type { Exchange } from './exchange.js'
import { type EventFilter, onlyEvents } from './filter.js'
import { Outlet } from './outlet.js'
import type { Route } from './routes.js'
import { FIRST, HEARTBEAT, SSE } from './stream.js'
import { ThreadReader, type ThreadSink } from './thread-reader.js'
import type { Beating } from './wheel.js'

const MODES = ['run_modes', 'lifecycle', 'state_update']

export async function joinThread(edge: Edge, exchange: Exchange, _route: Route): Promise<void> {
  const query = new URLSearchParams(exchange.query)
  const modes = readList(query, 'stream_mode', 'stream_modes')
  const unknown = modes.find(mode => !MODES.includes(mode))
  if (unknown !== undefined) throw fail('invalid', `stream_mode: expected ${MODES.join(', ')}, got "${unknown}"`)
  const stream = new ThreadStream(edge, exchange, new Set(modes.length > 0 ? modes : ['run_modes']))
  await stream.open(readCursor(exchange.received.lastEventId, query) ?? 'now')
}

class ThreadStream implements ThreadSink, Beating {
  wroteAt = 0
  private readonly outlet: Outlet
  private readonly reader: ThreadReader
  private readonly filter: EventFilter | null
  /** What this client has seen before. */
  private seen = -1
  /** What is to be written once the client has taken what it was sent. */
  private waiting: Uint8Array[] = []

  constructor(
    private readonly edge: Edge,
    private readonly exchange: Exchange,
    private readonly modes: ReadonlySet<string>,
  ) {
    this.filter = modes.has('run_modes') ? null : onlyEvents(modes.has('lifecycle') ? ['metadata'] : [])
    this.outlet = new Outlet(exchange, edge.stalls, () => this.onReady())
    this.reader = new ThreadReader(edge, exchange.callHead(), this)
    exchange.onAbort = () => this.leave()
  }

  async open(from: 'start' | 'now' | number): Promise<void> {
    try {
      await this.reader.open(from)
    } catch (error) {
      this.leave()
      throw error
    }
    if (typeof from === 'number') this.seen = from
    if (!this.exchange.begin({ ...SSE, Location: this.exchange.path }, FIRST)) return this.leave()
    this.edge.wheel.add(this)
    this.reader.start()
  }

  get ready(): boolean {
    return this.outlet.ready && this.waiting.length === 0
  }

  wants(): 'events' | 'end' {
    return this.modes.has('run_modes') || this.modes.has('lifecycle') ? 'events' : 'end'
  }

  events(batch: Batch, run: FollowedRun): void {
    const bytes = this.filter === null ? batch.bytes : this.filter(batch.bytes)
    this.write(renumber(bytes, id => seqOf(id, run)))
  }

  error(id: number, error: NonNullable<Ending['error']>, run: FollowedRun): void {
    if (this.modes.has('run_modes')) this.say('error', JSON.stringify(error), seqOf(id, run))
  }

  async ended(run: FollowedRun, status: string, last: number): Promise<void> {
    if (this.wants() === 'events') {
      const { run_id } = run
      this.say('run_done', JSON.stringify({ run_id, status }), markOf(0, last, run))
    }
    if (!this.modes.has('state_update')) return
    const { body } = await this.edge.caller.ask(rpc('threads', 'settled'), this.exchange.callHead())
    this.say('state_update', Buffer.from(body).toString(), markOf(1, last, run))
  }

  dropped(run_id: string, status: string): void {
    if (this.wants() === 'events') this.say('run_done', JSON.stringify({ run_id, status }))
  }

  closed(why: 'removed' | 'gone'): void {
    const { outlet } = this
    if (why === 'gone') return this.exchange.destroy()
    this.exchange.onAbort = () => outlet.drop()
    this.reader.close()
    this.edge.wheel.remove(this)
    outlet.end()
  }

  beat(): void {
    if (this.ready) this.outlet.write(HEARTBEAT)
  }

  private say(event: string, json: string, id?: number): void {
    if (id !== undefined && id <= this.seen) return
    this.write(Buffer.from(`${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${json}\n\n`))
  }

  private write(bytes: Uint8Array): void {
    if (bytes.length === 0) return
    this.wroteAt = this.edge.wheel.tick
    if (this.ready) this.outlet.write(bytes)
    else this.waiting.push(bytes)
  }

  private onReady(): void {
    while (this.outlet.ready && this.waiting.length > 0) this.outlet.write(this.waiting.shift()!)
    if (this.ready) this.reader.settle()
  }

  private leave(): void {
    this.exchange.onAbort = null
    this.reader.close()
    this.edge.wheel.remove(this)
    this.outlet.drop()
  }
}

/** The events with other ids. Each begins with its id line, and ends with the only empty line. */
function renumber(bytes: Uint8Array, seq: (id: number) => number): Uint8Array {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  const pieces: Uint8Array[] = []
  for (let at = 0; at < view.length; ) {
    const line = view.indexOf(0x0a, at)
    const found = view.indexOf('\n\n', line, 'latin1')
    const end = found < 0 ? view.length : found + 2
    pieces.push(Buffer.from(`id: ${seq(Number(view.toString('latin1', at + 4, line)))}`), view.subarray(line, end))
    at = end
  }
  return Buffer.concat(pieces)
}
