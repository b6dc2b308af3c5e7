/**
 * The receiving door of a worker: decodes, validates, awaits the handler, answers, logs. Handlers take a value and
 * return a value, or throw; they never answer by themselves. A known error keeps its code, an unknown one is logged
 * whole and leaves as `internal`.
 */
import type { IValidation } from 'typia'
import type { AnswerHead, CallHead } from '../schemas/calls.js'
import { fail, InvalidFields, WeftError } from '../schemas/errors.js'
import type { Link } from './connect.js'
import { decodeAs, decodeFields } from './decode.js'
import {
  collector,
  decodeHead,
  type Entry,
  encodeHead,
  entriesOf,
  KIND,
  MAX_BODY,
  MAX_MESSAGE,
  messagesOf,
  NOTHING,
  partsOf,
  WINDOW,
} from './envelope.js'
import type { Log } from './log.js'

export interface Context {
  head: CallHead
  /** The inbox that is answered. Its prefix tells the caller's role: nobody else can hear it. */
  from: string
  /** Milliseconds since the epoch after which nobody waits for the answer. */
  deadline: number
  log: Log
}

export interface Reply {
  /** The answer's body: text or bytes as they go to the client. */
  body?: string | Uint8Array
  head?: Partial<AnswerHead>
}

/** One verb: `json` gives the checked value of the body, without it the handler gets the bytes. */
export interface Handler<T = never> {
  json?: (value: unknown) => IValidation<T>
  handle: (value: T, context: Context) => Promise<Reply> | Reply
}

/** Handles a checked JSON body. */
export const jsonHandler = <T>(
  json: (value: unknown) => IValidation<T>,
  handle: (value: T, context: Context) => Promise<Reply> | Reply,
): Handler => ({ json, handle }) as unknown as Handler
/** Handles the bytes of the body unchanged. */
export const bytesHandler = (handle: (bytes: Uint8Array, context: Context) => Promise<Reply> | Reply): Handler =>
  ({ handle }) as unknown as Handler

/** Handles a checked JSON body; the answer to an invalid one lists its fields (API: control-plane 2.2). */
export const fieldsHandler = <T>(
  json: (value: unknown) => IValidation<T>,
  handle: (value: T, context: Context) => Promise<Reply> | Reply,
): Handler => bytesHandler((bytes, context) => handle(decodeFields(bytes, json), context))

export interface Served {
  /** Takes nothing new; resolves when what was taken is answered. */
  quiet(): Promise<void>
}

interface Incoming {
  verb: string
  from: string
  id: number
  body: ReturnType<typeof collector>
  head: CallHead & { timeout?: number }
  due: number
}

const MAX_DETAIL = 1_000

/** Bodies being put together in this process, in bytes; beyond it calls are refused with 429. */
const MAX_IN_FLIGHT = 1024 * 1024 * 1024

