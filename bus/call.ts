/**
 * Calls to workers, through one multiplexer instead of the client's request (bus/mux.ts has the measurement). Calls of
 * one event-loop turn to one subject travel in one message, bodies beyond max_payload in parts (up to 256 MB). An answer
 * with an error status resolves like any other: the edge forwards it. Only "no answer" rejects, with `unavailable`;
 * whether the call was carried out is then unknown.
 *
 * A worker reports each second that a call is in progress. So a call without any sign of its worker for 5 s is not slow:
 * its worker is paused, dead or cut off. The caller then offers the call to all workers of the subject, and the first that
 * replies gets it. Calls that must not be carried out twice are rejected instead.
 */
import type { Msg } from 'nats'
import type { AnswerHead, CallHead } from '../schemas/calls.js'
import { fail, WeftError } from '../schemas/errors.js'
import { token } from '../schemas/ids.js'
import { all, inboxFor, one as memberOf, poolOfInbox, poolOfSubject } from '../schemas/subjects.js'
import { TransientMap } from '../schemas/transient.js'
import {
  type Answer,
  type CallOptions,
  callUntilAnswered,
  isUnavailable,
  type RetryOptions,
  succeed,
} from './answer.js'
import { asksPools, type Link } from './connect.js'
import {
  decodeHead,
  type Entry,
  encodeHead,
  entriesOf,
  KIND,
  MAX_MESSAGE,
  messagesOf,
  NOTHING,
  sizeOf,
} from './envelope.js'
import { type Incoming, MAX_BODY, openIncoming, windowsOf } from './parts.js'
import { openSeal } from './seal.js'
import { openSweep } from './sweep.js'

export interface Caller {
  call(subject: string, head: CallHead, body?: Uint8Array, options?: CallOptions): Promise<Answer>
  /** Like `call`, but throws an answer with an error status as a WeftError. */
  ask(subject: string, head: CallHead, body?: Uint8Array, options?: CallOptions): Promise<Answer>
  /**
   * Repeats `call` until a worker answers, so the call must be idempotent. When no further try is allowed, the
   * result of the last one counts: its answer is returned, its error is thrown.
   */
  callUntilAnswered(subject: string, head: CallHead, body?: Uint8Array, options?: RetryOptions): Promise<Answer>
  /** Like `callUntilAnswered`, but counts `unavailable` as no answer, and throws any other error status. */
  askUntilAnswered(subject: string, head: CallHead, body?: Uint8Array, options?: RetryOptions): Promise<Answer>
  close(): void
}

interface Waiting {
  id: number
  subject: string
  /** The pool whose graph workers may answer; '': resource workers answer. */
  pool: string
  entry: Entry
  body: Uint8Array
  windows: Iterator<Uint8Array[]> | null
  /** The inbox that receives the parts of the body; '' before a worker requests them. */
  partsTo: string
  /** The number of the message that the call was sent in. */
  message: number
  due: number
  retryUntil: number
  silence: number
  repeat: boolean
  /** The call was offered to all workers, and none has replied yet. */
  isOffered: boolean
  /** A worker may have received it. */
  mayBeKnown: boolean
  /** Last sign of its worker, or when the call was sent. */
  heardAt: number
  resolve(answer: Answer): void
  reject(error: Error): void
}

const TIMEOUT_MS = 10_000
/** Bytes of answers of one pool that are being received. */
const MAX_POOL_ANSWERS = 2 * MAX_BODY
const PATIENCE_MS = 1_500
const SILENCE_MS = 5_000
/** A worker that can take an offered call replies at once. */
const OFFER_MS = 1_000
const SWEEP_MS = 100
/** A sweep that is later than this means that this process was paused or its event loop blocked, not that a worker was silent. */
const PAUSED_MS = 500
/** How long a call waits before it is sent again when no worker serves its subject. */
const NOBODY_MS = 50
/** Time after a reconnect in which a worker that was disconnected, too, can still send its answer. */
const LOST_MS = 2_000

