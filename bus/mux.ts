/**
 * Raw requests with one subscription, one sweep timer and a counter as token: `nc.request()` makes a promise and a
 * timer for each request and costs twice the CPU (measured 0.65–0.75 of the rate).
 */
import type { Msg, MsgHdrs } from 'nats'
import { fail } from '../schemas/errors.js'
import { ANY_POOL, inboxFor, poolOfInbox, poolOfSubject } from '../schemas/subjects.js'
import { TransientMap } from '../schemas/transient.js'
import { asksPools, type Link } from './connect.js'
import { openSweep } from './sweep.js'

/** Called for each message; returns true when the request is over. */
type OnMessage = (message: Msg) => boolean

export interface Mux {
  /** The first answer. Rejects with `unavailable` after `timeout` ms. */
  ask(subject: string, payload: Uint8Array, options?: { timeout?: number; headers?: MsgHdrs }): Promise<Msg>
  /** Every answer until `onMessage` returns true. Rejects after `timeout` ms without an answer. */
  many(subject: string, payload: Uint8Array, onMessage: OnMessage, timeout?: number): Promise<void>
  close(): void
}

const SWEEP_MS = 250

export function openMux(link: Link): Mux {
  const inbox = link.inbox()
  const waiting = new TransientMap<
    string,
    {
      onMessage: OnMessage
      reject: (error: Error) => void
      due: number
      patience: number
      subject: string
      /** The pool whose graph workers may answer; '': others answer. */
      pool: string
    }
  >()
  let token = 0
  const subscriptions = [
    link.subscribe(`${inbox}.*`, message => onAnswer('', message)),
    ...(asksPools(link.role)
      ? [link.subscribe(`${inboxFor('*', inbox)}.*`, message => onAnswer(poolOfInbox(message.subject), message))]
      : []),
  ]

  function onAnswer(pool: string, message: Msg): void {
    const key = message.subject.slice(message.subject.lastIndexOf('.') + 1)
    const entry = waiting.get(key)
    if (entry === undefined || (entry.pool !== pool && entry.pool !== ANY_POOL)) return
    entry.due = performance.now() + entry.patience
    try {
      if (entry.onMessage(message)) waiting.delete(key)
    } catch (error) {
      waiting.delete(key)
      entry.reject(error as Error)
    }
  }
  const sweep = openSweep(SWEEP_MS, now => {
    for (const [key, entry] of waiting) {
      if (entry.due > now) continue
      waiting.delete(key)
      entry.reject(fail('unavailable', `no answer on ${entry.subject} within ${entry.patience} ms`))
    }
    return waiting.size > 0
  })

  function send(
    subject: string,
    payload: Uint8Array,
    onMessage: OnMessage,
    reject: (error: Error) => void,
    patience: number,
    headers?: MsgHdrs,
  ) {
    const key = (++token).toString(36)
    const pool = asksPools(link.role) ? poolOfSubject(subject) : ''
    waiting.set(key, { onMessage, reject, due: performance.now() + patience, patience, subject, pool })
    sweep.wake()
    try {
      const reply = `${pool === '' ? inbox : inboxFor(pool, inbox)}.${key}`
      link.nc.publish(subject, payload, { reply, ...(headers ? { headers } : {}) })
    } catch (error) {
      waiting.delete(key)
      reject(fail('unavailable', (error as Error).message))
    }
  }

  return {
    ask: (subject, payload, { timeout = 2_000, headers } = {}) =>
      new Promise((resolve, reject) => {
        const first = (message: Msg) => {
          resolve(message)
          return true
        }
        send(subject, payload, first, reject, timeout, headers)
      }),
    many: (subject, payload, onMessage, timeout = 2_000) =>
      new Promise((resolve, reject) => {
        const each = (message: Msg) => {
          const last = onMessage(message)
          if (last) resolve()
          return last
        }
        send(subject, payload, each, reject, timeout)
      }),
    close() {
      sweep.close()
      for (const each of subscriptions) each.unsubscribe()
      for (const { reject } of waiting.values()) reject(fail('unavailable', 'the connection was closed'))
      waiting.clear()
    },
  }
}

/** An answer that takes longer is missing. */
const ANSWER_MS = 1_000
/** Workers that were not known before have this time. */
const NEWCOMER_MS = 150
/** Answers are bounded, and those of a pool are its own: a worker that lies costs its own place only. */
const MAX_ANSWERS = 1_000
const MAX_OF_POOL = 100

/** An answer that could be read. `name` is unique among the workers. */
export interface Surveyed<T> {
  name: string
  pool: string | undefined
  value: T
}

/** A question to all workers. It ends when those that answered the last time have answered, at the latest after a second. */
export interface Survey<T> {
  ask(payload: Uint8Array): Promise<T[]>
}

/** `read`: null for an answer that cannot be read. */
export function openSurvey<T>(mux: Mux, subject: string, read: (message: Msg) => Surveyed<T> | null): Survey<T> {
  let known = new Set<string>()
  return {
    async ask(payload) {
      const answers = new Map<string, Surveyed<T>>()
      const asked = performance.now()
      const timer = { isOver: false }
      const collected = mux.many(
        subject,
        payload,
        message => {
          const answer = readable(read, message)
          if (answer !== null && mayAdd(answers, answer)) answers.set(answer.name, answer)
          return timer.isOver || isComplete(answers, known, asked)
        },
        ANSWER_MS,
      )
      await Promise.race([collected.catch(() => {}), pause(answers, () => known, asked)])
      timer.isOver = true
      known = new Set(answers.keys())
      return [...answers.values()].map(({ value }) => value)
    },
  }
}

/** An answer that cannot be parsed ends nothing but itself. */
function readable<T>(read: (message: Msg) => Surveyed<T> | null, message: Msg): Surveyed<T> | null {
  try {
    return read(message)
  } catch {
    return null
  }
}

type Answers = ReadonlyMap<string, Pick<Surveyed<unknown>, 'pool'>>

function mayAdd(answers: Answers, { name, pool }: Pick<Surveyed<unknown>, 'name' | 'pool'>): boolean {
  if (answers.has(name)) return true
  if (answers.size >= MAX_ANSWERS) return false
  return pool === undefined || [...answers.values()].filter(one => one.pool === pool).length < MAX_OF_POOL
}

const isComplete = (answers: Answers, known: ReadonlySet<string>, asked: number): boolean =>
  performance.now() - asked >= NEWCOMER_MS && [...known].every(name => answers.has(name))

/** Ends when all are complete, without a further answer. */
async function pause(answers: Answers, known: () => ReadonlySet<string>, asked: number): Promise<void> {
  while (performance.now() - asked < ANSWER_MS && !isComplete(answers, known(), asked))
    await new Promise(done => setTimeout(done, NEWCOMER_MS / 3))
}
