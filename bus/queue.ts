/**
 * The work queue: publishes and pulls wake-ups. A wake-up carries ids only; the row in the store is the truth, so a lost
 * wake-up costs time and nothing else. At least once; redelivered 15 s after the last in-progress message.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { headers, type Msg } from 'nats'
import type { WakeUp } from '../schemas/calls.js'
import type { Pool } from '../schemas/ids.js'
import { consumerOf, queue, queueInfo, RUNS_STREAM } from '../schemas/subjects.js'
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

/**
 * Reads the ack subject of a message. `delivered`: how often the broker has delivered it, this time included; `seq`: its
 * number in the stream; `waiting`: messages that were left in the queue. The subject is
 * `$JS.ACK.<stream>.<consumer>.<delivered>.<seq>.<consumer seq>.<time>.<waiting>`, or the later form, which has domain and
 * account before the stream.
 */
function readAck(ack: string): { delivered: number; seq: number; waiting: number } {
  const tokens = ack.split('.')
  const at = tokens.length > 9 ? 6 : 4
  return { delivered: Number(tokens[at]), seq: Number(tokens[at + 1]), waiting: Number(tokens[at + 4]) }
}

/** Jobs that one pull asks for at most: what a paused worker can keep from the others. */
const MAX_BATCH = 32
const MAX_PULLS = 2
/** A pull of a paused worker takes jobs until it expires, and one of a worker that stops may keep it so long. */
const EXPIRES_MS = 5_000
const BEAT_MS = 2_500
const CLOSE_LOOK_MS = 20
const NANOS = 1_000_000

interface Pull {
  left: number
  due: number
}

export interface Puller {
  /** To be called when slots became free: requests more jobs when few are requested. */
  fill(): void
  /** Jobs since the start, and those among them that had been delivered before. */
  counts(): { jobs: number; redelivered: number }
  /** Requests no more. Jobs that were on their way are given back. */
  quiet(): void
  /** After `quiet`: no job can come any more, so that the connection may be closed. */
  ended(): boolean
}

/**
 * Keeps requests for jobs open: at most `free(waiting)` jobs, where `waiting` were queued behind the last one, in one raw
 * pull of up to 32, and a second one when less than half of it is left. The server serves the open pulls of all workers in
 * turn, so that each worker must have as many of them as the others: with a pull for each slot that became free, a busy
 * worker got 31 of 40 jobs beside an idle one. Each pull also has a deadline here, because the server drops one beyond
 * max_waiting without an answer, and missing heartbeats of the server restart all pulls.
 */
