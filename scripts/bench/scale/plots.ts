/** The figures as plots: throughput and latency of all servers, and the mixed load over time. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { dotPlot } from '../../plot/dots.js'
import { linePlot, type Panel } from '../../plot/lines.js'
import type { Measured } from '../measure.js'
import type { Line } from '../report.js'
import type { Results } from '../table.js'

/** Writes throughput.svg, latency.svg and over-time.svg: those for which the results have figures. */
export function writePlots(folder: string, results: Results & { rounds: readonly Measured[] }): void {
  mkdirSync(folder, { recursive: true })
  for (const [name, svg] of Object.entries(plotsOf(results)))
    if (svg !== null) writeFileSync(join(folder, `${name}.svg`), svg)
}

export function plotsOf({ at, machine, lines, rounds }: Results & { rounds: readonly Measured[] }): {
  throughput: string | null
  latency: string | null
  'over-time': string | null
} {
  const { weft, cores, node, host_node } = machine
  const note = `Weft ${weft}, ${at.slice(0, 10)}, ${cores} cores with the client on them, Node.js ${node}, hosts on ${host_node}`
  const servers = [...new Set(lines.map(({ server }) => server))]
  const names = [...new Set(lines.map(({ scenario }) => scenario))]
  const rowsOf = (suffix: string, unit: (line: Line) => boolean, value: (line: Line) => number | null) =>
    names.flatMap(name => {
      const mine = lines.filter(line => line.scenario === name && unit(line) && (value(line) ?? 0) > 0)
      const values = Object.fromEntries(mine.map(line => [line.server, value(line)]))
      return mine.length === 0 ? [] : [{ name: `${name}${suffix}`, values }]
    })
  const throughput = rowsOf(
    '',
    ({ unit }) => unit === '/s',
    ({ value }) => value,
  )
  const timed = (line: Line) => line.failure === null && LATENCIES.test(line.scenario)
  const p50 = rowsOf(', p50', timed, line => line.p50)
  const p99 = rowsOf(', p99', timed, line => line.p99)
  const latency = p50.flatMap(row => [row, ...p99.filter(({ name }) => name === row.name.replace('p50', 'p99'))])
  const plot = (title: string, x: string, rows: typeof throughput) =>
    rows.length === 0 ? null : dotPlot({ title, note, x, servers, rows })
  return {
    throughput: plot('Throughput', 'per second; more is better', throughput),
    latency: plot('Latency', 'milliseconds; less is better', latency),
    'over-time': overTime(rounds, note),
  }
}

/** Plots of closed loops with equal numbers of clients at all servers. */
const LATENCIES = /^(first-event|first-event-16|run-wait|run-wait-thread|create-thread|get-thread|thread-state)$/

function overTime(rounds: readonly Measured[], note: string): string | null {
  const series = rounds.find(({ scenario, series }) => scenario === 'memory' && series !== undefined)?.series
  if (series === undefined) return null
  const minutes = (points: [number, number][]) => points.map(([x, y]): [number, number] => [x / 60, y])
  const panel = (title: string, unit: string, prefix: string, scale = 1): Panel => ({
    title,
    unit,
    lines: Object.entries(series)
      .filter(([name]) => name.startsWith(prefix))
      .map(([name, points]) => ({
        name: name.slice(prefix.length),
        points: minutes(points).map(([x, y]) => [x, y / scale]),
      })),
  })
  return linePlot({
    title: 'Mixed load over time: chunks, tokens and short runs together',
    note,
    x: 'minutes',
    panels: [
      panel('Chunks', '/s', 'rate chunks'),
      panel('Tokens', '/s', 'rate tokens'),
      panel('Runs', '/s', 'rate runs'),
      panel('p99 of short runs', 'ms', 'p99 '),
      panel('Resident memory', 'MB', 'memory '),
    ],
  })
}
