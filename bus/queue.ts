/**
 * The work queue: publishes and pulls wake-ups. A wake-up carries ids only; the row in the store is the truth, so a lost
 * wake-up costs time and nothing else. At least once; redelivered 15 s after the last in-progress message.
 */
import { headers, type Msg } from 'nats'
import type { WakeUp } from '../schemas/calls.js'
import type { Pool } from '../schemas/ids.js'
import { consumerOf, queue, RUNS_STREAM } from '../schemas/subjects.js'
import type { Link } from './connect.js'
import type { Mux } from './mux.js'

const encoder = new TextEncoder()
const decoder = new TextDecoder()
const TRIES = 3

/**
 * Publishes a wake-up, three tries of 2 s with the same id. Resolves to false when the broker confirmed none: then the
 * sweeper repeats it, and the caller has no error.
 */
export async function wake(link: Link, mux: Mux, pool: Pool, wakeUp: WakeUp, id: string): Promise<boolean> {
  const body = encoder.encode(JSON.stringify(wakeUp))
  for (let n = 0; n < TRIES; n++) {
    try {
      const head = headers()
      head.set('Nats-Msg-Id', id)
      const answer = await mux.ask(queue(pool), body, { headers: head, timeout: 2_000 })
      if (answer.headers?.code === 503) throw new Error('the work queue is not there')
      const { error } = JSON.parse(decoder.decode(answer.data)) as { error?: { description: string } }
      if (error === undefined) return true
      link.log.warn({ run_id: wakeUp.run_id, error }, 'the work queue refused a wake-up')
      return false
    } catch (error) {
      link.log.debug({ run_id: wakeUp.run_id, err: error }, 'a wake-up was not confirmed')
    }
  }
  link.log.warn({ run_id: wakeUp.run_id }, 'a wake-up was not published')
  return false
}

export interface Job extends WakeUp {
  /** The sequence number of the message; a redelivery has the same. */
  seq: number
  /** In progress: the broker waits another 15 s before it redelivers. */
  working(): void
  /** Done. Resolves when the broker has confirmed it; false when it had redelivered the job to another worker. */
  done(): Promise<boolean>
  /** Gives the job back; the broker redelivers it after `delay_ms`. */
  back(delay_ms?: number): void
}

/** The stream's number of a message, out of its ack subject: `$JS.ACK.<stream>.<consumer>.<delivered>.<seq>…` or the later form. */
function sequenceOf(ack: string): number {
  const tokens = ack.split('.')
  return Number(tokens.length > 9 ? tokens[7] : tokens[5])
}

const MAX_PULLS = 16
const EXPIRES_MS = 30_000
const BEAT_MS = 2_500
const NANOS = 1_000_000

interface Pull {
  left: number
  due: number
}

export interface Puller {
  /** To be called when slots became free: requests exactly the missing number of jobs. */
  fill(): void
  quiet(): void
}

/**
 * Keeps requests for exactly `free()` jobs open, in at most 16 raw pulls: beyond max_waiting the server drops a pull
 * without an answer. Each pull also has a deadline here, and missing heartbeats of the server restart all pulls.
 */
export function pull(link: Link, mux: Mux, pool: Pool, free: () => number, onJob: (job: Job) => void): Puller {
  const { nc, log } = link
  const inbox = link.inbox()
  const pulls = new Map<string, Pull>()
  const next = `$JS.API.CONSUMER.MSG.NEXT.${RUNS_STREAM}.${consumerOf(pool)}`
  let token = 0
  let open = true
  let heardAt = Date.now()
  let planned = false

  const asked = () => {
    let sum = 0
    for (const { left } of pulls.values()) sum += left
    return sum
  }

  const subscription = link.subscribe(`${inbox}.*`, message => {
    heardAt = Date.now()
    const code = message.headers?.code ?? 0
    if (code > 0 && message.data.length === 0) onStatus(message.subject.slice(inbox.length + 1), code, message)
    else onMessage(message)
  })

  function onStatus(key: string, code: number, message: Msg): void {
    if (code === 100) return
    pulls.delete(key)
    if (code !== 408 && code !== 404)
      log.debug({ pool, code, description: message.headers?.description }, 'a pull ended')
    // 409 and 503: the consumer or the server is missing, so the next pull waits.
    if (code === 408 || code === 404) plan()
    else setTimeout(plan, 250).unref()
  }

  /** A job carries the subject of the stream, not of the pull: it counts for the oldest pull, which the server serves first. */
  function onMessage(message: Msg): void {
    for (const [key, one] of pulls) {
      if (one.left > 1) one.left--
      else pulls.delete(key)
      break
    }
    const ack = message.reply
    if (ack === undefined) return
    const { run_id, thread_id } = JSON.parse(decoder.decode(message.data)) as WakeUp
    const say = (what: string) => nc.publish(ack, encoder.encode(what))
    onJob({
      run_id,
      thread_id,
      seq: sequenceOf(ack),
      working: () => say('+WPI'),
      done: () =>
        mux.ask(ack, encoder.encode('+ACK')).then(
          answer => answer.headers?.code !== 503,
          () => false,
        ),
      back: (delay_ms = 0) => say(delay_ms > 0 ? `-NAK {"delay": ${delay_ms * NANOS}}` : '-NAK'),
    })
    plan()
  }

  function plan(): void {
    if (planned || !open) return
    planned = true
    setImmediate(fill)
  }

  function fill(): void {
    planned = false
    if (!open || !link.connected()) return
    const batch = free() - asked()
    if (batch <= 0 || pulls.size >= MAX_PULLS) return
    const key = (++token).toString(36)
    pulls.set(key, { left: batch, due: Date.now() + EXPIRES_MS + 2_000 })
    const request = { batch, expires: EXPIRES_MS * NANOS, idle_heartbeat: BEAT_MS * NANOS }
    nc.publish(next, encoder.encode(JSON.stringify(request)), { reply: `${inbox}.${key}` })
  }

  const watch = setInterval(() => {
    const now = Date.now()
    if (pulls.size > 0 && now - heardAt > 3 * BEAT_MS) pulls.clear()
    for (const [key, one] of pulls) if (one.due < now) pulls.delete(key)
    if (pulls.size === 0) heardAt = now
    fill()
  }, BEAT_MS)
  watch.unref()
  const off = link.onReconnect(() => {
    pulls.clear()
    plan()
  })

  return {
    fill: plan,
    quiet() {
      open = false
      off()
      clearInterval(watch)
      subscription.unsubscribe()
    },
  }
}

/** The work queue of a pool as the broker reports it. */
interface PoolView {
  /** True when no wake-up is queued or in progress. Rejects when the broker does not answer. */
  empty(): Promise<boolean>
}

export function openPoolView(mux: Mux, pool: Pool): PoolView {
  const subject = `$JS.API.CONSUMER.INFO.${RUNS_STREAM}.${consumerOf(pool)}`
  return {
    async empty() {
      const { data } = await mux.ask(subject, encoder.encode('{}'))
      const info = JSON.parse(decoder.decode(data)) as { num_pending?: number; num_ack_pending?: number }
      return info.num_pending === 0 && info.num_ack_pending === 0
    },
  }
}