export function pull(
  link: Link,
  mux: Mux,
  pool: Pool,
  free: (waiting: number) => number,
  onJob: (job: Job) => void,
): Puller {
  const { nc, log } = link
  const inbox = link.inbox()
  const pulls = new Map<string, Pull>()
  const next = `$JS.API.CONSUMER.MSG.NEXT.${RUNS_STREAM}.${consumerOf(pool)}`
  let token = 0
  let open = true
  let heardAt = performance.now()
  let planned = false
  let jobs = 0
  let redelivered = 0
  let waiting = 0
  let hasEnded = false

  const subscription = link.subscribe(`${inbox}.*`, message => {
    heardAt = performance.now()
    const code = message.headers?.code ?? 0
    if (code > 0 && message.data.length === 0) onStatus(message.subject.slice(inbox.length + 1), code, message)
    else onMessage(message)
  })

  function onStatus(key: string, code: number, message: Msg): void {
    if (code === 100) return
    const pending = message.headers?.get('Nats-Pending-Messages')
    forget(key, Number(pending ?? 0))
    if (code !== 408 && code !== 404)
      log.debug({ pool, code, description: message.headers?.description }, 'a pull ended')
    // 409 and 503: the consumer or the server is missing, so the next pull waits.
    if (code === 408 || code === 404) {
      waiting = 0
      plan()
    } else setTimeout(plan, 250).unref()
  }

  /** Jobs that the open pulls may still bring. */
  function asked(): number {
    let sum = 0
    for (const { left } of pulls.values()) sum += left
    return sum
  }

  /** The pull brings nothing more; `left` of its jobs did not come. Others were counted for it, or its own for another. */
  function forget(key: string, left: number): void {
    const surplus = left - (pulls.get(key)?.left ?? 0)
    pulls.delete(key)
    count(surplus)
  }

  /** Counts jobs for the oldest pull. */
  function count(jobs: number): void {
    for (const [key, one] of pulls) {
      one.left -= jobs
      if (one.left <= 0) pulls.delete(key)
      return
    }
  }

  /** A job carries the subject of the stream, not of the pull: it is counted for the oldest one. */
  function onMessage(message: Msg): void {
    count(1)
    const ack = message.reply
    if (ack === undefined) return
    jobs++
    const { delivered, seq, waiting: behind } = readAck(ack)
    if (delivered > 1) redelivered++
    waiting = behind
    // A closed connection sends no ack: the broker delivers the job again.
    const say = (what: string) => {
      if (!nc.isClosed()) nc.publish(ack, encoder.encode(what))
    }
    if (!open) return say('-NAK')
    const { run_id, thread_id, any = false } = JSON.parse(decoder.decode(message.data)) as WakeUp
    onJob({
      run_id,
      thread_id,
      any,
      seq,
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
    const slots = free(waiting)
    const left = asked()
    if (left > Math.min(slots, MAX_BATCH) / 2 || pulls.size >= MAX_PULLS) return
    const batch = Math.min(MAX_BATCH, slots - left)
    if (batch <= 0) return
    const key = (++token).toString(36)
    pulls.set(key, { left: batch, due: performance.now() + EXPIRES_MS + 2_000 })
    const request = { batch, expires: EXPIRES_MS * NANOS, idle_heartbeat: BEAT_MS * NANOS }
    nc.publish(next, encoder.encode(JSON.stringify(request)), { reply: `${inbox}.${key}` })
  }

  const watch = setInterval(() => {
    const now = performance.now()
    if (pulls.size > 0 && now - heardAt > 3 * BEAT_MS) pulls.clear()
    for (const [key, { due, left }] of pulls) if (due < now) forget(key, left)
    if (pulls.size === 0) heardAt = now
    fill()
  }, BEAT_MS)
  watch.unref()

  /**
   * After a flush, the server of this connection delivers nothing more. In a cluster another server may serve the pulls, and
   * it learns of the unsubscription later: a job that it delivers meanwhile would be lost until its redelivery after 15 s.
   * So a worker of a cluster stays subscribed until its pulls have expired.
   */
  async function close(): Promise<void> {
    while (nc.info?.cluster !== undefined && pulls.size > 0 && link.connected()) await sleep(CLOSE_LOOK_MS)
    await subscription.drain().catch(() => {})
    clearInterval(watch)
    off()
    hasEnded = true
  }
  const off = link.onReconnect(() => {
    pulls.clear()
    plan()
  })

  return {
    fill: plan,
    counts: () => ({ jobs, redelivered }),
    quiet() {
      open = false
      void close()
    },
    ended: () => hasEnded,
  }
}

/** The work queue of a pool as the broker reports it. */
interface PoolView {
  /** Wake-ups that are queued or in progress. Rejects when the broker does not answer, or has no such queue. */
  count(): Promise<number>
}

export function openPoolView(mux: Mux, pool: Pool, role: 'graphs' | 'deployer'): PoolView {
  const consumer = consumerOf(pool)
  const api = `$JS.API.CONSUMER.INFO.${RUNS_STREAM}.${consumer}`
  return {
    async count() {
      const ask = (subject: string) => mux.ask(subject, encoder.encode('{}'))
      const first = await ask(role === 'graphs' ? queueInfo(consumer) : api)
      // A broker without accounts has the name of JetStream alone.
      const { data } = first.headers?.code === 503 && role === 'graphs' ? await ask(api) : first
      const info = JSON.parse(decoder.decode(data)) as { num_pending?: number; num_ack_pending?: number }
      if (info.num_pending === undefined || info.num_ack_pending === undefined)
        throw new Error(`the broker has no work queue of the pool ${pool}`)
      return info.num_pending + info.num_ack_pending
    },
  }
}
