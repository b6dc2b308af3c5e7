/** Streams that are dropped and joined again, and runs with many readers. */
import { checkChunk, customChunks, numbered, type Reader, readEvents, runIdOf, streamRequest } from './events.js'
import { type Connection, openConnection, requestText } from './http.js'
import { closedLoop, spreadOf } from './load.js'
import type { Bench, Scenario } from './scenario.js'
import { askJson } from './scenarios-resources.js'
import { check, shown, Wrong } from './wrong.js'

const CHUNKS = 150
/** A stream is dropped after this many events, repeatedly. */
const DROPS = [10, 60, 110]
const READERS = 20

export const JOINS: readonly Scenario[] = [
  {
    name: 'resume',
    what: `8 streams, each dropped ${DROPS.length} times and joined with Last-Event-ID; join to next event, ms`,
    unit: ' ms',
    better: 'less',
    per: 'run',
    run: resume,
  },
  {
    name: 'fan-out',
    what: `${READERS} readers of one run, each with every chunk`,
    unit: '/s',
    better: 'more',
    per: 'chunk',
    run: fanOut,
  },
]

async function resume({ server, warm, seconds, meter, quick }: Bench) {
  const joins: number[] = []
  const loop = { port: server.port, clients: quick ? 2 : 8, warm, seconds, meter }
  const { count } = await closedLoop(loop, async ({ signal }) => {
    const input = { count: CHUNKS, delay_ms: 4 }
    const more = { stream_mode: 'custom', stream_resumable: true, on_disconnect: 'continue' }
    const run = followed(server.gapless)
    for (const [turn, drop] of [...DROPS, Number.POSITIVE_INFINITY].entries()) {
      const request =
        turn === 0
          ? streamRequest('custom', input, more)
          : requestText('GET', `/runs/${run.id()}/stream`, undefined, { 'Last-Event-ID': run.last() })
      const since = performance.now()
      const took = await run.read(request, openConnection(server.port), drop)
      if (turn > 0) joins.push(took - since)
      if (signal.aborted) return
    }
    run.end()
  })
  const latency = spreadOf(joins)
  return { value: latency.p50, latency, operations: count }
}

/** A run whose events are read over several connections: each exactly once, in order, over all of them. */
function followed(gapless: boolean) {
  const number = numbered({ gapless })
  let id: string | null = null
  let last = ''
  let i = 0
  function take(event: string, data: string, eventId: string | null): void {
    number(eventId)
    check(eventId !== null, 'an event of a resumable run has no id')
    last = eventId
    if (event === 'metadata' && id === null) id = runIdOf(data)
    else if (event === 'custom') checkChunk(data, i++)
    else if (event !== 'end') throw new Wrong(`an unexpected event ${event} arrived: ${shown(data)}`)
  }
  return {
    id: () => id,
    last: () => last,
    /** Reads until `drop` chunks have arrived in total, or to the end; returns the time of the first event. */
    async read(request: string, connection: Connection, drop: number): Promise<number> {
      let first: number | null = null
      let dropped = false
      const reader: Reader = {
        event(event, data, eventId) {
          // Bytes in flight at the drop are ignored.
          if (dropped) return
          first ??= performance.now()
          take(event, data, eventId)
          if (i < drop) return
          dropped = true
          connection.close()
        },
        end: () => {},
      }
      try {
        await readEvents(connection, request, reader)
        check(drop === Number.POSITIVE_INFINITY, `the stream ended after ${i} of ${CHUNKS} chunks`)
      } catch (error) {
        if (!dropped) throw error
      } finally {
        connection.close()
      }
      return first ?? performance.now()
    },
    end: () => check(i === CHUNKS, `the run ended after ${i} of ${CHUNKS} chunks`),
  }
}

/** One run in the background, joined by all readers before its first chunk. */
async function fanOut({ server, seconds, meter, quick }: Bench) {
  const connections = Array.from({ length: READERS }, () => openConnection(server.port))
  const count = quick ? 200 : 5_000
  let chunks = 0
  let took = 0
  const rounds = Math.max(1, Math.round(seconds / 2))
  await meter.begin()
  try {
    for (let round = 0; round < rounds; round++) {
      const body = {
        assistant_id: 'custom',
        input: { count, start_ms: 300 },
        stream_mode: 'custom',
        stream_resumable: true,
      }
      const { run_id } = await askJson<{ run_id?: string }>(connections[0]!, requestText('POST', '/runs', body))
      check(typeof run_id === 'string', 'the run has no id')
      const request = requestText('GET', `/runs/${run_id}/stream`, undefined, { 'Last-Event-ID': '-1' })
      let since = 0
      const onChunk = () => {
        if (since === 0) since = performance.now()
        chunks++
      }
      await Promise.all(
        connections.map(connection => readEvents(connection, request, customChunks(server, count, onChunk))),
      )
      took += performance.now() - since
    }
    await meter.end()
  } finally {
    for (const connection of connections) connection.close()
  }
  return { value: (chunks / took) * 1000, operations: chunks }
}
