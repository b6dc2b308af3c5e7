/**
 * The receiving side of calls: decodes, validates, awaits the handler, answers, logs. Handlers take a value and return a
 * value, or throw; they never answer themselves. A known error keeps its code, an unknown one is logged with its stack
 * and answered as `internal`. A call that cannot be read is refused, or dropped when it names no answerable id: it costs
 * its sender, never this process. A call that takes longer than a second is reported as in progress each second.
 */
import type { Msg } from 'nats'
import type { IValidation } from 'typia'
import type { AnswerHead, CallHead } from '../schemas/calls.js'
import { fail, InvalidFields, StoreOutage, WeftError } from '../schemas/errors.js'
import { type Member, token } from '../schemas/ids.js'
import { all, inboxFor, inboxPrefix, one, poolOfInbox, type Sender, senderOf } from '../schemas/subjects.js'
import { TransientMap, TransientSet } from '../schemas/transient.js'
import type { Link } from './connect.js'
import { decodeAs, decodeFields } from './decode.js'
import { decodeHead, type Entry, encodeHead, entriesOf, KIND, MAX_MESSAGE, messagesOf, NOTHING } from './envelope.js'
import { type Lane, openLane } from './lane.js'
import type { Log } from './log.js'
import type { Span, Tracer } from './otlp/traces.js'
import { MAX_BODY, openIncoming, windowsOf } from './parts.js'
import { isKey, seal } from './seal.js'
import { openSweep } from './sweep.js'

export interface Context {
  head: CallHead
  /** The inbox of the caller. The broker lets only the caller's role subscribe to its prefix. */
  from: string
  /** The graph worker that calls; null or absent for other callers. */
  sender?: Sender | null
  log: Log
}

export interface Reply {
  /** The body of the answer: text or bytes as they are sent to the client. */
  body?: string | Uint8Array
  head?: Partial<AnswerHead>
}

type Handle<T> = (value: T, context: Context) => Promise<Reply> | Reply

/** One verb: with `json` the handler gets the validated value of the body, without it the bytes. */
export interface Handler<T = never> {
  json?: (value: unknown) => IValidation<T>
  handle: Handle<T>
}

/** Handles a validated JSON body. */
export const jsonHandler = <T>(json: (value: unknown) => IValidation<T>, handle: Handle<T>): Handler =>
  ({ json, handle }) as unknown as Handler

/** Handles the bytes of the body unchanged. */
export const bytesHandler = (handle: Handle<Uint8Array>): Handler => ({ handle }) as unknown as Handler

/** Handles a validated JSON body; the answer to an invalid one lists its fields (docs/spec/control-plane.md#error-bodies). */
export const fieldsHandler = <T>(json: (value: unknown) => IValidation<T>, handle: Handle<T>): Handler =>
  bytesHandler((bytes, context) => handle(decodeFields(bytes, json), context))

export interface ServeOptions {
  /** False: the calls that are offered to all workers are left to the others at the moment. */
  isReady?: (verb: string) => boolean
  /** The queue of bodies in parts; each noun has a separate one when absent. */
  lane?: Lane
  /** Lanes of graph workers. Each pool has its own, so that bodies which never come hold up no other pool. */
  poolLanes?: PoolLanes
  /** Makes a span of each call whose caller is traced. */
  tracer?: Tracer | null
}

/** Large bodies that are received and handled at once: a few states, whose commit holds up others for a moment only. */
const LANE_BYTES = 32 * 1024 * 1024
/** Bytes of bodies that are announced to one process; beyond it calls are refused with 429. */
const MAX_IN_FLIGHT = 1024 * 1024 * 1024
const MAX_POOL_LANES = 1_000

/** The lanes of the pools that call one process. */
export interface PoolLanes {
  of(pool: string): Lane
}

export function openPoolLanes(): PoolLanes {
  const lanes = new Map<string, Lane>()
  return {
    of(pool) {
      const known = lanes.get(pool)
      if (known !== undefined) return known
      // A pool comes and goes with its revision. One that is forgotten with bodies in its lane gets a second lane.
      if (lanes.size >= MAX_POOL_LANES) lanes.delete(lanes.keys().next().value!)
      const lane = newLane()
      lanes.set(pool, lane)
      return lane
    },
  }
}

/** A lane for the large bodies of one process, or of one pool. */
export const newLane = (): Lane => openLane(LANE_BYTES, MAX_IN_FLIGHT)

interface Served {
  /** Calls to `one(<prefix>.<verb>, member)` come here. */
  member: Member
  /** Takes no new call; resolves when the accepted ones are answered. */
  quiet(): Promise<void>
}

