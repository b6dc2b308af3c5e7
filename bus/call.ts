/**
 * Calls to workers, through one multiplexer instead of the client's request (bus/mux.ts has the measurement). Calls of
 * one event-loop turn to one subject travel in one message, bodies beyond max_payload in parts (up to 256 MB). An answer
 * with an error status resolves like any other: the edge forwards it. Only "no answer" rejects, with `unavailable`;
 * whether the call was carried out is then unknown.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { AnswerHead, CallHead } from '../schemas/calls.js'
import { ERRORS, type ErrorCode, fail } from '../schemas/errors.js'
import type { Link } from './connect.js'
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
import { openIncoming, windowsOf } from './parts.js'

export interface Answer {
  head: AnswerHead
  body: Uint8Array
}

interface CallOptions {
  /** Milliseconds until the call rejects; 10,000 when absent. */
  timeout?: number
  /** Milliseconds to repeat the call while no worker serves the subject; 1,500 when absent. */
  patience?: number
}

export interface RetryOptions extends CallOptions {
  /** Milliseconds since the epoch after which no further try is made; no end when absent. */
  until?: number
  /** Milliseconds between two tries; 250 when absent. */
  pause?: number
  /** Ends the pause and allows no further try. A try in progress is not interrupted. */
  signal?: AbortSignal
  /** Answers that count as no answer. */
  retryIf?: (answer: Answer) => boolean
  /** Called before each pause: the error of the last try, or its refused answer. */
  onRetry?: (last: Error | Answer) => void
}

export interface Caller {
  call(subject: string, head: CallHead, body?: Uint8Array, options?: CallOptions): Promise<Answer>
  /** As call, but an answer with an error status is thrown as a WeftError. */
  ask(subject: string, head: CallHead, body?: Uint8Array, options?: CallOptions): Promise<Answer>
  /**
   * As call, but repeated until a worker answers: the call must be idempotent. When no further try is allowed, the
   * result of the last one counts: its answer is returned, its error is thrown.
   */
  callUntilAnswered(subject: string, head: CallHead, body?: Uint8Array, options?: RetryOptions): Promise<Answer>
  /** As callUntilAnswered, but `unavailable` counts as no answer, and any other error status is thrown. */
  askUntilAnswered(subject: string, head: CallHead, body?: Uint8Array, options?: RetryOptions): Promise<Answer>
  close(): void
}

interface Waiting {
  id: number
  subject: string
  entry: Entry
  body: Uint8Array
  windows: Iterator<Uint8Array[]> | null
  /** The number of the message that the call was sent in. */
  message: number
  due: number
  retryUntil: number
  resolve(answer: Answer): void
  reject(error: Error): void
}

const TIMEOUT_MS = 10_000
const PATIENCE_MS = 1_500
const SWEEP_MS = 100
const PAUSE_MS = 250
/** How long a call waits before it is sent again when no worker serves its subject. */
const NOBODY_MS = 50
/** Time after a reconnect in which a worker that was disconnected, too, can still send its answer. */
const LOST_MS = 2_000

