/** Many streams at the same time: how regularly events arrive, and what open streams cost an edge. */
import { setMaxListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { customChunks, readEvents, streamRequest } from '../events.js'
import { type Connection, openConnection, requestText } from '../http.js'
import { closedLoop, spreadOf } from '../load.js'
import { sum, usedBy } from '../proc.js'
import type { Bench, Scenario } from '../scenario.js'
import { askJson, createThread } from '../scenarios-resources.js'
import { check, Wrong } from '../wrong.js'

const RUNNING = 1_000
const CHUNK_MS = 1_000
/** Streams opened in a second. */
const OPENED = 500
const OPEN = 10_000
const RUNS = 20
/** The default of WEFT_HEARTBEAT_MS. */
const HEARTBEAT_MS = 5_000
const LATE_MS = 120_000

export const MANY: readonly Scenario[] = [
  {
    name: 'jitter-1000',
    what: `${RUNNING} running streams with a chunk a second: distance of two chunks minus 1,000 ms, p99`,
    unit: ' ms',
    better: 'less',
    target: 50,
    per: 'chunk',
    run: jitter,
  },
  {
    name: 'streams-10000',
    what: `${OPEN} streams of ${RUNS} waiting runs, open on one edge: those that received each heartbeat in time`,
    unit: ' open',
    better: 'more',
    target: OPEN,
    per: 'heartbeat',
    starts: true,
    once: true,
    run: openStreams,
  },
]

/** Only distances between chunks that arrived while all streams were running count. */
async function jitter({ server, meter, quick, seconds }: Bench) {
  const many = quick ? 50 : RUNNING
  const opening = many / OPENED
  const count = Math.ceil(opening) + 2 + Math.max(3, Math.round(seconds * 2))
  const request = streamRequest('custom', { count, delay_ms: CHUNK_MS }, { stream_mode: 'custom' })
  const connections = Array.from({ length: many }, () => openConnection(server.port, '127.0.0.1', 16 * 1024))
  const jitters: number[] = []
  let chunks = 0
  let running = 0
  let measuring = false
  const over = new AbortController()
  setMaxListeners(0, over.signal)
  const all = connections.map(async (connection, i) => {
    await sleep((i / OPENED) * 1_000, null, { signal: over.signal })
    let last = 0
    const onChunk = (n: number) => {
      const now = performance.now()
      if (n === 0) running++
      if (measuring && last > 0) {
        jitters.push(Math.abs(now - last - CHUNK_MS))
        chunks++
      }
      last = now
      if (n === count - 1 && measuring) stopMeasuring()
    }
    await readEvents(connection, request, customChunks(server, count, onChunk))
  })
  let ended: Promise<void> | null = null
  const stopMeasuring = () => {
    measuring = false
    ended = meter.end()
  }
  try {
    for (const deadline = Date.now() + LATE_MS; running < many; await sleep(20)) {
      check(Date.now() < deadline, `${running} of ${many} streams run after ${LATE_MS / 1000} s`)
      await Promise.race([Promise.all(all), sleep(20)])
    }
    await meter.begin()
    measuring = true
    await Promise.all(all)
    await ended
  } finally {
    over.abort()
    for (const connection of connections) connection.close()
    await Promise.allSettled(all)
  }
  check(chunks > many, `only ${chunks} chunks arrived while all streams ran`)
  const latency = spreadOf(jitters)
  return { value: latency.p99, latency, operations: chunks, also: { running: many } }
}

/** Connections are opened, then nothing is sent on them but heartbeats; meanwhile threads are created. */
async function openStreams(bench: Bench) {
  const { kind, quick, meter } = bench
  const many = quick ? 200 : OPEN
  const server = await kind!.start({ env: { WEFT_STREAMS_PER_ADDRESS: '0', WEFT_MAX_CONNECTIONS: '20000' } })
  const connections: Connection[] = []
  const all: Promise<unknown>[] = []
  try {
    const creates = () =>
      closedLoop(
        { port: server.port, clients: 16, warm: 1, seconds: Math.max(1, bench.seconds), meter: NO_METER },
        ({ connection }, n) => createThread(connection, n),
      )
    const before = await creates()
    const memory = usedBy(server.pids()).rss
    const control = openConnection(server.port)
    connections.push(control)
    const paths = await waitingRuns(control, quick ? 2 : RUNS)
    const beats = Array.from({ length: many }, () => ({ first: 0, last: 0, n: 0, worst: 0 }))
    let open = 0
    for (let i = 0; i < many; i++) {
      const connection = openConnection(server.port, '127.0.0.1', 4 * 1024)
      connections.push(connection)
      const request = requestText('GET', paths[i % paths.length]!)
      const taker = { head: () => void open++, data: (piece: Buffer) => beat(beats[i]!, piece) }
      all.push(connection.stream(request, taker).catch(error => error))
      if (i % 100 === 99) await sleep(20)
    }
    for (const deadline = Date.now() + LATE_MS; open < many; await sleep(20))
      check(Date.now() < deadline, `${open} of ${many} streams are open after ${LATE_MS / 1000} s`)
    await sleep(HEARTBEAT_MS)
    for (const one of beats) one.last = 0
    await meter.begin()
    await sleep(3 * HEARTBEAT_MS)
    await meter.end()
    const distances = spreadOf(beats.map(({ worst }) => worst))
    const whole = beats.filter(({ worst }) => worst > 0 && worst < 1_000).length
    const grown = usedBy(server.pids()).rss
    const during = await creates()
    const added = sum(grown) - sum(memory)
    return {
      value: whole,
      latency: distances,
      operations: beats.reduce((n, one) => n + one.n, 0),
      also: {
        added_mb: added,
        ...Object.fromEntries(
          Object.entries(grown).map(([role, mb]) => [`${role}_mb_added`, mb - (memory[role] ?? 0)]),
        ),
        create_p99_before: before.latency.p99,
        create_p99_during: during.latency.p99,
        create_per_second_before: before.perSecond,
        create_per_second_during: during.perSecond,
      },
    }
  } finally {
    for (const connection of connections) connection.close()
    await Promise.allSettled(all)
    await server.stop()
  }
}

const NO_METER = { begin: async () => {}, end: async () => {} }

interface Beats {
  first: number
  last: number
  n: number
  /** The largest difference between the distance of two heartbeats and the setting, in ms. */
  worst: number
}

function beat(beats: Beats, piece: Buffer): void {
  if (!piece.includes(': heartbeat')) return
  const now = performance.now()
  if (beats.last > 0) {
    beats.n++
    beats.worst = Math.max(beats.worst, Math.abs(now - beats.last - HEARTBEAT_MS))
  }
  beats.last = now
}

/** Runs whose first chunk comes after the end of the scenario; the paths of their streams. */
async function waitingRuns(connection: Connection, count: number): Promise<string[]> {
  const paths: string[] = []
  for (let i = 0; i < count; i++) {
    const body = { assistant_id: 'custom', input: { count: 1, start_ms: 900_000 }, stream_mode: 'custom' }
    const { run_id } = await askJson<{ run_id?: string }>(connection, requestText('POST', '/runs', body))
    if (typeof run_id !== 'string') throw new Wrong('the run has no id')
    paths.push(`/runs/${run_id}/stream`)
  }
  return paths
}