export function openCaller(link: Link): Caller {
  const inbox = link.inbox()
  const seal = openSeal(link.role)
  const waiting = new TransientMap<number, Waiting>()
  const answers = openIncoming<AnswerHead>(Infinity)
  const poolAnswers = new TransientMap<string, Incoming<AnswerHead>>()
  /** Each pool has its own: code of an application could announce any number of large answers. */
  function answersOf(pool: string): Incoming<AnswerHead> {
    if (pool === '') return answers
    const known = poolAnswers.get(pool) ?? openIncoming<AnswerHead>(MAX_POOL_ANSWERS)
    poolAnswers.set(pool, known)
    return known
  }
  let turn = new Map<string, Waiting[]>()
  let lastId = 0
  let lastMessage = 0
  let closed = false

  const subscriptions = [
    link.subscribe(`${inbox}.*`, message => onAnswers('', message)),
    ...(asksPools(link.role)
      ? [link.subscribe(`${inboxFor('*', inbox)}.*`, message => onAnswers(poolOfInbox(message.subject), message))]
      : []),
  ]

  /** `pool`: as the broker has checked it; an answer to a call that another one received is dropped. */
  function onAnswers(pool: string, message: Msg): void {
    if (message.headers?.code === 503) return onNobody(pool, numberOf(message.subject))
    for (const entry of entriesOf(seal === null ? message.data : seal.open(message.data))) {
      const call = waiting.get(entry.id)
      if (call === undefined || call.pool !== pool) continue
      try {
        onEntry(call, entry)
      } catch (error) {
        reject(call, fail('internal', `The answer to ${call.subject} cannot be read: ${(error as Error).message}`))
      }
    }
  }

  function onEntry(call: Waiting, { kind, head, body, time }: Entry): void {
    const key = `${call.id}`
    if (kind === KIND.ready) return onReady(call, decodeHead<{ member: string }>(head).member)
    call.heardAt = performance.now()
    if (kind === KIND.whole) resolve(call, { head: decodeHead(head), body })
    else if (kind === KIND.announce) answersOf(call.pool).announce(key, time, decodeHead(head))
    else if (kind === KIND.part) {
      const bodies = answersOf(call.pool)
      const head = bodies.infoOf(key)
      const whole = bodies.add(key, body)
      if (head !== null && whole !== null && whole !== 'go') resolve(call, { head, body: whole })
    } else if (kind === KIND.go) sendWindow(call, decodeHead<{ inbox: string }>(head).inbox)
  }

  const replyTo = (pool: string, number: number) => `${pool === '' ? inbox : inboxFor(pool, inbox)}.${number}`

  function forget({ id, pool }: Waiting): void {
    waiting.delete(id)
    const bodies = pool === '' ? answers : poolAnswers.get(pool)
    bodies?.discard(`${id}`)
    if (pool !== '' && bodies?.count() === 0) poolAnswers.delete(pool)
  }

  function resolve(call: Waiting, answer: Answer): void {
    forget(call)
    call.resolve(answer)
  }

  function reject(call: Waiting, error: Error): void {
    forget(call)
    call.reject(error)
  }

  /** The parts go to one worker only: a paused one that had the call before may ask for them late. */
  function sendWindow(call: Waiting, to: string): void {
    // An answer must name an inbox of the role that was called: this role may publish to other subjects, too.
    if (!to.startsWith(call.pool === '' ? '_INBOX_resources.' : `_INBOX_graphs.${call.pool}.`))
      throw new Error('it asks for parts at an inbox of others')
    if (call.partsTo === '') call.partsTo = to
    if (call.partsTo !== to) return
    call.windows ??= windowsOf(call.id, call.body, seal?.key)
    const reply = replyTo(call.pool, 0)
    for (const message of call.windows.next().value ?? []) link.nc.publish(to, message, { reply })
  }

  /** The broker reports at once that no worker serves a subject; a worker that restarts will serve it again soon. */
  function onNobody(pool: string, message: number): void {
    const now = performance.now()
    for (const call of waiting.values()) {
      if (call.message !== message || call.pool !== pool) continue
      if (now < call.retryUntil) setTimeout(() => waiting.has(call.id) && enqueue(call), NOBODY_MS).unref()
      else reject(call, call.mayBeKnown ? fail('unavailable', nobody(call.subject)) : new NobodyServes(call.subject))
    }
  }

  /** Sends the call at the end of this turn: to any worker, to all as an offer, or to one. */
  function enqueue(call: Waiting, subject = call.isOffered ? all(call.subject) : call.subject): void {
    call.heardAt = performance.now()
    call.windows = null
    call.partsTo = ''
    if (turn.size === 0) setImmediate(flush)
    const group = turn.get(subject)
    if (group === undefined) turn.set(subject, [call])
    else group.push(call)
  }

  const entryOf = (call: Waiting): Entry =>
    call.isOffered ? { kind: KIND.offer, id: call.id, time: 0, head: NOTHING, body: NOTHING } : call.entry

  /**
   * While the broker is away, calls wait here and are not published: the client would send a call after its caller got an
   * error for it.
   */
  function flush(): void {
    if (!link.connected()) return
    const groups = turn
    turn = new Map()
    for (const [subject, queued] of groups) {
      const calls = queued.filter(({ id }) => waiting.has(id))
      const entries = calls.map(entryOf)
      let from = 0
      for (const message of messagesOf(entries)) {
        const number = ++lastMessage
        for (const size = { left: message.length }; size.left > 0 && from < calls.length; from++) {
          calls[from]!.message = number
          size.left -= sizeOf(entries[from]!)
        }
        try {
          const sent = seal === null ? message : seal.attach(message)
          link.nc.publish(subject, sent, { reply: replyTo(poolOfSubject(subject), number) })
        } catch (error) {
          link.log.warn({ err: error, subject }, 'a call could not be sent')
        }
      }
    }
    link.push()
  }

  function onSilence(call: Waiting): void {
    if (call.isOffered) return reject(call, fail('unavailable', noneReady(call.subject)))
    call.mayBeKnown = true
    if (!call.repeat) return reject(call, fail('unavailable', silent(call)))
    link.log.warn({ subject: call.subject, ms: call.silence }, 'a worker is silent; its call is offered to all')
    call.isOffered = true
    enqueue(call)
  }

  function onReady(call: Waiting, member: string): void {
    if (!call.isOffered) return
    call.isOffered = false
    enqueue(call, memberOf(call.subject, token('member', member)))
  }

  /** When the connection was lost, as far as calls have noticed; null: it stands. */
  let awaySince: number | null = null

  const sweep = openSweep(SWEEP_MS, (now, since) => {
    const paused = since > PAUSED_MS ? since : 0
    const isConnected = link.connected()
    awaySince = isConnected ? null : (awaySince ?? now)
    for (const call of waiting.values()) {
      if (call.due <= now) reject(call, fail('unavailable', `${call.subject} did not answer in time`))
      else if (awaySince !== null) {
        call.heardAt = now
        if (call.message === 0 && call.retryUntil <= now) reject(call, new NotSent('The broker cannot be reached'))
        else if (call.message !== 0 && now - awaySince >= call.silence) reject(call, fail('unavailable', LOST))
      } else {
        call.heardAt += paused
        if (now - call.heardAt >= (call.isOffered ? OFFER_MS : call.silence)) onSilence(call)
      }
    }
    return waiting.size > 0
  })

  // The answers to calls that were sent before a disconnect may be lost.
  const stopListening = link.onReconnect(() => {
    awaySince = null
    const before = lastMessage
    const lost = setTimeout(() => {
      for (const call of waiting.values()) {
        if (call.message === 0 || call.message > before) continue
        call.mayBeKnown = true
        if (call.repeat) enqueue(call)
        else reject(call, fail('unavailable', LOST))
      }
    }, LOST_MS)
    lost.unref()
    if (turn.size > 0) flush()
  })

  function call(
    subject: string,
    head: CallHead,
    body: Uint8Array = NOTHING,
    {
      timeout = TIMEOUT_MS,
      patience = PATIENCE_MS,
      silence = SILENCE_MS,
      repeat = false,
      offered: isOffered = false,
    }: CallOptions = {},
  ): Promise<Answer> {
    if (closed) return Promise.reject(fail('unavailable', 'the connection was closed'))
    return new Promise((resolve, reject) => {
      const id = (lastId = (lastId + 1) % 0xffffffff)
      const now = performance.now()
      const bytes = encodeHead(head)
      const fits = bytes.length + body.length < MAX_MESSAGE - 64
      const entry: Entry = fits
        ? { kind: KIND.whole, id, time: timeout, head: bytes, body }
        : { kind: KIND.announce, id, time: body.length, head: encodeHead({ ...head, timeout }), body: NOTHING }
      const one: Waiting = {
        id,
        subject,
        pool: poolOfSubject(subject),
        entry,
        body,
        windows: null,
        partsTo: '',
        message: 0,
        due: now + timeout,
        retryUntil: now + Math.min(patience, timeout),
        silence,
        repeat,
        isOffered,
        mayBeKnown: false,
        heardAt: now,
        resolve,
        reject,
      }
      waiting.set(id, one)
      sweep.wake()
      enqueue(one)
    })
  }

  const untilAnswered = callUntilAnswered(call, () => closed)

  return {
    call,
    ask: async (subject, head, body, options) => succeed(await call(subject, head, body, options)),
    callUntilAnswered: untilAnswered,
    askUntilAnswered: async (subject, head, body, options) =>
      succeed(await untilAnswered(subject, head, body, { retryIf: isUnavailable, ...options })),
    close() {
      closed = true
      sweep.close()
      stopListening()
      for (const each of subscriptions) each.unsubscribe()
      for (const { reject } of waiting.values()) reject(fail('unavailable', 'the connection was closed'))
      waiting.clear()
    },
  }
}

const numberOf = (subject: string): number => Number(subject.slice(subject.lastIndexOf('.') + 1))

const roleOf = (subject: string) => (subject.startsWith('host.') ? 'graphs' : 'resources')

/** `unavailable`: no worker has received the call. */
export class NotSent extends WeftError {
  constructor(detail: string) {
    super('unavailable', detail)
  }
}

/** No worker subscribes to the subject of the call. */
export class NobodyServes extends NotSent {
  constructor(subject: string) {
    super(nobody(subject))
  }
}

const LOST = 'The connection to the broker was lost before the answer'

const nobody = (subject: string): string =>
  `No worker serves this request at the moment: start "weft ${roleOf(subject)}"`

const noneReady = (subject: string): string => `No "weft ${roleOf(subject)}" worker can take this request at the moment`

const silent = ({ subject, silence }: Waiting): string =>
  `The "weft ${roleOf(subject)}" worker of this request has been silent for ${silence / 1_000} s; ` +
  'whether it was carried out is not known'
