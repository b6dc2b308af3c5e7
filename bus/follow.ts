/**
 * The reading side of a run's events: live batches, the terminal event, and replay (from the stored stream of a
 * resumable run, else from the ring of its supervisor). A reader never costs a consumer.
 *
 * Ids have no gap within an attempt, so a reader needs only the last id that it sent: it drops ids that are not greater,
 * and a jump means that it must replay.
 */
import type { Msg } from 'nats'
import { WeftError } from '../schemas/errors.js'
import type { Pool, RunId } from '../schemas/ids.js'
import type { RunStatus } from '../schemas/runs.js'
import { attemptOf, chunks, control, end, firstIdOf, live } from '../schemas/subjects.js'
import { TransientMap } from '../schemas/transient.js'
import { type Batch, openAssemblers } from './assembler.js'
import type { Link } from './connect.js'
import type { Mux } from './mux.js'
import { DIRECT_GET, seek } from './seek.js'

export type { Batch } from './assembler.js'

/** The terminal event of a run. */
export interface Ending {
  status: RunStatus
  last_event_id: number
  /** The answer of wait; null when it is too large to travel here: then the reader calls rpc.runs.result. */
  result: Uint8Array | null
  /** Set when no host was alive to write the error as an event: the reader renders it under `last_event_id`. */
  error: { error: string; message: string } | null
  /** The stored stream ends before this event; absent: it is whole. */
  resumable_until_id?: number | null
}

export interface Listener {
  onBatch?(batch: Batch): void
  onEnd?(ending: Ending): void
}

export interface ReplayFrom {
  pool: Pool
  resumable: boolean
  after: number
  until?: number | null
  again?: boolean
  running?: boolean
}

/** `empty`: the stored stream has no event after the start; whether there ever was one, only the reader can tell. */
export type Replayed = 'complete' | 'gone' | 'empty'

export interface Follower {
  /** Receives everything published from now on: the subscription reaches the server before any later publish. */
  follow(run: RunId, listener: Listener): () => void
  /**
   * Passes on the events after id `after` (−1: all), in order; a first batch may begin at or before `after`. Resolves to
   * `gone` when an event after it is no longer available, to `empty` when the stored stream has none after it, else to
   * `complete`. Rejects when the broker does not answer.
   * `until`: the stored stream ends before this event; the events from there on are in the ring of the supervisor.
   * `again`: an earlier replay brought nothing behind `after`. The whole block of `after` is read instead of a part.
   * `running`: the supervisor may have the events in memory. `pool`: where it is.
   */
  replay(run: RunId, from: ReplayFrom, onBatch: (batch: Batch) => void): Promise<Replayed>
  /** The last event before a checkpoint of the run; null: its supervisor does not know that checkpoint. */
  eventBefore(run: RunId, pool: Pool, checkpoint: string): Promise<number | null>
  /**
   * When the oldest event of the stored stream was stored (ms since 1970), of whichever run; null: none is stored. Events
   * expire in the order in which they were stored. Rejects when the broker does not answer.
   */
  storedSince(): Promise<number | null>
}

/** The part of a batch with ids greater than `after`; null when there is none. Events end with an empty line. */
export function after(batch: Batch, id: number): Batch | null {
  const skip = id - batch.first + 1
  if (skip <= 0) return batch
  if (skip >= batch.count) return null
  return {
    ...batch,
    first: id + 1,
    count: batch.count - skip,
    bytes: batch.bytes.subarray(offsetAfter(batch.bytes, skip)),
  }
}

/** Offset behind the n-th event. JSON has no raw line ends, so two in a row end an event and nothing else. */
export function offsetAfter(bytes: Uint8Array, n: number): number {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  let at = 0
  for (let i = 0; i < n; i++) {
    const found = view.indexOf('\n\n', at, 'latin1')
    if (found < 0) return view.length
    at = found + 2
  }
  return at
}

/** True when `next` may follow `last` directly: the next id, or the first of a later attempt. */
export const follows = (last: number, next: number): boolean =>
  next === last + 1 || (attemptOf(next) > attemptOf(Math.max(last, 0)) && next === firstIdOf(attemptOf(next)))

