/**
 * The writing side of a run's events. Resumable runs publish to the stored stream, whose republish is the only way to
 * `live.<run>`; others publish there directly and fill a ring. At most 256 messages and 4 MB of a run are unconfirmed, and
 * 8 MB of all runs together (send-window.ts).
 * When a confirmation is missing, the publisher waits until the broker has processed everything sent before, then sends
 * again from that message on, in order (readers drop events that they have): a broker that stops costs one copy of the
 * unconfirmed messages, however long it stops.
 * After a reconnect the publisher first sends again the messages that were confirmed in the last seconds (recent.ts).
 */
import type { RunId } from '../schemas/ids.js'
import { blockOf, chunk, EVENTS_PER_BLOCK, live } from '../schemas/subjects.js'
import type { Link } from './connect.js'
import { offsetAfter } from './follow.js'
import type { Mux } from './mux.js'
import { openRecent, RECENT_MS } from './recent.js'
import { headersOf, type Kept, type Rings } from './ring.js'

/** Largest message of events; a larger event is sent in parts. */
const MAX_EVENT_MESSAGE = 256 * 1024
const MAX_UNCONFIRMED = 256
const MAX_UNCONFIRMED_BYTES = 4 * 1024 * 1024
/**
 * Waiting messages and bytes of a run beyond which it is held back. Of all runs: those that have more than their part of it
 * are held back, so that a run with little to send never waits for others.
 */
const MAX_WAITING = 2_048
const MAX_WAITING_BYTES = 4 * 1024 * 1024
const MAX_WAITING_BYTES_IN_ALL = 64 * 1024 * 1024
/** Share of these limits at which a run goes on: in a host that cannot pause a run all its runs wait, so for a short time. */
const RELIEVED = 7 / 8
const CONFIRM_MS = 2_000
const AGAIN_MS = 100

export interface Publisher {
  /** `count` whole SSE events with consecutive ids from `first`; `v2`: of protocol v2. */
  send(first: number, count: number, bytes: Uint8Array, v2?: boolean): void
  /** Messages that are not confirmed or not yet sent. */
  backlog(): number
  /** True when the run must wait: too many messages or bytes of it are waiting, or too many of all and its part of them. */
  isCongested(): boolean
  /** Resolves when everything is confirmed, at the latest after `ms`. */
  settled(ms: number): Promise<void>
  /** Resolves when an eighth of what makes it congested is confirmed, at the latest after `ms`. */
  relieved(ms: number): Promise<void>
  /** The last event was sent; confirmed messages stay in memory for a few seconds more. */
  end(): void
}

interface PublisherOptions {
  run: RunId
  attempt: number
  resumable: boolean
  /** Bytes of stored stream allowed to this run. */
  budget: number
  /** They are spent: this event and all after it are not stored, but kept as those of a run that is not resumable. */
  onSpent?(first: number): void
}

