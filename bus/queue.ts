/**
 * The work queue: wake-ups in, pulls out. A wake-up carries ids only; the store row is the truth, so a lost one costs
 * time and nothing else. At least once; redelivered 15 s after the last in-progress.
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
 * Publishes a wake-up, three tries of 2 s with the same id. Resolves to false when the broker never said yes: then the
 * sweeper's turn comes, never the caller's error.
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
  /** The number of the message: the same when it is delivered again. */
  seq: number
  /** Still at work: the broker waits another 15 s. */
  working(): void
  /** Done, confirmed by the broker. False = it had given the job to somebody else. */
  done(): Promise<boolean>
  /** Give it back, to be delivered again after `delay_ms`. */
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
  /** Call when slots became free: asks for exactly what is missing. */
  fill(): void
  quiet(): void
}

/**
 * Keeps exactly `free()` jobs asked for, in at most 16 raw pulls: beyond max_waiting the server drops a pull without
 * any answer. Each pull also has a deadline on our side, and silence of the server's heartbeats restarts all of them.
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
    // 409 and 503 mean that the consumer or the server is not there: not again at once.
    if (code === 408 || code === 404) plan()
    else setTimeout(plan, 250).unref()
  }

  /** A job comes with the stream's subject: it is taken off the oldest pull, which the server serves first. */
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

/** What waits in a pool, as the broker knows it. */
export interface PoolView {
  /** Nothing waits and nothing is being worked on. Rejects when the broker does not answer. */
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
