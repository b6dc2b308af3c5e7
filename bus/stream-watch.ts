/**
 * Whether wake-ups and events can be stored, and the repair when they cannot. A broker whose disk was lost comes back
 * without the streams. One whose disk was full keeps refusing writes to a stream after there is space again (measured on
 * 2.15.1: publishes are not answered, only a restart of the server or a new stream ends it). Both are repaired here:
 *
 * - A stream that the server does not know is created.
 * - RUNS, when it stores nothing in two checks in a row, is created anew. With copies it gets a minute: it has no leader for
 *   5 to 10 s after its server died. Its wake-ups carry ids only; the sweeper repeats them.
 * - EVENTS likewise, but only while RUNS stores, so never for want of space: its stored events are lost, and a reader
 *   that needs them is refused, as with expired ones.
 *
 * A check counts against a stream only when the server answers a question about the stream that it received behind the
 * message which it did not confirm. A broker that is paused, cut off or slow answers neither: that says nothing about the
 * stream, and ends the row. So do a reconnect, and a stream that refuses the message.
 */
import { headers, type Msg } from 'nats'
import type { Config } from '../schemas/config.js'
import { PROBE_CHUNK, PROBE_QUEUE } from '../schemas/subjects.js'
import type { Link } from './connect.js'
import type { Mux } from './mux.js'
import { createStream, ensureSpans, type StreamName } from './streams.js'

const PERIOD_MS = 10_000
const FAILING_PERIOD_MS = 1_000
const ANSWER_MS = 2_000
/** Checks in a row that count before a stream is created anew, and the least time of them for one with copies. */
const FAILURES = 2
const LEADERLESS_MS = 60_000
const NOTHING = new Uint8Array(0)
const SILENT = 'The broker does not answer at the moment'
const json = (value: unknown) => Buffer.from(JSON.stringify(value))

export interface StreamWatch {
  /** Why wake-ups or events cannot be stored at the moment; null when they can. */
  problem(): string | null
  /** When they stored again after a failure (ms since 1970): wake-ups published before may be lost. 0: they never failed. */
  storesSince(): number
  /** To be called when a publish failed. Checks at once, or joins the check in progress. Never rejects. */
  check(): Promise<void>
  stop(): void
}

export interface StreamWatchOptions {
  link: Link
  mux: Mux
  config: Config
  /** Streams were created: consumers and wake-ups are missing. */
  onCreated: () => void
}