/** Serves `<prefix>.<verb>` for the verbs of the table, in one queue group. */
export function serve(link: Link, prefix: string, group: string, handlers: { [verb: string]: Handler }): Served {
  const { nc, log } = link
  const parts = link.inbox()
  const incoming = new Map<string, Incoming>()
  const answers = new Map<string, Entry[]>()
  let inFlight = 0
  let held = 0
  let idle: (() => void) | null = null

  const onCall = nc.subscribe(`${prefix}.*`, {
    queue: group,
    callback: (error, message) => {
      if (error || message.reply === undefined) return
      const from = message.reply.slice(0, message.reply.lastIndexOf('.'))
      const verb = message.subject.slice(prefix.length + 1)
      for (const entry of entriesOf(message.data)) {
        if (entry.kind === KIND.announce) announce(verb, from, entry)
        else void run(verb, from, entry.id, decodeHead(entry.head), entry.body, Date.now() + entry.time)
      }
    },
  })
  const onPart = nc.subscribe(parts, {
    callback: (error, message) => {
      if (error || message.reply === undefined) return
      const from = message.reply.slice(0, message.reply.lastIndexOf('.'))
      for (const entry of entriesOf(message.data)) addPart(from, entry)
    },
  })

  function announce(verb: string, from: string, { id, time: size, head }: Entry): void {
    if (size > MAX_BODY || held + size > MAX_IN_FLIGHT) {
      refuse(from, id, fail(size > MAX_BODY ? 'too_large' : 'too_many'))
      return
    }
    const given = decodeHead<Incoming['head']>(head)
    held += size
    incoming.set(`${from} ${id}`, {
      verb,
      from,
      id,
      body: collector(size),
      head: given,
      due: Date.now() + (given.timeout ?? 10_000),
    })
    go(from, id)
  }

  function addPart(from: string, { id, body }: Entry): void {
    const key = `${from} ${id}`
    const call = incoming.get(key)
    if (call === undefined) return
    if (call.body.add(body)) {
      incoming.delete(key)
      held -= call.body.bytes.length
      void run(call.verb, from, id, call.head, call.body.bytes, call.due)
    } else if (call.body.parts % WINDOW === 0) go(from, id)
  }

  const sweep = setInterval(() => {
    for (const [key, call] of incoming) {
      if (call.due > Date.now()) continue
      incoming.delete(key)
      held -= call.body.bytes.length
    }
  }, 1_000)
  sweep.unref()

  async function run(
    verb: string,
    from: string,
    id: number,
    head: CallHead,
    bytes: Uint8Array,
    deadline: number,
  ): Promise<void> {
    inFlight++
    const started = performance.now()
    let status = 200
    try {
      const found = handlers[verb]
      if (found === undefined) throw fail('not_found', `No such call: ${prefix}.${verb}`)
      const value = found.json === undefined ? bytes : decodeAs(bytes, found.json)
      const reply = await (found.handle as (value: unknown, context: Context) => Promise<Reply>)(value, {
        head,
        from,
        deadline,
        log,
      })
      status = reply.head?.status ?? 200
      answer(from, id, { status, ...reply.head }, reply.body)
    } catch (error) {
      status = refuse(from, id, error as Error, head)
    } finally {
      if (--inFlight === 0) idle?.()
      if (log.isLevelEnabled('debug'))
        log.debug(
          {
            call: `${prefix}.${verb}`,
            status,
            ms: Math.round((performance.now() - started) * 10) / 10,
            request_id: head.request_id,
          },
          'call',
        )
    }
  }

  function refuse(from: string, id: number, error: Error, head?: CallHead): number {
    const known = error instanceof WeftError ? error : fail('internal')
    // A sentence that quotes what it was given must fit into one message.
    const detail = known.message.length > MAX_DETAIL ? `${known.message.slice(0, MAX_DETAIL)}…` : known.message
    if (!(error instanceof WeftError)) log.error({ err: error, request_id: head?.request_id }, 'a handler failed')
    const body = error instanceof InvalidFields ? error.body : undefined
    answer(from, id, { status: known.status, code: known.code, detail }, body)
    return known.status
  }

  const go = (to: string, id: number) =>
    enqueue(to, { kind: KIND.go, id, time: 0, head: encodeHead({ inbox: parts }), body: NOTHING })

  function answer(to: string, id: number, head: AnswerHead, body: string | Uint8Array = NOTHING): void {
    const bytes = typeof body === 'string' ? Buffer.from(body) : body
    const encoded = encodeHead(head)
    if (encoded.length + bytes.length < MAX_MESSAGE - 64)
      return enqueue(to, { kind: KIND.whole, id, time: 0, head: encoded, body: bytes })
    void answerInParts(to, id, encoded, bytes).catch(error =>
      log.warn({ err: error }, 'an answer in parts was not sent'),
    )
  }

  async function answerInParts(to: string, id: number, head: Uint8Array, body: Uint8Array): Promise<void> {
    const send = (entry: Entry) => {
      for (const message of messagesOf([entry])) nc.publish(`${to}.0`, message)
    }
    send({ kind: KIND.announce, id, time: body.length, head, body: NOTHING })
    let n = 0
    for (const part of partsOf(id, body)) {
      send(part)
      if (++n % WINDOW === 0) await nc.flush()
    }
  }

  function enqueue(to: string, entry: Entry): void {
    if (answers.size === 0) setImmediate(flush)
    const group = answers.get(to)
    if (group === undefined) answers.set(to, [entry])
    else group.push(entry)
  }

  function flush(): void {
    const groups = [...answers]
    answers.clear()
    for (const [to, entries] of groups) for (const message of messagesOf(entries)) nc.publish(`${to}.0`, message)
  }

  return {
    async quiet() {
      await onCall.drain()
      if (inFlight > 0) await new Promise<void>(done => (idle = done))
      flush()
      onPart.unsubscribe()
      clearInterval(sweep)
      await nc.flush().catch(() => {})
    },
  }
}