export function openCaller(link: Link): Caller {
  const inbox = link.inbox()
  const waiting = new Map<number, Waiting>()
  const answers = openIncoming<AnswerHead>(Infinity)
  let turn = new Map<string, Waiting[]>()
  let lastId = 0
  let lastMessage = 0
  let closed = false

  const subscription = link.subscribe(`${inbox}.*`, message => {
    if (message.headers?.code === 503) return onNobody(Number(message.subject.slice(inbox.length + 1)))
    for (const entry of entriesOf(message.data)) {
      const call = waiting.get(entry.id)
      if (call === undefined) continue
      try {
        onEntry(call, entry)
      } catch (error) {
        reject(call, fail('internal', `The answer to ${call.subject} cannot be read: ${(error as Error).message}`))
      }
    }
  })

  function onEntry(call: Waiting, { kind, head, body, time }: Entry): void {
    const key = `${call.id}`
    if (kind === KIND.whole) resolve(call, { head: decodeHead(head), body })
    else if (kind === KIND.announce) answers.announce(key, time, decodeHead(head))
    else if (kind === KIND.part) {
      const whole = answers.add(key, body)
      if (whole !== null && whole !== 'go') resolve(call, { head: whole.info, body: whole.body })
    } else if (kind === KIND.go) sendWindow(call, decodeHead<{ inbox: string }>(head).inbox)
  }

  function forget({ id }: Waiting): void {
    waiting.delete(id)
    answers.discard(`${id}`)
  }

  function resolve(call: Waiting, answer: Answer): void {
    forget(call)
    call.resolve(answer)
  }

  function reject(call: Waiting, error: Error): void {
    forget(call)
    call.reject(error)
  }

  function sendWindow(call: Waiting, to: string): void {
    call.windows ??= windowsOf(call.id, call.body)
    for (const message of call.windows.next().value ?? []) link.nc.publish(to, message, { reply: `${inbox}.0` })
  }

  /** The broker reports at once that no worker serves a subject; a worker that restarts will serve it again soon. */
  function onNobody(message: number): void {
    const now = Date.now()
    for (const call of waiting.values()) {
      if (call.message !== message) continue
      if (now < call.retryUntil) setTimeout(() => waiting.has(call.id) && enqueue(call), NOBODY_MS).unref()
      else reject(call, fail('unavailable', nobodyServes(call.subject)))
    }
  }

  function enqueue(call: Waiting): void {
    if (turn.size === 0) setImmediate(flush)
    const group = turn.get(call.subject)
    if (group === undefined) turn.set(call.subject, [call])
    else group.push(call)
  }

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
      let from = 0
      for (const message of messagesOf(calls.map(call => call.entry))) {
        const number = ++lastMessage
        for (const size = { left: message.length }; size.left > 0 && from < calls.length; from++) {
          calls[from]!.message = number
          size.left -= sizeOf(calls[from]!.entry)
        }
        try {
          link.nc.publish(subject, message, { reply: `${inbox}.${number}` })
        } catch (error) {
          link.log.warn({ err: error, subject }, 'a call could not be sent')
        }
      }
    }
  }

  const sweep = setInterval(() => {
    const now = Date.now()
    if (!link.connected()) {
      for (const call of waiting.values())
        if (call.message === 0 && call.retryUntil <= now)
          reject(call, fail('unavailable', 'The broker cannot be reached'))
    }
    for (const call of waiting.values())
      if (call.due <= now) reject(call, fail('unavailable', `${call.subject} did not answer in time`))
  }, SWEEP_MS)
  sweep.unref()

  // The answers to calls that were sent before a disconnect may be lost.
  const stopListening = link.onReconnect(() => {
    const before = lastMessage
    const lost = setTimeout(() => {
      for (const call of waiting.values())
        if (call.message > 0 && call.message <= before)
          reject(call, fail('unavailable', 'The connection to the broker was lost before the answer'))
    }, LOST_MS)
    lost.unref()
    if (turn.size > 0) flush()
  })

  function call(
    subject: string,
    head: CallHead,
    body: Uint8Array = NOTHING,
    { timeout = TIMEOUT_MS, patience = PATIENCE_MS }: CallOptions = {},
  ): Promise<Answer> {
    if (closed) return Promise.reject(fail('unavailable', 'the connection was closed'))
    return new Promise((resolve, reject) => {
      const id = (lastId = (lastId + 1) % 0xffffffff)
      const now = Date.now()
      const bytes = encodeHead(head)
      const fits = bytes.length + body.length < MAX_MESSAGE - 64
      const entry: Entry = fits
        ? { kind: KIND.whole, id, time: timeout, head: bytes, body }
        : { kind: KIND.announce, id, time: body.length, head: encodeHead({ ...head, timeout }), body: NOTHING }
      const retryUntil = now + Math.min(patience, timeout)
      const due = now + timeout
      const one: Waiting = { id, subject, entry, body, windows: null, message: 0, due, retryUntil, resolve, reject }
      waiting.set(id, one)
      enqueue(one)
    })
  }

  async function callUntilAnswered(
    subject: string,
    head: CallHead,
    body: Uint8Array = NOTHING,
    { until = Infinity, pause = PAUSE_MS, signal, retryIf, onRetry, timeout = TIMEOUT_MS, patience }: RetryOptions = {},
  ): Promise<Answer> {
    for (;;) {
      const options = { timeout: Math.max(1, Math.min(timeout, until - Date.now())), patience }
      const last = await call(subject, head, body, options).catch((error: Error) => error)
      if (!(last instanceof Error) && !retryIf?.(last)) return last
      const tryAgain = () => !closed && !signal?.aborted
      if (tryAgain() && Date.now() + pause < until) {
        onRetry?.(last)
        await sleep(pause, undefined, { signal }).catch(() => {})
        if (tryAgain()) continue
      }
      if (last instanceof Error) throw last
      return last
    }
  }

  return {
    call,
    ask: async (subject, head, body, options) => succeed(await call(subject, head, body, options)),
    callUntilAnswered,
    askUntilAnswered: async (subject, head, body, options) =>
      succeed(await callUntilAnswered(subject, head, body, { retryIf: isUnavailable, ...options })),
    close() {
      closed = true
      clearInterval(sweep)
      stopListening()
      subscription.unsubscribe()
      for (const { reject } of waiting.values()) reject(fail('unavailable', 'the connection was closed'))
      waiting.clear()
    },
  }
}

const nobodyServes = (subject: string): string =>
  `No worker serves this request at the moment: start "weft ${subject.startsWith('host.') ? 'graphs' : 'resources'}"`

const isUnavailable = ({ head }: Answer) => head.code === 'unavailable'

/** The answer; throws a WeftError when its status is an error. */
function succeed(answer: Answer): Answer {
  const { status, code, detail } = answer.head
  if (status >= 400) throw fail(code !== undefined && code in ERRORS ? (code as ErrorCode) : 'internal', detail)
  return answer
}