/** Where answers go. */
interface ReplyTo {
  inbox: string
  /** The key that seals them; null: they are sent as they are. */
  key: Uint8Array | null
}

/** One call: what the handler and the answer need to know of it. */
interface Call {
  verb: string
  sender: Sender | null
  from: ReplyTo
  id: number
  head: CallHead
  deadline: number
}

/** A call whose handler is at work, or whose body waits for its turn. */
interface Running {
  call: Call
  /** Time of the last sign to the caller, or of the start. */
  signed_at: number
}

const MAX_DETAIL = 1_000
const TIMEOUT_MS = 10_000
/** A caller waits no longer: a body that never comes holds its place in the lane until then. */
const MAX_TIMEOUT_MS = 120_000
const SWEEP_MS = 1_000
/** A call is reported as in progress this often. Callers give up after 2 s without a sign at the earliest. */
const SIGN_MS = 1_000
const SIGN_SWEEP_MS = 250

/**
 * Serves `<prefix>.<verb>` for the verbs of the table, in one queue group; calls that are offered to all workers of the
 * group, and those that are sent to this one.
 */
export function serve(
  link: Link,
  prefix: string,
  group: string,
  handlers: { [verb: string]: Handler },
  { isReady = () => true, lane = newLane(), poolLanes = openPoolLanes(), tracer = null }: ServeOptions = {},
): Served {
  const { nc, log, figures } = link
  const inbox = link.inbox()
  const member = token('member', inbox.slice(inbox.lastIndexOf('.') + 1))
  const bodies = openIncoming<Call>(Infinity)
  const answers = openAnswers(link)
  const running = new TransientSet<Running>()
  /** Calls whose bodies wait for their turn, or are being received. */
  const announced = new TransientSet<Running>()
  /** How calls with large bodies leave the lane. */
  const tickets = new TransientMap<Call, () => void>()
  let onIdle: (() => void) | null = null

  function onCalls(message: Msg): void {
    const sender = senderOf(message.subject)
    if (message.reply === undefined || !isOwn(sender?.pool, message.reply)) return
    const { from, entries } = readCalls(message.reply, message.data)
    const verb = verbOf(message.subject)
    for (const entry of entries) {
      const call = { verb, sender, from, id: entry.id }
      refuseOnError(call, () => receive(call, entry))
    }
  }
  const every = `${prefix}.*`
  /** In logs, figures and spans. */
  const name = prefix.replaceAll('.*', '')
  const verbAt = prefix.split('.').length
  /** The verb of `<prefix>.<verb>`, or of `<prefix>.<verb>.<who>`. */
  const verbOf = (subject: string): string => subject.split('.', verbAt + 1)[verbAt]!
  /** The calls are those of graph workers. */
  const ofPools = prefix.startsWith('pool.')
  const subscriptions = [
    link.subscribe(every, onCalls, { queue: group }),
    link.subscribe(one(every, member), onCalls),
    link.subscribe(all(every), message => {
      if (message.reply === undefined || !isReady(verbOf(message.subject))) return
      if (!isOwn(senderOf(message.subject)?.pool, message.reply)) return
      const { from, entries } = readCalls(message.reply, message.data)
      for (const { kind, id } of entries) if (kind === KIND.offer) sign(from, id, KIND.ready, { member })
    }),
  ]
  const onParts = (pool: string | undefined, { reply, data }: Msg) => {
    if (reply === undefined || !isOwn(pool, reply)) return
    for (const entry of entriesOf(data)) receivePart(inboxOf(reply), entry)
  }
  const parts = [
    link.subscribe(inbox, message => onParts(undefined, message)),
    ...(ofPools
      ? [link.subscribe(inboxFor('*', inbox), message => onParts(poolOfInbox(message.subject), message))]
      : []),
  ]
  const sweep = openSweep(SWEEP_MS, now => {
    bodies.discardIf(({ deadline }) => deadline <= now)
    for (const one of announced) if (one.call.deadline <= now) drop(one.call)
    return announced.size > 0 || bodies.count() > 0
  })
  const signs = openSweep(SIGN_SWEEP_MS, now => {
    for (const calls of [running, announced])
      for (const work of calls) {
        const { from, id, deadline } = work.call
        if (work.signed_at > now - SIGN_MS || deadline <= now) continue
        work.signed_at = now
        sign(from, id, KIND.busy)
      }
    return running.size > 0 || announced.size > 0
  })

  const laneOf = (sender: Sender | null): Lane => (sender === null ? lane : poolLanes.of(sender.pool))

  const sign = (to: ReplyTo, id: number, kind: number, head?: object) =>
    answers.enqueue(to, { kind, id, time: 0, head: head === undefined ? NOTHING : encodeHead(head), body: NOTHING })

  function receive(known: Omit<Call, 'head' | 'deadline'>, { kind, time, head: bytes, body }: Entry): void {
    const { from, id } = known
    const head = readHead(bytes)
    if (kind === KIND.whole) return void run({ ...known, head, deadline: performance.now() + time }, body)
    if (kind !== KIND.announce) throw fail('bad_request', 'A call is whole or announced')
    const { timeout = TIMEOUT_MS } = head as { timeout?: unknown }
    if (typeof timeout !== 'number') throw fail('bad_request', 'The timeout of a call is a number')
    const call = { ...known, head, deadline: performance.now() + Math.min(timeout, MAX_TIMEOUT_MS) }
    if (time > MAX_BODY) throw fail('too_large')
    const name = `${nameOf(from)} ${id}`
    const before = bodies.infoOf(name)
    if (before !== null) drop(before)
    const waiting: Running = { call, signed_at: performance.now() }
    announced.add(waiting)
    sweep.wake()
    signs.wake()
    try {
      tickets.set(
        call,
        laneOf(known.sender).enter(
          // Small ones take memory, too.
          Math.max(time, MAX_MESSAGE),
          () => {
            bodies.announce(name, time, call)
            requestWindow(call)
          },
          error => {
            drop(call)
            refuse(call, error, head)
          },
        ),
      )
    } catch (error) {
      announced.delete(waiting)
      throw error
    }
  }

  /** The body of the call is complete, or does not come. */
  function endOfBody(call: Call): void {
    for (const one of announced) if (one.call === call) announced.delete(one)
  }

  /** The call leaves the lane. */
  function drop(call: Call): void {
    endOfBody(call)
    tickets.get(call)?.()
    tickets.delete(call)
  }

  function receivePart(inbox: string, { id, head, body: bytes }: Entry): void {
    const name = `${nameOf({ inbox, key: head.length > 0 ? head : null })} ${id}`
    const call = bodies.infoOf(name)
    // Its call has ended, or its sender is another one.
    if (call === null) return
    refuseOnError(call, () => {
      try {
        const body = bodies.add(name, bytes)
        if (body === 'go') requestWindow(call)
        else if (body !== null) {
          endOfBody(call)
          void run(call, body).finally(() => drop(call))
        }
      } catch (error) {
        drop(call)
        throw error
      }
    })
  }

  const requestWindow = ({ from, id, sender }: Call) =>
    sign(from, id, KIND.go, { inbox: sender === null ? inbox : inboxFor(sender.pool, inbox) })

  function refuseOnError({ verb, from, id }: Pick<Call, 'verb' | 'from' | 'id'>, receive: () => void): void {
    try {
      receive()
    } catch (error) {
      refuse({ verb, from, id }, error as Error)
    }
  }

  async function run(call: Call, bytes: Uint8Array): Promise<void> {
    const mine: Running = { call, signed_at: performance.now() }
    running.add(mine)
    signs.wake()
    const started = performance.now()
    let status = 200
    const span = spanOf(call)
    try {
      const handler = Object.hasOwn(handlers, call.verb) ? handlers[call.verb] : undefined
      if (handler === undefined) throw fail('not_found', `No such call: ${name}.${call.verb}`)
      const value = handler.json === undefined ? bytes : decodeAs(bytes, handler.json)
      const head = span === null ? call.head : { ...call.head, traceparent: span.traceparent }
      const { from, sender } = call
      const reply = await (handler.handle as Handle<unknown>)(value, { head, from: from.inbox, sender, log })
      status = reply.head?.status ?? 200
      answers.send(call, { status, ...reply.head }, reply.body)
    } catch (error) {
      status = refuse(call, error as Error, call.head)
      // Each body of the lane would be received to fail in the same way, after the same wait.
      if (error instanceof StoreOutage && tickets.has(call)) laneOf(call.sender).refuse(error)
    } finally {
      span?.end(status >= 500 ? `status ${status}` : null)
      running.delete(mine)
      if (running.size === 0) onIdle?.()
      if (log.isLevelEnabled('debug')) {
        const ms = Math.round((performance.now() - started) * 10) / 10
        log.debug({ call: `${name}.${call.verb}`, status, ms, request_id: call.head.request_id }, 'call')
      }
    }
  }

  /** A call is traced when its caller is. */
  function spanOf({ verb, head: { traceparent: parent, request_id } }: Call): Span | null {
    if (tracer === null || parent === undefined) return null
    return tracer.start(`${name}.${verb}`, { parent, attributes: { 'weft.request_id': request_id } })
  }

  /** Not the verb that a caller invented. */
  const nameOfCall = (verb: string) => `${name}.${Object.hasOwn(handlers, verb) ? verb : '*'}`

  function refuse(to: Pick<Call, 'verb' | 'from' | 'id'>, error: Error, head?: CallHead): number {
    const known = error instanceof WeftError ? error : fail('internal')
    // A sentence that quotes its input must fit into one message.
    const detail = known.message.length > MAX_DETAIL ? `${known.message.slice(0, MAX_DETAIL)}…` : known.message
    if (!(error instanceof WeftError)) log.error({ err: error, request_id: head?.request_id }, 'a handler failed')
    figures.count('weft_calls_refused_total', { call: nameOfCall(to.verb), code: known.code })
    const body = error instanceof InvalidFields ? error.body : undefined
    answers.send(to, { status: known.status, code: known.code, detail }, body)
    return known.status
  }

  return {
    member,
    async quiet() {
      await Promise.all(subscriptions.map(each => each.drain()))
      if (running.size > 0) await new Promise<void>(done => (onIdle = done))
      answers.flush()
      for (const each of parts) each.unsubscribe()
      sweep.close()
      signs.close()
      await nc.flush().catch(() => {})
    },
  }
}

