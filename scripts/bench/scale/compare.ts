/** Compares calls to a small and a grown place, one request at a time, in turns: what growth costs each call. */
import { type Connection, openConnection, requestText } from '../http.js'
import { closedLoop } from '../load.js'
import type { Bench, Outcome } from '../scenario.js'
import { askJson } from '../scenarios-resources.js'
import type { Server } from '../server.js'

export interface Call {
  name: string
  /** Sends and checks; a returned number is its latency in ms. `n` increases with each call. */
  ask(connection: Connection, n: number): Promise<unknown>
}

interface Place {
  port: number
  /** The same calls, in the same order, at both places; those that add rows last. */
  calls: readonly Call[]
}

/** Turns, and requests of one call at one place in each. */
const TURNS = 8
const REQUESTS = 25

/**
 * The value is the largest ratio of two lower quartiles, which other load of the machine moves less than medians; `also` has the
 * ratio of each call, `series` both quartiles in ms.
 */
export async function compare(small: Place, large: Place, { quick }: { quick: boolean }): Promise<Outcome> {
  const turns = quick ? 2 : TURNS
  const samples = small.calls.map(() => ({ small: [] as number[], large: [] as number[] }))
  const connections = { small: openConnection(small.port), large: openConnection(large.port) }
  const places = { small, large }
  let n = 0
  try {
    // Call by call: those that add rows come last, and do not change what the others find.
    for (let i = 0; i < small.calls.length; i++)
      for (let turn = -2; turn < turns; turn++)
        for (const which of turn % 2 === 0 ? (['small', 'large'] as const) : (['large', 'small'] as const))
          for (let k = 0; k < (quick ? 5 : REQUESTS); k++) {
            const since = performance.now()
            const took = await places[which].calls[i]!.ask(connections[which], n++)
            if (turn >= 0) samples[i]![which].push(typeof took === 'number' ? took : performance.now() - since)
          }
  } finally {
    connections.small.close()
    connections.large.close()
  }
  const also: { [name: string]: number } = {}
  const series: NonNullable<Outcome['series']> = {}
  let worst = 0
  for (const [i, { name }] of small.calls.entries()) {
    const [from, to] = [quartileOf(samples[i]!.small), quartileOf(samples[i]!.large)]
    also[name] = to / from
    series[name] = [
      [0, from],
      [1, to],
    ]
    worst = Math.max(worst, to / from)
  }
  return { value: worst, also, series }
}

const quartileOf = (samples: readonly number[]): number =>
  samples.toSorted((a, b) => a - b)[Math.floor(samples.length / 4)]!

/** Calls `one` for 0 … count − 1 with 64 clients. */
export async function fill(
  port: number,
  count: number,
  one: (connection: Connection, i: number) => Promise<unknown>,
): Promise<void> {
  const connections = Array.from({ length: Math.min(64, count) }, () => openConnection(port))
  let next = 0
  try {
    await Promise.all(
      connections.map(async connection => {
        while (next < count) await one(connection, next++)
      }),
    )
  } finally {
    for (const connection of connections) connection.close()
  }
}

/** Brings a server that was not filled to the speed of one that was. */
export const exercise = (port: number, seconds: number, one: (connection: Connection, i: number) => Promise<unknown>) =>
  closedLoop(
    { port, clients: 64, warm: 0, seconds, meter: { begin: async () => {}, end: async () => {} } },
    ({ connection }, n) => one(connection, n),
  )

/** Starts two servers of the kind, and ends them after `work`. */
export async function two(
  { kind }: Bench,
  work: (small: Server, large: Server) => Promise<Awaited<ReturnType<typeof compare>>>,
) {
  const small = await kind!.start()
  try {
    const large = await kind!.start()
    try {
      return await work(small, large)
    } finally {
      await large.stop()
    }
  } finally {
    await small.stop()
  }
}

export const get = (connection: Connection, path: string) => askJson<object>(connection, requestText('GET', path))
export const post = <T = object>(connection: Connection, path: string, body: object) =>
  askJson<T>(connection, requestText('POST', path, body))
