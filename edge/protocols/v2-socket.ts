/**
 * Protocol v2 over one WebSocket (docs/spec/protocol-v2.md): commands and their answers, and any number of
 * subscriptions, which last over runs. A client that does not read delays its own subscriptions and nothing else.
 */
import { v7 as uuid } from 'uuid'
import { decodeJson } from '../../bus/decode.js'
import type { CallHead } from '../../schemas/calls.js'
import { fail, WeftError } from '../../schemas/errors.js'
import { parseJson } from '../../schemas/exact.js'
import { type EdgeAction, type EventsAsked, errorText, successText } from '../../schemas/protocols/v2.js'
import { rpc } from '../../schemas/subjects.js'
import type { Refused } from '../app/check.js'
import { createCall } from '../calls.js'
import type { Edge } from '../context.js'
import { REVOKED, type SocketPass } from '../guard.js'
import { EDGE_VALUES } from '../http/body.js'
import type { StallEntry } from '../http/outlet.js'
import type { Peer, Socket } from '../http/socket.js'
import { ThreadReader, type ThreadSink } from '../streams/thread-reader.js'
import { dataOf } from './v2-filter.js'
import { openForwarder } from './v2-forwarder.js'
import { countReplay, type ReplayCount } from './v2-replay-count.js'

const MAX_SUBSCRIPTIONS = 100
/** Commands carried out at the same time; the others wait. */
const MAX_COMMANDS = 64
const MAX_WAITING = 10_000
/** Close codes of RFC 6455: internal error, service restart, try again later. */
const [FAILED, RESTARTS, OVERLOADED] = [1011, 1012, 1013]
/** A close code of the range for applications. */
const REVOKED_CODE = 4401

/** The id of a command, for the answer that refuses it. */
function idOf(bytes: Uint8Array): number | null {
  try {
    const { id } = decodeJson(bytes, { most: EDGE_VALUES }) as { id?: unknown }
    return Number.isSafeInteger(id) ? (id as number) : null
  } catch {
    return null
  }
}

export class EventSocket implements Socket, StallEntry {
  blockedAt = 0
  armedAt = 0
  private readonly subscriptions = new Map<string, { reader: ThreadReader; unblock(): void }>()
  private readonly counts = new Set<ReplayCount>()
  private readonly waiting: Uint8Array[] = []
  private commands = 0
  private blocked = false
  private over = false
  private release = () => {}
  /** The assistant of the runs of this connection, once it has started one. */
  private assistant: string | null = null

  constructor(
    private readonly edge: Edge,
    private readonly head: CallHead,
    private readonly pass: SocketPass,
    private readonly peer: Peer,
  ) {
    edge.sockets.add(this)
    const release = pass.hold(() => this.end(REVOKED_CODE, REVOKED.message))
    if (release === null) this.end(OVERLOADED, 'too many open streams of this key')
    else this.release = release
  }