/**
 * Whether a graph worker names an inbox of its own pool for the answer: else a resource worker would write for it where it
 * may not. Other callers are roles that may write there themselves.
 */
const isOwn = (pool: string | undefined, reply: string): boolean =>
  pool === undefined || reply.startsWith(`${inboxPrefix('graphs', pool)}.`)

/** The inbox that a message of calls was sent from, without the number of the message. */
const inboxOf = (reply: string): string => reply.slice(0, reply.lastIndexOf('.'))

/** Another caller may name the same inbox, but does not have the key. */
const nameOf = ({ inbox, key }: ReplyTo): string =>
  key === null ? inbox : `${inbox} ${Buffer.from(key.buffer, key.byteOffset, key.length).toString('latin1')}`

/** The calls of a message, and where their answers go. */
function readCalls(reply: string, message: Uint8Array): { from: ReplyTo; entries: Entry[] } {
  const entries = entriesOf(message)
  const key = entries[0]?.kind === KIND.key ? entries.shift()!.body : null
  if (key !== null && !isKey(key)) throw new RangeError('the key for the answers has another size')
  return { from: { inbox: inboxOf(reply), key }, entries }
}

function readHead(bytes: Uint8Array): CallHead {
  try {
    return decodeHead(bytes)
  } catch {
    throw fail('bad_request', 'The head of the call is not a JSON object')
  }
}

