/** Closed-loop clients: each sends its next request when the last one is answered; latencies are recorded. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Connection } from './http.js'
import { openConnection } from './http.js'
import { Wrong } from './wrong.js'

const LATE_MS = 30_000

/** Milliseconds. */
export interface Spread {
  count: number
  p50: number
  p99: number
  max: number
}

export function spreadOf(samples: readonly number[]): Spread {
  const sorted = Float64Array.from(samples).sort()
  const at = (part: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN
  return { count: sorted.length, p50: at(0.5), p99: at(0.99), max: at(1) }
}

/** Accounting starts after the warm-up and ends with the window. */
export interface Meter {
  begin(): Promise<void>
  end(): Promise<void>
}

export interface Client {
  index: number
  connection: Connection
  signal: AbortSignal
}

/** One operation with its check. A returned number is its latency in ms; otherwise its whole duration is taken. */
export type Operation = (client: Client, n: number) => Promise<unknown>

export interface Loop {
  port: number
  clients: number
  /** Seconds before the window, not counted. */
  warm: number
  seconds: number
  meter: Meter
  /** Called by each client before the clock starts. */
  prepare?(client: Client): Promise<void>
}

export interface Rate {
  /** Operations that ended in the window. */
  count: number
  seconds: number
  perSecond: number
  latency: Spread
}

/** Runs the clients, each with its own connection. The first failure ends all of them and is thrown. */
export async function closedLoop(
  { port, clients, warm, seconds, meter, prepare }: Loop,
  operation: Operation,
): Promise<Rate> {
  const stop = new AbortController()
  const samples: number[] = []
  let counting = false
  let n = 0
  let failure: unknown
  const all = Array.from({ length: clients }, (_, index) => ({
    index,
    connection: openConnection(port),
    signal: stop.signal,
  }))
  const fail = (error: unknown) => {
    failure ??= error
    stop.abort()
  }
  try {
    await Promise.all(all.map(client => prepare?.(client)))
    const looping = all.map(async client => {
      while (!stop.signal.aborted) {
        const since = performance.now()
        const latency = await operation(client, n++)
        if (counting) samples.push(typeof latency === 'number' ? latency : performance.now() - since)
      }
    })
    const over = Promise.all(looping.map(loop => loop.catch(fail)))
    await pause(warm, stop.signal)
    await meter.begin()
    counting = true
    const since = performance.now()
    await pause(seconds, stop.signal)
    // A window without a completed operation has no value, so it lasts until the first one.
    for (let i = 0; i < LATE_MS / 50 && samples.length === 0; i++) await pause(0.05, stop.signal)
    if (samples.length === 0) fail(new Wrong(`nothing was complete within ${seconds + LATE_MS / 1000} s`))
    counting = false
    const took = (performance.now() - since) / 1000
    await meter.end()
    stop.abort()
    // Operations that have begun complete and are checked.
    const cut = setTimeout(() => {
      fail(new Wrong(`an answer was not complete ${LATE_MS / 1000} s after the window`))
      for (const { connection } of all) connection.close()
    }, LATE_MS)
    await over
    clearTimeout(cut)
    if (failure !== undefined) throw failure
    return { count: samples.length, seconds: took, perSecond: samples.length / took, latency: spreadOf(samples) }
  } finally {
    for (const { connection } of all) connection.close()
  }
}

/** Seconds, or until a failure. */
const pause = (seconds: number, signal: AbortSignal): Promise<void> =>
  sleep(seconds * 1000, undefined, { signal }).catch(() => {})
