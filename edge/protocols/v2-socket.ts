/**
 * Protocol v2 over one WebSocket (API: threads-and-runs 17): commands and their answers, and any number of
 * subscriptions, which last over runs. A client that does not read holds up its own subscriptions and nothing else.
 */
import { v7 as uuid } from 'uuid'
import type { CallHead } from '../../schemas/calls.js'
import { type EventsAsked, errorText, type SocketOrder, successText } from '../../schemas/protocol-v2.js'
import { rpc } from '../../schemas/subjects.js'
import type { Edge } from '../context.js'
import type { Stalled } from '../http/outlet.js'
import { insist } from '../streams/runs.js'
import { ThreadReader, type ThreadSink } from '../streams/thread-reader.js'
import type { Line, Socket } from '../upgrade.js'
import { dataOf } from './v2-filter.js'
import { openTeller } from './v2-forwarder.js'
import { countReplay, type ReplayCount } from './v2-replay-count.js'

const MAX_SUBSCRIPTIONS = 100
/** So many are worked on at the same time; the others wait for their turn. */
const MAX_COMMANDS = 64
const MAX_WAITING = 10_000
/** Codes of RFC 6455: something failed here; come back, this server restarts; try again later. */
const [FAILED, RESTARTS, OVERLOADED] = [1011, 1012, 1013]

export class EventSocket implements Socket, Stalled {
  blockedAt = 0
  armedAt = 0
  private readonly subscriptions = new Map<string, { reader: ThreadReader; unblock(): void }>()
  private readonly counts = new Set<ReplayCount>()
  private readonly waiting: Uint8Array[] = []
  private commands = 0
  private blocked = false
  private over = false
  /** The assistant that this connection runs, once it has started a run. */
  private assistant: string | null = null

  constructor(
    private readonly edge: Edge,
    private readonly head: CallHead,
    private readonly line: Line,
  ) {
    edge.sockets.add(this)
  }

  /** One frame from the client. Who sends more than can be held is cut off: an answer without its id would help nobody. */
  onMessage(bytes: Uint8Array): void {
    const { bodies } = this.edge
    if (this.waiting.length >= MAX_WAITING || bodies.held + bytes.length > bodies.most)
      return this.end(OVERLOADED, 'too many commands at once')
    bodies.held += bytes.length
    this.waiting.push(bytes)
    this.work()
  }

  private work(): void {
    while (this.commands < MAX_COMMANDS && this.waiting.length > 0) void this.execute(this.waiting.shift()!)
  }

  private async execute(bytes: Uint8Array): Promise<void> {
    const { bodies } = this.edge
    this.commands++
    try {
      const bound = this.assistant === null ? {} : { assistant_id: this.assistant }
      const call = { ...this.head, ...bound, run: { run_id: uuid(), mode: 'events' as const } }
      const { head, body } = await insist(this.edge, rpc('threads', 'socket'), call, bytes)
      if (this.over) return
      if (head.status >= 400 && body.length === 0) throw new Error(head.detail)
      this.assistant ??= head.assistant_id ?? null
      if (head.order === true) await this.obey(JSON.parse(Buffer.from(body).toString()) as SocketOrder)
      else this.say(body)
    } catch (error) {
      this.edge.link.log.warn({ err: error, request_id: this.head.request_id }, 'a command could not be answered')
      this.end(FAILED, 'try again')
    } finally {
      this.commands--
      bodies.held -= bytes.length
      this.work()
    }
  }

  onDrain(): void {
    if (!this.blocked) return
    this.blocked = false
    this.edge.stalls.remove(this)
    for (const { unblock } of [...this.subscriptions.values()]) if (!this.blocked) unblock()
  }

  onClose(): void {
    this.over = true
    this.edge.sockets.delete(this)
    this.edge.stalls.remove(this)
    for (const { reader } of this.subscriptions.values()) reader.close()
    for (const count of this.counts) count.stop()
    this.subscriptions.clear()
    for (const bytes of this.waiting.splice(0)) this.edge.bodies.held -= bytes.length
  }

  /** The server stops: the client comes back to another. */
  restart(): void {
    this.end(RESTARTS, 'the server restarts')
  }

  cutOff(): void {
    this.end(FAILED, 'too slow')
  }

  rearm(now: number): void {
    this.armedAt = now
  }

  private async obey(order: SocketOrder): Promise<void> {
    if ('unsubscribe' in order) {
      const known = this.subscriptions.get(order.unsubscribe)
      known?.reader.close()
      this.subscriptions.delete(order.unsubscribe)
      if (known !== undefined) return this.say(successText(order.id, {}))
      return this.say(errorText(order.id, 'no_such_subscription', `There is no subscription ${order.unsubscribe}`))
    }
    if (this.subscriptions.size >= MAX_SUBSCRIPTIONS)
      return this.say(errorText(order.id, 'invalid_argument', `At most ${MAX_SUBSCRIPTIONS} subscriptions at once`))
    const subscription_id = uuid()
    const { reader, unblock } = this.subscription(order)
    this.subscriptions.set(subscription_id, { reader, unblock })
    let replayed_events: number
    try {
      // Opened before it is counted: what comes meanwhile is not lost, and is no replay.
      await reader.open(order.subscribe.from, true)
      replayed_events = await this.count(order.subscribe)
    } catch (error) {
      this.subscriptions.delete(subscription_id)
      return this.say(errorText(order.id, 'invalid_argument', (error as Error).message))
    }
    // The answer comes before the first event.
    this.say(successText(order.id, { subscription_id, replayed_events }))
    reader.start()
  }

  /** How many events a subscription will be told of that have been already. */
  private async count(asked: EventsAsked): Promise<number> {
    const count = countReplay(this.edge, this.head, asked)
    this.counts.add(count)
    try {
      return await count.done
    } finally {
      this.counts.delete(count)
    }
  }

  private subscription({ subscribe: { filter } }: Extract<SocketOrder, { subscribe: unknown }>) {
    const teller = openTeller(filter, frames => {
      for (const frame of frames) this.say(dataOf(frame))
    })
    const socket = this
    const sink: ThreadSink = {
      ...teller,
      get ready() {
        return !socket.blocked && !socket.over
      },
      closed(why) {
        if (why === 'gone') socket.end(FAILED, 'events are no longer kept')
        else reader.close()
      },
    }
    const reader: ThreadReader = new ThreadReader(this.edge, this.head, sink)
    return { reader, unblock: () => reader.settle() }
  }

  private say(text: string | Uint8Array): void {
    if (this.over || this.line.send(text) || this.blocked) return
    this.blocked = true
    this.edge.stalls.add(this)
  }

  private end(code: number, reason: string): void {
    if (!this.over) this.line.close(code, reason)
  }
}