/** Sends answers: those of one event-loop turn to one caller in one message, large ones in parts. */
function openAnswers({ nc, log, push }: Link) {
  let turn = new Map<string, { to: ReplyTo; entries: Entry[] }>()

  /** Nobody awaits an answer of a closed connection: its caller repeats the call, or is answered 503. */
  function publish({ inbox, key }: ReplyTo, message: Uint8Array): void {
    try {
      nc.publish(`${inbox}.0`, key === null ? message : seal(key, message))
    } catch (error) {
      log.warn({ err: error }, 'an answer could not be sent')
    }
  }

  function enqueue(to: ReplyTo, entry: Entry): void {
    if (turn.size === 0) setImmediate(flush)
    const name = nameOf(to)
    const group = turn.get(name)
    if (group === undefined) turn.set(name, { to, entries: [entry] })
    else group.entries.push(entry)
  }

  function flush(): void {
    const groups = turn
    turn = new Map()
    for (const { to, entries } of groups.values()) for (const message of messagesOf(entries)) publish(to, message)
    push()
  }

  async function sendInParts(to: ReplyTo, id: number, head: Uint8Array, body: Uint8Array): Promise<void> {
    for (const message of messagesOf([{ kind: KIND.announce, id, time: body.length, head, body: NOTHING }]))
      publish(to, message)
    for (const window of windowsOf(id, body)) {
      for (const message of window) publish(to, message)
      await nc.flush()
    }
  }

  return {
    enqueue,
    flush,
    send({ from, id }: Pick<Call, 'from' | 'id'>, head: AnswerHead, body: string | Uint8Array = NOTHING): void {
      const bytes = typeof body === 'string' ? Buffer.from(body) : body
      const encoded = encodeHead(head)
      if (encoded.length + bytes.length < MAX_MESSAGE - 64)
        return enqueue(from, { kind: KIND.whole, id, time: 0, head: encoded, body: bytes })
      void sendInParts(from, id, encoded, bytes).catch(error =>
        log.warn({ err: error }, 'an answer in parts was not sent'),
      )
    },
  }
}