/** Checks now, every 10 s, and every second after a failure. */
export function watchStreams({ link, mux, config, onCreated }: StreamWatchOptions): StreamWatch {
  const failures: { [name in StreamName]: number } = { RUNS: 0, EVENTS: 0 }
  /** Since when it fails (ms of performance.now()). */
  const failingSince: { [name in StreamName]: number } = { RUNS: 0, EVENTS: 0 }
  const patience_ms = config.nats_replicas > 1 ? LEADERLESS_MS : 0
  let problem: string | null = null
  let storesSince = 0
  let checking: Promise<void> | null = null
  let timer: NodeJS.Timeout | undefined
  let stopped = false

  /**
   * Stores a message and removes it, with those whose confirmation or removal was lost before (an election, a cut
   * connection). Null: it was stored.
   */
  async function probe(name: StreamName): Promise<Failed | null> {
    const subject = name === 'RUNS' ? PROBE_QUEUE : PROBE_CHUNK
    const [answer, known] = await Promise.all([
      mux.ask(subject, NOTHING, { headers: headers(), timeout: ANSWER_MS }).catch((error: Error) => error),
      look(name),
    ])
    const isConfirmed = !(answer instanceof Error) && answer.headers?.code !== 503
    if (!isConfirmed && known !== 'there') return { cause: known, why: `the stream is ${known}` }
    if (!isConfirmed) return { cause: 'stuck', why: answer instanceof Error ? answer.message : 'it has no leader' }
    const why = refusalOf(answer)
    if (why !== null) return { cause: 'refuses', why }
    await mux.ask(`$JS.API.STREAM.PURGE.${name}`, json({ filter: subject }), { timeout: ANSWER_MS })
    return null
  }

  /** The answer of the server about a stream. `silent`: it does not answer. During an election the stream is `there`. */
  async function look(name: StreamName): Promise<'there' | 'missing' | 'silent'> {
    try {
      const answer = await mux.ask(`$JS.API.STREAM.INFO.${name}`, NOTHING, { timeout: ANSWER_MS })
      if (answer.headers?.code === 503) return 'silent'
      return answer.json<{ error?: { code: number } }>().error?.code === 404 ? 'missing' : 'there'
    } catch {
      return 'silent'
    }
  }

  async function checkStream(name: StreamName, mayRecreate: boolean): Promise<boolean> {
    const failed = await probe(name)
    if (failed === null) {
      failures[name] = 0
      return true
    }
    const { cause, why } = failed
    if (cause !== 'stuck') failures[name] = 0
    else if (failures[name]++ === 0) failingSince[name] = performance.now()
    link.log.error({ stream: name, cause, why, failures: failures[name] }, 'a stream of the broker stores nothing')
    problem =
      cause === 'silent'
        ? SILENT
        : `The broker does not store ${name === 'RUNS' ? 'wake-ups' : 'events'} at the moment (stream ${name})`
    const isOver = failures[name] >= FAILURES && performance.now() - failingSince[name] >= patience_ms
    if (!link.connected() || !(cause === 'missing' || (mayRecreate && isOver))) return false
    await createStream(link, config, name)
    // A disk that lost one has lost them all.
    await ensureSpans(link, config).catch(err => link.log.warn({ err }, 'the stream of spans could not be created'))
    link.log.warn({ stream: name }, 'a stream of the broker was created anew')
    onCreated()
    const again = await probe(name)
    if (again !== null) throw new Error(again.why)
    failures[name] = 0
    return true
  }

  async function checkAll(): Promise<void> {
    if (!link.connected()) {
      problem = 'The broker cannot be reached'
      return
    }
    const runs = await checkStream('RUNS', true)
    // A server that is silent about one stream is silent about the other.
    if (!runs && problem === SILENT) {
      failures.EVENTS = 0
      return
    }
    const events = await checkStream('EVENTS', runs)
    if (!runs || !events) return
    if (problem === null) return
    link.log.info({}, 'the streams of the broker store again')
    storesSince = Date.now()
    problem = null
  }

  function check(): Promise<void> {
    clearTimeout(timer)
    checking ??= checkAll()
      .catch(error => {
        problem ??= 'The broker does not store messages at the moment'
        link.log.error({ err: error }, 'the streams of the broker could not be repaired')
      })
      .finally(() => {
        checking = null
        if (!stopped) timer = setTimeout(check, problem === null ? PERIOD_MS : FAILING_PERIOD_MS).unref()
      })
    return checking
  }

  const off = link.onReconnect(() => {
    for (const name of Object.keys(failures) as StreamName[]) failures[name] = 0
    void check()
  })
  void check()
  return {
    problem: () => (link.connected() ? problem : 'The broker cannot be reached'),
    storesSince: () => storesSince,
    check,
    stop() {
      stopped = true
      off()
      clearTimeout(timer)
    },
  }
}

/** Why a message was not stored. */
interface Failed {
  /**
   * `missing`: the server does not know the stream. `silent`: the server does not answer at all. `refuses`: it has a reason
   * for not storing. `stuck`: it answers, and does not store.
   */
  cause: 'missing' | 'silent' | 'refuses' | 'stuck'
  why: string
}

/** A stream that is full does what it should: workers empty it. */
const FULL = /^maximum (messages|bytes)/

/** Null: the message was stored. */
function refusalOf(answer: Msg): string | null {
  const { error } = answer.json<{ error?: { description: string } }>()
  return error === undefined || FULL.test(error.description) ? null : error.description
}