export function openPublisher(
  link: Link,
  mux: Mux,
  rings: Rings,
  { run, attempt, resumable, budget, onSpent }: PublisherOptions,
): Publisher {
  /** Sent or not, in order; the first is the oldest unconfirmed one. */
  let line: Kept[] = []
  let sent = 0
  let stored = 0
  let spent = false
  /** Beyond the budget, so not stored; they wait for the stored ones, or readers would find a gap. */
  let late: Kept[] = []
  let generation = 0
  /** Everything is sent again as soon as the broker has processed what was sent: nothing is sent until then. */
  let repeating = false
  const recent = openRecent()
  let sentBytes = 0
  let waitingBytes = 0
  const confirmTime = link.figures.histogram('weft_publish_seconds')
  const waiters = new Set<() => void>()
  const relievers = new Set<() => void>()
  const { window } = rings
  /** Changes the bytes that wait here, and those of all runs. */
  const account = (bytes: number) => {
    const before = waitingBytes
    waitingBytes += bytes
    rings.waiting.bytes += bytes
    rings.waiting.runs += Number(waitingBytes > 0) - Number(before > 0)
  }
  /** Changes the bytes that are on their way. */
  const count = (bytes: number) => {
    sentBytes += bytes
    window.add(bytes)
  }
  const answer: Rings['answer'] = (_, after, request) => recent.answer(after, request, line[sent - 1])
  if (resumable) rings.stored.set(run, answer)
  else rings.open(run)

  function direct(message: Kept): void {
    link.nc.publish(live(run), message.bytes, { headers: headersOf(message) })
    rings.push(run, message)
  }

  function store(message: Kept): void {
    // An event in parts is stored whole, or not at all.
    if (!spent && stored + message.bytes.length > budget && !message.part?.match(/^[1-9]/)) {
      spent = true
      onSpent?.(message.first)
    }
    if (spent && line.length === 0) return direct(message)
    account(message.bytes.length)
    if (spent) return void late.push(message)
    stored += message.bytes.length
    line.push(message)
    advance()
  }

  const mayAdvance = () => sent < line.length && sent < MAX_UNCONFIRMED && sentBytes < MAX_UNCONFIRMED_BYTES

  function advance(): void {
    while (!repeating && mayAdvance()) {
      if (sent > 0 && window.isFull()) return window.wait(advance)
      const message = line[sent++]!
      count(message.bytes.length)
      const mine = generation
      const subject = chunk(run, blockOf(message.first))
      const sent_at = performance.now()
      mux.ask(subject, message.bytes, { headers: headersOf(message), timeout: CONFIRM_MS }).then(
        answer =>
          answer.headers?.code === 503 || Buffer.from(answer.data).includes('"error"')
            ? again(mine)
            : confirmed(mine, message, sent_at),
        () => again(mine),
      )
    }
  }

  function confirmed(mine: number, message: Kept, sent_at: number): void {
    confirmTime.observe((performance.now() - sent_at) / 1_000)
    if (mine !== generation) return
    const at = line.indexOf(message)
    if (at < 0) return
    // Confirmations of one stream come in order: one of a later message covers the earlier ones.
    let bytes = 0
    for (const done of line.slice(0, at + 1)) {
      bytes += done.bytes.length
      account(-done.bytes.length)
      recent.push(done)
    }
    line = line.slice(at + 1)
    sent -= at + 1
    count(-bytes)
    for (const relieve of [...relievers]) relieve()
    recent.confirmed(line)
    if (line.length > 0) return advance()
    for (const message of late) {
      account(-message.bytes.length)
      direct(message)
    }
    late = []
    for (const done of waiters) done()
  }

  /** The connection was lost: messages that the broker may have lost are sent first. */
  const offReconnect = resumable
    ? link.onReconnect(() => {
        const { messages, bytes } = recent.take()
        line = [...messages, ...line]
        account(bytes)
        if (line.length === 0) return
        restart()
        repeating = false
        advance()
      })
    : () => {}

  function again(mine: number): void {
    if (mine !== generation) return
    repeating = true
    restart()
    const current = generation
    link.figures.count('weft_publish_repeats_total')
    link.log.warn({ run_id: run, waiting: line.length }, 'stored events were not confirmed; sending again')
    const next = () => {
      if (current !== generation) return
      repeating = false
      advance()
    }
    // The broker answers a flush after everything sent before it. Without a connection the reconnect sends again.
    const wait = () => void setTimeout(() => (link.connected() ? next() : wait()), AGAIN_MS).unref()
    link.nc.flush().then(wait, wait)
  }

  /** From now on confirmations of earlier copies do not count. */
  function restart(): void {
    recent.refuse()
    generation++
    sent = 0
    count(-sentBytes)
  }

  const isFull = (share: number) =>
    line.length + late.length >= MAX_WAITING * share ||
    waitingBytes >= MAX_WAITING_BYTES * share ||
    Math.min(rings.waiting.bytes, waitingBytes * rings.waiting.runs) >= MAX_WAITING_BYTES_IN_ALL * share

  return {
    send(first, count, bytes, v2 = false) {
      for (const message of messagesOf({ first, count, bytes, attempt, v2 }))
        resumable ? store(message) : direct(message)
    },
    backlog: () => line.length + late.length,
    isCongested: () => isFull(1),
    relieved: ms =>
      new Promise(resolve => {
        const end = () => {
          clearTimeout(timer)
          relievers.delete(look)
          resolve()
        }
        const look = () => (line.length === 0 || !isFull(RELIEVED)) && end()
        const timer = setTimeout(end, ms)
        relievers.add(look)
        look()
      }),
    settled: ms =>
      new Promise(resolve => {
        if (line.length === 0) return resolve()
        const done = () => {
          clearTimeout(timer)
          waiters.delete(done)
          resolve()
        }
        const timer = setTimeout(done, ms)
        waiters.add(done)
      }),
    end() {
      if (!resumable) return
      recent.refuse()
      // A later attempt may be anywhere.
      if (rings.stored.get(run) === answer) rings.stored.delete(run)
      setTimeout(() => {
        offReconnect()
        recent.take()
      }, RECENT_MS).unref()
    },
  }
}

/** Cuts a batch so that no message crosses a block or exceeds 256 KB; a larger event is sent in parts under its id. */
export function* messagesOf(batch: Omit<Kept, 'part'>): Generator<Kept> {
  const { first, count, bytes } = batch
  const room = EVENTS_PER_BLOCK - (first % EVENTS_PER_BLOCK)
  if (count > room) yield* cut(batch, room)
  else if (bytes.length <= MAX_EVENT_MESSAGE) yield { ...batch, part: null }
  else if (count > 1) yield* cut(batch, count >> 1)
  else {
    const n = Math.ceil(bytes.length / MAX_EVENT_MESSAGE)
    for (let i = 0; i < n; i++) {
      const part = bytes.subarray(i * MAX_EVENT_MESSAGE, (i + 1) * MAX_EVENT_MESSAGE)
      yield { ...batch, part: `${i}/${n}`, bytes: part }
    }
  }
}

function* cut(batch: Omit<Kept, 'part'>, n: number): Generator<Kept> {
  const { first, count, bytes } = batch
  const at = offsetAfter(bytes, n)
  yield* messagesOf({ ...batch, count: n, bytes: bytes.subarray(0, at) })
  yield* messagesOf({ ...batch, first: first + n, count: count - n, bytes: bytes.subarray(at) })
}
