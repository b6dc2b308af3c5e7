/**
 * Whether wake-ups and events can be stored, and the repair when they cannot. A broker whose disk was lost comes back
 * without the streams. One whose disk was full keeps refusing writes to a stream after there is space again (measured on
 * 2.15.1: publishes are not answered, only a restart of the server or a new stream ends it). Both are repaired here:
 *
 * - A missing stream is created.
 * - RUNS, when it stores nothing in two checks, is created anew. With copies it gets a minute: it has no leader for 5 to
 *   10 s after its server died. Its wake-ups carry ids only; the sweeper repeats them.
 * - EVENTS likewise, but only while RUNS stores, so never for want of space: its stored events are lost, and a reader
 *   that needs them is refused, as with expired ones.
 */
import { headers } from 'nats'
import type { Config } from '../schemas/config.js'
import { PROBE_CHUNK, PROBE_QUEUE } from '../schemas/subjects.js'
import type { Link } from './connect.js'
import type { Mux } from './mux.js'
import { createStream, isMissing, type StreamName } from './streams.js'

const PERIOD_MS = 10_000
const FAILING_PERIOD_MS = 1_000
const ANSWER_MS = 2_000
/** Failed checks in a row before a stream is created anew, and the least time of them for one with copies. */
const FAILURES = 2
const LEADERLESS_MS = 60_000
const NOTHING = new Uint8Array(0)
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
   * connection). Rejects when the stream is missing or does not confirm.
   */
  async function probe(name: StreamName): Promise<void> {
    const subject = name === 'RUNS' ? PROBE_QUEUE : PROBE_CHUNK
    const answer = await mux.ask(subject, NOTHING, {
      headers: headers(),
      timeout: ANSWER_MS,
    })
    // Nobody listens: it is missing, or has no leader at the moment.
    if (answer.headers?.code === 503) throw (await isMissing(link, name)) ? new Missing(name) : new Leaderless(name)
    const { seq, error } = answer.json<{ seq?: number; error?: { description: string } }>()
    if (seq === undefined) throw new Error(error?.description ?? 'no sequence number')
    await mux.ask(`$JS.API.STREAM.PURGE.${name}`, json({ filter: subject }), { timeout: ANSWER_MS })
  }

  async function checkStream(name: StreamName, mayRecreate: boolean): Promise<boolean> {
    try {
      await probe(name)
      failures[name] = 0
      return true
    } catch (error) {
      if (failures[name]++ === 0) failingSince[name] = performance.now()
      const isOver = failures[name] >= FAILURES && performance.now() - failingSince[name] >= patience_ms
      const missing = error instanceof Missing
      link.log.error({ err: error, stream: name, failures: failures[name] }, 'a stream of the broker stores nothing')
      problem = `The broker does not store ${name === 'RUNS' ? 'wake-ups' : 'events'} at the moment (stream ${name})`
      if (!link.connected() || !(missing || (mayRecreate && isOver))) return false
    }
    await createStream(link, config, name)
    link.log.warn({ stream: name }, 'a stream of the broker was created anew')
    onCreated()
    await probe(name)
    failures[name] = 0
    return true
  }

  async function checkAll(): Promise<void> {
    if (!link.connected()) {
      problem = 'The broker cannot be reached'
      return
    }
    const runs = await checkStream('RUNS', true)
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

  const off = link.onReconnect(() => void check())
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

class Missing extends Error {
  constructor(name: StreamName) {
    super(`the stream ${name} is missing`)
  }
}

class Leaderless extends Error {
  constructor(name: StreamName) {
    super(`the stream ${name} has no leader`)
  }
}
