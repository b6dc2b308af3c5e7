/** A mixed load over minutes: throughput, latency and memory over time. */
import { slopeOf } from '../../plot/slope.js'
import { customChunks, readEvents, streamRequest, tokens } from '../events.js'
import { requestText } from '../http.js'
import { type Client, closedLoop, type Operation, spreadOf } from '../load.js'
import { sum, usedBy } from '../proc.js'
import type { Bench, Outcome, Scenario } from '../scenario.js'
import { askJson } from '../scenarios-resources.js'
import type { Server } from '../server.js'
import { check, shown } from '../wrong.js'

const SAMPLE_MS = 2_000
const CHUNKS = 1_000
const TOKENS = 100

export const TIME: readonly Scenario[] = [
  {
    name: 'memory',
    what: 'chunks, tokens and run-wait together for --minutes (1): resident memory of all processes at the end, MB',
    unit: ' MB',
    better: 'less',
    target: 450,
    per: 'run',
    starts: true,
    once: true,
    run: mixed,
  },
]

/** Clients of each kind, and one operation; each counts its units. */
const loads = (server: Server, quick: boolean, count: { [name: string]: number }, took: number[]) =>
  ({
    chunks: [
      quick ? 2 : 10,
      ({ connection }) => {
        const n = quick ? 100 : CHUNKS
        const request = streamRequest('custom', { count: n }, { stream_mode: 'custom' })
        return readEvents(
          connection,
          request,
          customChunks(server, n, () => count.chunks!++),
        )
      },
    ],
    tokens: [
      quick ? 2 : 8,
      ({ connection }) => {
        const input = { messages: [{ role: 'user', content: `${TOKENS}` }] }
        const request = streamRequest('chat', input, { stream_mode: 'messages-tuple' })
        return readEvents(
          connection,
          request,
          tokens(server, TOKENS, () => count.tokens!++),
        )
      },
    ],
    runs: [
      quick ? 2 : 16,
      async ({ connection }: Client, n: number) => {
        const since = performance.now()
        const body = { assistant_id: 'echo', input: { text: `text ${n}` } }
        const values = await askJson<{ seen?: string }>(connection, requestText('POST', '/runs/wait', body))
        check(values.seen === `text ${n}`, () => `"text ${n}" should have come back: ${shown(values)}`)
        count.runs!++
        took.push(performance.now() - since)
      },
    ],
  }) satisfies { [name: string]: [clients: number, operation: Operation] }

async function mixed({ kind, quick, minutes, meter }: Bench): Promise<Outcome> {
  const server = await kind!.start()
  const seconds = quick ? 3 : minutes * 60
  const count: { [name: string]: number } = { chunks: 0, tokens: 0, runs: 0 }
  const took: number[] = []
  const series: NonNullable<Outcome['series']> = {}
  const put = (name: string, x: number, y: number) => void (series[name] ??= []).push([x, y])
  try {
    const nothing = { begin: async () => {}, end: async () => {} }
    const began = performance.now()
    let last = { ...count, at: began }
    const sampler = setInterval(
      () => {
        const now = performance.now()
        const x = (now - began) / 1000
        const { rss } = usedBy(server.pids())
        put('memory all', x, sum(rss))
        for (const [role, mb] of Object.entries(rss)) put(`memory ${role}`, x, mb)
        for (const name of Object.keys(count)) {
          const before = (last as { [name: string]: number })[name]!
          put(`rate ${name}`, x, ((count[name]! - before) / (now - last.at)) * 1000)
        }
        put('p99 runs', x, spreadOf(took.splice(0)).p99)
        last = { ...count, at: now }
      },
      quick ? 500 : SAMPLE_MS,
    )
    try {
      const rows = Object.values(loads(server, quick, count, took))
      await Promise.all(
        rows.map(([clients, operation], i) =>
          closedLoop(
            { port: server.port, clients, warm: 0, seconds, meter: i === 0 ? meter : nothing },
            operation as Operation,
          ),
        ),
      )
    } finally {
      clearInterval(sampler)
    }
  } finally {
    await server.stop()
  }
  const memory = series['memory all'] ?? []
  check(memory.length > 2, 'the memory was sampled less than three times')
  // The heap of each process grows to its working size first.
  const settled = memory.slice(Math.floor(memory.length / 3))
  const roles = Object.entries(series).filter(([name]) => name.startsWith('memory '))
  return {
    value: spreadOf(memory.slice(-Math.ceil(memory.length / 10)).map(([, mb]) => mb)).p50,
    operations: count.runs!,
    also: {
      slope_mb_per_minute: slopeOf(settled) * 60,
      most_mb: Math.max(...memory.map(([, mb]) => mb)),
      ...Object.fromEntries(roles.map(([name, points]) => [`${name.slice(7)}_mb`, points.at(-1)![1]])),
      runs_per_second: count.runs! / seconds,
      tokens_per_second: count.tokens! / seconds,
      chunks_per_second: count.chunks! / seconds,
    },
    series,
  }
}