  /** One frame from the client. A client that sends more than fits is disconnected: it could not match an answer without an id. */
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
      const passed = await this.pass.command(bytes)
      if ('refused' in passed) return this.refuse(bytes, passed)
      const own = { ...this.head, ...passed.head }
      const call = { ...own, ...bound, run: { run_id: uuid(), mode: 'events' as const } }
      const { head, body } = await createCall(this.edge, rpc('threads', 'socket_command'), call, passed.body)
      if (this.over) return
      if (head.code === 'unavailable') throw fail('unavailable', head.detail)
      if (head.status >= 400 && body.length === 0) throw new Error(head.detail)
      this.assistant ??= head.assistant_id ?? null
      if (head.action === true) await this.perform(parseJson(Buffer.from(body).toString()) as EdgeAction, own)
      else this.send(body)
    } catch (error) {
      this.edge.link.log.warn({ err: error, request_id: this.head.request_id }, 'a command could not be answered')
      const id = idOf(bytes)
      // The connection can be used again when the cluster is ready.
      if (id !== null && error instanceof WeftError && error.code === 'unavailable')
        this.send(errorText(id, 'unknown_error', error.message))
      else this.end(FAILED, 'try again')
    } finally {
      this.commands--
      bodies.held -= bytes.length
      this.work()
    }
  }

  /** The answer to a command that the caller may not send. */
  private refuse(bytes: Uint8Array, { refused: { status, detail } }: Refused): void {
    this.send(errorText(idOf(bytes), status === 401 || status === 403 ? 'permission_denied' : 'unknown_error', detail))
  }

  onDrain(): void {
    if (!this.blocked) return
    this.blocked = false
    this.edge.stalls.remove(this)
    for (const { unblock } of [...this.subscriptions.values()]) if (!this.blocked) unblock()
  }

  onClose(): void {
    this.over = true
    this.release()
    this.edge.sockets.delete(this)
    this.edge.stalls.remove(this)
    for (const { reader } of this.subscriptions.values()) reader.close()
    for (const count of this.counts) count.stop()
    this.subscriptions.clear()
    for (const bytes of this.waiting.splice(0)) this.edge.bodies.held -= bytes.length
  }

  /** The server stops: the client reconnects to another one. */
  restart(): void {
    this.end(RESTARTS, 'the server restarts')
  }

  cutOff(): void {
    this.end(FAILED, 'too slow')
  }

  rearm(now: number): void {
    this.armedAt = now
  }

  /** `head`: what the caller of this command may see. */
  private async perform(action: EdgeAction, head: CallHead): Promise<void> {
    if ('unsubscribe' in action) {
      const found = this.subscriptions.get(action.unsubscribe)
      found?.reader.close()
      this.subscriptions.delete(action.unsubscribe)
      if (found !== undefined) return this.send(successText(action.id, {}))
      return this.send(errorText(action.id, 'no_such_subscription', `There is no subscription ${action.unsubscribe}`))
    }
    if (this.subscriptions.size >= MAX_SUBSCRIPTIONS)
      return this.send(errorText(action.id, 'invalid_argument', `At most ${MAX_SUBSCRIPTIONS} subscriptions at once`))
    const subscription_id = uuid()
    const { reader, unblock } = this.subscription(action, head)
    this.subscriptions.set(subscription_id, { reader, unblock })
    let replayed_events: number
    try {
      // Opened before it is counted: events of this time are not lost, and do not count as replayed.
      await reader.open(action.subscribe.from, { mayMiss: true })
      replayed_events = await this.count(action.subscribe, head)
    } catch (error) {
      this.subscriptions.delete(subscription_id)
      return this.send(errorText(action.id, 'invalid_argument', (error as Error).message))
    }
    // The answer comes before the first event.
    this.send(successText(action.id, { subscription_id, replayed_events }))
    reader.start()
  }

  /** How many stored events a subscription begins with. */
  private async count(asked: EventsAsked, head: CallHead): Promise<number> {
    const replay = countReplay(this.edge, head, asked)
    this.counts.add(replay)
    try {
      return await replay.count
    } finally {
      this.counts.delete(replay)
    }
  }

  private subscription({ subscribe: { filter } }: Extract<EdgeAction, { subscribe: unknown }>, head: CallHead) {
    const forwarder = openForwarder(filter, frames => {
      for (const frame of frames) this.send(dataOf(frame))
    })
    const socket = this
    const sink: ThreadSink = {
      ...forwarder,
      get ready() {
        return !socket.blocked && !socket.over
      },
      closed(why) {
        if (why === 'lost') socket.end(FAILED, 'events are no longer kept')
        else reader.close()
      },
    }
    const reader: ThreadReader = new ThreadReader(this.edge, head, sink)
    return { reader, unblock: () => reader.advance() }
  }

  private send(text: string | Uint8Array): void {
    if (this.over || this.peer.send(text) || this.blocked) return
    this.blocked = true
    this.edge.stalls.add(this)
  }

  private end(code: number, reason: string): void {
    if (!this.over) this.peer.close(code, reason)
  }
}
