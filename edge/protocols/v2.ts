/**
 * Protocol v2 over HTTP (docs/spec/protocol-v2.md): a command and its answer; an event stream over all runs of a thread,
 * filtered by channel and namespace.
 */
import { v7 as uuid } from 'uuid'
import type { Batch } from '../../bus/follow.js'
import type { EventsAsked, EventsFilter } from '../../schemas/protocols/v2.js'
import type { FollowedRun, From } from '../../schemas/thread-stream.js'
import { createCall, forward } from '../calls.js'
import type { Edge } from '../context.js'
import type { Exchange } from '../http/exchange.js'
import type { Route } from '../routes.js'
import type { RunError } from '../streams/run-end.js'
import { ThreadAnswer } from '../streams/thread-answer.js'
import { openForwarder } from './v2-forwarder.js'

export async function sendCommand(edge: Edge, exchange: Exchange, { subject }: Route, body: Uint8Array): Promise<void> {
  const head = { ...exchange.callHead(), run: { run_id: uuid(), mode: 'events' as const } }
  const answer = await createCall(edge, subject, head, body)
  exchange.releaseBody()
  // A body that is no command is answered in the protocol's form.
  if (answer.head.status === 400 && answer.body.length > 0) exchange.reply(400, answer.body)
  else forward(exchange, answer)
}

export async function openEvents(edge: Edge, exchange: Exchange, { subject }: Route, body: Uint8Array): Promise<void> {
  const answer = await edge.caller.ask(subject, exchange.callHead(), body, { repeat: true })
  exchange.releaseBody()
  if (exchange.over) return
  const { filter, from } = JSON.parse(Buffer.from(answer.body).toString()) as EventsAsked
  // `since` in the body wins.
  const last = from === 'current' ? seqIn(exchange.received.lastEventId) : null
  await new EventStream(edge, exchange, filter).open(last ?? from)
}

/** The seq of the id of an event, `<ms>-<seq>`; null for any other text. */
function seqIn(event_id: string): number | null {
  const [, seq] = /^\d{1,15}-(\d{1,16})$/.exec(event_id) ?? []
  return seq === undefined || !Number.isSafeInteger(Number(seq)) ? null : Number(seq)
}

class EventStream extends ThreadAnswer {
  private readonly forwarder: ReturnType<typeof openForwarder>

  constructor(edge: Edge, exchange: Exchange, filter: EventsFilter) {
    super(edge, exchange)
    this.forwarder = openForwarder(filter, frames => this.write(Buffer.concat(frames)))
  }

  /** A thread that does not exist yet is one without runs. */
  open(from: From): Promise<void> {
    return this.begin(this.reader.open(from, { mayMiss: true }))
  }

  wants(run: FollowedRun) {
    return this.forwarder.wants(run)
  }

  events(batch: Batch, run: FollowedRun): void {
    this.forwarder.events(batch, run)
  }

  error(id: number, error: RunError, run: FollowedRun): void {
    this.forwarder.error(id, error, run)
  }

  ended(run: FollowedRun, status: string, last: number, read: boolean): void | Promise<void> {
    return this.forwarder.ended(run, status, last, read)
  }

  dropped(): void {}
}
