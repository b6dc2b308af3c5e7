/**
 * GET /threads/{id}/stream: one answer for all runs of a thread, until the client leaves
 * (docs/spec/streams.md#thread-streams). Ids are those of the thread: claim · 2²⁴ + n; the events' own ids are replaced
 * in the bytes, nothing else is touched.
 */
import type { Batch } from '../../bus/follow.js'
import { fail } from '../../schemas/errors.js'
import { readList } from '../../schemas/query.js'
import { rpc } from '../../schemas/subjects.js'
import { endSeqOf, type FollowedRun, type From, seqOf, stateSeqOf } from '../../schemas/thread-stream.js'
import type { Edge } from '../context.js'
import type { Exchange } from '../http/exchange.js'
import { readCursor } from './cursor.js'
import { type EventFilter, onlyEvents } from './filter.js'
import type { RunError } from './run-end.js'
import { ThreadAnswer } from './thread-answer.js'

const MODES = ['run_modes', 'lifecycle', 'state_update']

export async function joinThread(edge: Edge, exchange: Exchange): Promise<void> {
  const query = new URLSearchParams(exchange.query)
  const modes = readList(query, 'stream_mode', 'stream_modes')
  const unknown = modes.find(mode => !MODES.includes(mode))
  if (unknown !== undefined) throw fail('invalid', `stream_mode: expected ${MODES.join(', ')}, got "${unknown}"`)
  const stream = new ThreadStream(edge, exchange, new Set(modes.length > 0 ? modes : ['run_modes']))
  await stream.open(readCursor(exchange.received.lastEventId, query) ?? 'now')
}

class ThreadStream extends ThreadAnswer {
  private readonly filter: EventFilter | null
  /** Last id that this client received on an earlier connection. */
  private seen = -1

  constructor(
    edge: Edge,
    exchange: Exchange,
    private readonly modes: ReadonlySet<string>,
  ) {
    super(edge, exchange)
    this.filter = modes.has('run_modes') ? null : onlyEvents(modes.has('lifecycle') ? ['metadata'] : [])
  }

  open(from: From): Promise<void> {
    if (typeof from === 'number') this.seen = from
    return this.begin(this.reader.open(from))
  }

  wants(): 'events' | 'end' {
    return this.modes.has('run_modes') || this.modes.has('lifecycle') ? 'events' : 'end'
  }

  events({ bytes, v2 }: Batch, run: FollowedRun): void {
    if (!v2) this.write(renumber(this.filter === null ? bytes : this.filter(bytes), id => seqOf(id, run)))
  }

  error(id: number, error: RunError, run: FollowedRun): void {
    if (this.modes.has('run_modes')) this.send('error', JSON.stringify(error), seqOf(id, run))
  }

  async ended(run: FollowedRun, status: string, last: number): Promise<void> {
    const { run_id } = run
    if (this.wants() === 'events') this.send('run_done', JSON.stringify({ run_id, status }), endSeqOf(last, run))
    if (!this.modes.has('state_update')) return
    const head = this.exchange.callHead()
    const { body } = await this.edge.caller.ask(rpc('threads', 'final_state'), head, undefined, { repeat: true })
    this.send('state_update', Buffer.from(body).toString(), stateSeqOf(last, run))
  }

  dropped(run_id: string, status: string): void {
    if (this.wants() === 'events') this.send('run_done', JSON.stringify({ run_id, status }))
  }

  private send(event: string, json: string, id?: number): void {
    if (id !== undefined && id <= this.seen) return
    this.write(Buffer.from(`${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${json}\n\n`))
  }
}

/** Replaces the ids. Each event begins with its id line, and ends with its only empty line. */
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