const encoder = new TextEncoder()
/** Small: the broker answers a page after the other, so the first events of many readers wait for whole pages of others. */
const FIRST_PAGE = 8
const PAGE = 256
/** A page in bytes: what the broker sends in vain when the reader stops within it. */
const PAGE_BYTES = 1024 * 1024

/** A supervisor answers at once, or when what it has sent is confirmed; one that hangs must not keep the stored events. */
const ANSWER_MS = 1_000

type OnBatch = (batch: Batch) => void
type From = Pick<ReplayFrom, 'after' | 'again'>
/** A run in the memory of the supervisor. */
interface At {
  run: RunId
  pool: Pool
}

export function openFollower(link: Link, mux: Mux): Follower {
  const runs = new TransientMap<RunId, ReturnType<typeof feed>>()
  const assembler = openAssemblers()

  /** Subscribes to the events only when a listener reads them: one that waits for the end receives none. */
  function feed(run: RunId) {
    const listeners = new Set<Listener>()
    /** A listener that throws must not keep the message from the others. */
    const each = (notify: (listener: Listener) => void) => {
      for (const listener of [...listeners]) {
        try {
          notify(listener)
        } catch (error) {
          link.log.error({ err: error, run_id: run }, 'a reader of a run failed')
        }
      }
    }
    const assembled = assembler(batch => each(listener => listener.onBatch?.(batch)))
    let events: { unsubscribe(): void } | null = null
    const ending = link.subscribe(end(run), message => {
      const ended = readEnding(message)
      each(listener => listener.onEnd?.(ended))
    })
    return {
      listeners,
      add(listener: Listener) {
        listeners.add(listener)
        if (listener.onBatch === undefined) return
        events ??= link.subscribe(live(run), assembled.onMessage)
      },
      close() {
        events?.unsubscribe()
        ending.unsubscribe()
        assembled.close()
      },
    }
  }

  async function replayRing(
    { run, pool }: At,
    after: number,
    onBatch: OnBatch,
    ms?: number,
  ): Promise<'complete' | 'gone'> {
    let outcome: 'complete' | 'gone' = 'complete'
    const assembled = assembler(onBatch)
    const ask = encoder.encode(JSON.stringify({ do: 'replay', after }))
    const each = (message: Msg) => {
      if (message.headers?.code === 503) outcome = 'gone'
      else if (message.headers?.get('end')) outcome = message.headers.get('end') as 'complete' | 'gone'
      else {
        assembled.onMessage(message)
        return false
      }
      return true
    }
    await mux.many(control(pool, run), ask, each, ms).finally(assembled.close)
    return outcome
  }

  /**
   * Most readers that come back lack events of the last moments, which the supervisor still has in memory. False: it does
   * not have them; what the stored stream has must be read.
   */
  async function replayRecent(at: At, after: number, onBatch: OnBatch): Promise<boolean> {
    let found = false
    const each = (batch: Batch) => {
      found = true
      onBatch(batch)
    }
    const outcome = await replayRing(at, after, each, ANSWER_MS).catch(error => {
      if (error instanceof WeftError && error.code === 'unavailable') return 'gone'
      throw error
    })
    return found && outcome === 'complete'
  }

  /**
   * The wildcard covers all blocks and attempts (decision 063). When a search left out an event, all are read from
   * the oldest of the block on: it had found an old copy, which was stored after its repetition.
   */
  async function replayStored(run: RunId, { after, again = false }: From, onBatch: OnBatch): Promise<Replayed> {
    const { seq, oldest } = after < 0 ? { seq: 1, oldest: 1 } : await seek(mux, run, after)
    const { outcome, whole } = await readStored(run, after, again ? oldest : seq, onBatch)
    return whole || again || seq === oldest ? outcome : (await readStored(run, after, oldest, onBatch)).outcome
  }

  /** Reads from sequence number `seq` on. `whole`: no event is missing between `after` and the last one that came. */
  async function readStored(
    run: RunId,
    after: number,
    seq: number,
    onBatch: OnBatch,
  ): Promise<{ outcome: Replayed; whole: boolean }> {
    const assembled = assembler(onBatch)
    let outcome = 'empty' as Replayed
    let reached = after
    let last = after
    for (let batch = FIRST_PAGE; ; batch = PAGE) {
      let pending = 0
      let got = 0
      const request = { seq, batch, max_bytes: PAGE_BYTES, next_by_subj: chunks(run) }
      await mux
        .many(DIRECT_GET, encoder.encode(JSON.stringify(request)), message => {
          const code = message.headers?.code ?? 0
          if (code === 204 || code === 404) return true
          if (code >= 400) throw new Error(`replay of run ${run} was refused: ${message.headers?.description}`)
          const first = Number(message.headers?.get('first'))
          const end = first + Number(message.headers?.get('count')) - 1
          const isNext = first <= reached || follows(reached, first)
          // An event in parts repeats its id; any other jump within an attempt means that events have expired.
          if (outcome === 'empty') outcome = (after < 0 ? first === 0 : isNext) ? 'complete' : 'gone'
          if (isNext) reached = Math.max(reached, end)
          last = Math.max(last, end)
          seq = Number(message.headers?.get('Nats-Sequence')) + 1
          pending = Number(message.headers?.get('Nats-Num-Pending'))
          got++
          assembled.onMessage(message)
          return false
        })
        .catch(error => {
          assembled.close()
          throw error
        })
      if (pending === 0 || got === 0) {
        assembled.close()
        return { outcome, whole: outcome === 'complete' && reached === last }
      }
    }
  }

  async function eventBefore(run: RunId, pool: Pool, checkpoint: string): Promise<number | null> {
    const ask = encoder.encode(JSON.stringify({ do: 'locate', checkpoint }))
    try {
      const { after } = (await mux.ask(control(pool, run), ask, { timeout: ANSWER_MS })).json<{ after: unknown }>()
      return Number.isSafeInteger(after) ? Number(after) : null
    } catch {
      // The run is nowhere, or its supervisor is of an older version and does not answer.
      return null
    }
  }

  async function storedSince(): Promise<number | null> {
    let since: number | null = null
    const request = { seq: 1, batch: 1, next_by_subj: 'chunk.>' }
    await mux.many(DIRECT_GET, encoder.encode(JSON.stringify(request)), message => {
      const stamp = message.headers?.get('Nats-Time-Stamp')
      if (!stamp) return true
      since = Date.parse(stamp)
      return false
    })
    return since
  }

  /** Replays the ring first, because without it nothing may be passed on. */
  async function replayBoth(at: At, from: From & { until: number }, onBatch: OnBatch) {
    const { after, until } = from
    const rest: Batch[] = []
    const copy = (batch: Batch) => rest.push({ ...batch, bytes: Buffer.from(batch.bytes) })
    if ((await replayRing(at, Math.max(after, until - 1), copy)) === 'gone') return 'gone'
    if (after < until - 1 && (await replayStored(at.run, from, onBatch)) !== 'complete') return 'gone'
    for (const batch of rest) onBatch(batch)
    return 'complete'
  }

  return {
    follow(run, listener) {
      let entry = runs.get(run)
      if (entry === undefined) runs.set(run, (entry = feed(run)))
      entry.add(listener)
      return () => {
        entry.listeners.delete(listener)
        if (entry.listeners.size > 0 || runs.get(run) !== entry) return
        runs.delete(run)
        entry.close()
      }
    },
    async replay(run, { pool, resumable, after, until = null, again = false, running = false }, onBatch) {
      const at = { run, pool }
      if (!resumable) return replayRing(at, after, onBatch)
      if (until !== null) return replayBoth(at, { after, until, again }, onBatch)
      if (running && after >= 0 && (await replayRecent(at, after, onBatch))) return 'complete'
      return replayStored(run, { after, again }, onBatch)
    },
    eventBefore,
    storedSince,
  }
}

function readEnding(message: Msg): Ending {
  const headers = message.headers
  const error = headers?.get('error')
  const kept = headers?.get('resumable_until_id')
  return {
    status: (headers?.get('status') ?? 'error') as RunStatus,
    last_event_id: Number(headers?.get('last_event_id') ?? -1),
    result: headers?.get('result') === '1' ? message.data : null,
    resumable_until_id: kept ? Number(kept) : null,
    error: error ? JSON.parse(Buffer.from(error, 'base64').toString()) : null,
  }
}
