/** Streams that are read to their end on one connection. */
import { setTimeout as sleep } from 'node:timers/promises'
import { customChunks, oneUpdate, readEvents, streamRequest, tokens } from './events.js'
import { openConnection } from './http.js'
import { closedLoop, type Meter, spreadOf } from './load.js'
import type { Bench, Scenario } from './scenario.js'
import { check, Wrong } from './wrong.js'

const STREAMS = 50
const MANY = 1_000
/** All thousand must be open before the first one ends. */
const TICKS = { count: 20, delay_ms: 500 }
const MANY_MS = 60_000

export const STREAMS_OF: readonly Scenario[] = [
  first('first-event', 'request to first data event, one client, ms', 1, 5, 'first-event'),
  first('first-event-16', 'the same with 16 clients, ms', 16, 15, 'first-event-16'),
  {
    name: 'tokens',
    what: '16 streams of 100 tokens of a model, messages-tuple',
    unit: '/s',
    better: 'more',
    per: 'token',
    limit: 'tokens',
    host: 'tokens',
    run: bench =>
      counted(bench, bench.quick ? 4 : 16, (count, { connection }) =>
        readEvents(
          connection,
          streamRequest('chat', { messages: [{ role: 'user', content: '100' }] }, { stream_mode: 'messages-tuple' }),
          tokens(bench.server, 100, count),
        ),
      ),
  },
  chunks('chunks', `${STREAMS} streams of 1,000 custom chunks`, 100_000, {}),
  chunks('chunks-resumable', 'the same, stored', 75_000, { stream_resumable: true }),
  {
    name: 'streams-1000',
    what: `${MANY} runs of ${(TICKS.count * TICKS.delay_ms) / 1000} s streaming at the same time, default settings`,
    unit: ' running',
    better: 'more',
    per: 'run',
    target: MANY,
    host: 'waiting',
    run: manyStreams,
  },
]

function first(
  name: string,
  what: string,
  clients: number,
  target: number,
  limit: 'first-event' | 'first-event-16',
): Scenario {
  return {
    name,
    what,
    unit: ' ms',
    better: 'less',
    per: 'run',
    target,
    limit,
    host: limit,
    async run({ server, warm, seconds, meter }) {
      const loop = { port: server.port, clients, warm, seconds, meter }
      const { perSecond, latency, count } = await closedLoop(loop, async ({ connection }, n) => {
        const since = performance.now()
        let took: number | null = null
        const reader = oneUpdate(server, `text ${n}`, () => (took ??= performance.now() - since))
        await readEvents(connection, streamRequest('echo', { text: `text ${n}` }, { stream_mode: 'updates' }), reader)
        return took!
      })
      return { value: latency.p50, latency, operations: count, also: { streams_per_second: perSecond } }
    },
  }
}

function chunks(name: string, what: string, target: number, more: { [name: string]: unknown }): Scenario {
  return {
    name,
    what,
    unit: '/s',
    better: 'more',
    per: 'chunk',
    target,
    limit: 'custom',
    ...(name === 'chunks' && { host: 'custom' }),
    run(bench) {
      const count = bench.quick ? 200 : 1_000
      const request = streamRequest('custom', { count }, { stream_mode: 'custom', ...more })
      return counted(bench, bench.quick ? 10 : STREAMS, (counter, { connection }) =>
        readEvents(connection, request, customChunks(bench.server, count, counter)),
      )
    },
  }
}

/** Streams in a closed loop; counts the units of `one` in the window. */
async function counted(
  { server, warm, seconds, meter }: Bench,
  clients: number,
  one: (count: () => void, client: Parameters<Parameters<typeof closedLoop>[1]>[0]) => Promise<void>,
) {
  let n = 0
  let from = 0
  let to = 0
  const window: Meter = {
    async begin() {
      await meter.begin()
      from = n
    },
    async end() {
      to = n
      await meter.end()
    },
  }
  const count = () => void n++
  const rate = await closedLoop({ port: server.port, clients, warm, seconds, meter: window }, client =>
    one(count, client),
  )
  const streams = { streams_per_second: rate.perSecond }
  return { value: (to - from) / rate.seconds, latency: rate.latency, operations: to - from, also: streams }
}

/** Opens all at once; each must be complete. The value is the number of concurrent streams. */
async function manyStreams({ server, meter, quick }: Bench) {
  const many = quick ? 50 : MANY
  const input = quick ? { count: 5, delay_ms: 200 } : TICKS
  const request = streamRequest('custom', input, { stream_mode: 'custom' })
  const connections = Array.from({ length: many }, () => openConnection(server.port))
  const delays: number[] = []
  let running = 0
  let most = 0
  let complete = 0
  await meter.begin()
  const over = new AbortController()
  const all = connections.map(async connection => {
    const since = performance.now()
    const reader = customChunks(server, input.count, i => {
      if (i === 0) {
        most = Math.max(most, ++running)
        delays.push(performance.now() - since - input.delay_ms)
      }
      if (i === input.count - 1) running--
    })
    await readEvents(connection, request, reader)
    complete++
  })
  const late = sleep(MANY_MS, null, { signal: over.signal }).then(() => {
    throw new Wrong(`${complete} of ${many} streams were complete after ${MANY_MS / 1000} s; ${most} ran at once`)
  })
  try {
    await Promise.race([Promise.all(all), late])
    await meter.end()
  } finally {
    over.abort()
    late.catch(() => {})
    for (const connection of connections) connection.close()
    await Promise.allSettled(all)
  }
  check(complete === many, `${complete} of ${many} streams were complete`)
  return { value: most, latency: spreadOf(delays), operations: many }
}
