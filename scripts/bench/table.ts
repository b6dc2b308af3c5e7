/** The figures as a table of docs/performance.md, between its two markers, with a description of the machine. */
import { readFileSync, writeFileSync } from 'node:fs'
import { type Line, type machine, short } from './report.js'
import { Wrong } from './wrong.js'

const MARK = '<!-- results -->'

export interface Results {
  at: string
  machine: ReturnType<typeof machine>
  settings: { seconds: number; warm: number; rounds: number }
  load: { before: number; after: number }
  client: { perSecond: number; cpu_us: number }
  lines: readonly Line[]
}

/** Replaces the text between the markers of the file. */
export function writeTable(file: string, results: Results): void {
  const parts = readFileSync(file, 'utf8').split(MARK)
  if (parts.length !== 3) throw new Wrong(`${file} has ${parts.length - 1} lines "${MARK}" instead of 2`)
  writeFileSync(file, [parts[0], `\n${tableOf(results)}\n`, parts[2]].join(MARK))
}

export function tableOf({ at, machine, settings, load, client, lines }: Results): string {
  const { cores, model, memory_gb, node, host_node, kernel, weft } = machine
  const { seconds, warm, rounds } = settings
  const servers = [...new Set(lines.map(({ server }) => server))]
  const [main, ...others] = servers
  const head = ['scenario', main!, 'p50 / p99 ms', ...others.flatMap(peer => [peer, `× ${peer}`]), 'target', 'met']
  const rows = [...new Set(lines.map(({ scenario }) => scenario))].map(scenario => {
    const of = (server: string) => lines.find(line => line.scenario === scenario && line.server === server)
    const own = of(main!)
    const peers = others.flatMap(peer => [figureOf(of(peer)), short(own?.ratios[peer])])
    const target = own?.target ?? null
    const met = own?.met === null || own?.met === undefined ? '' : own.met ? 'yes' : `no (${short(own.of_target)} ×)`
    return [scenario, figureOf(own), spreadOf(own), ...peers, target === null ? '' : short(target), met]
  })
  const stolen = Math.max(...lines.map(line => line.stolen ?? 0))
  return [
    `Weft ${weft}, ${at.slice(0, 10)}: ${cores} cores of ${model}, ${memory_gb} GB, Linux ${kernel}, Node.js ${node},`,
    `hosts and the library alone on ${host_node}; medians of ${rounds} windows of ${seconds} s after ${warm} s of warm-up.`,
    `Load of the machine ${short(load.before)} before and ${short(load.after)} after. The client alone: ${short(client.perSecond)} requests/s, ${short(client.cpu_us)} µs of CPU`,
    `each. The machine's own host gave at most ${Math.round(stolen * 100)} % of the cores to others while one of these figures was`,
    'measured.',
    '',
    rowOf(head),
    rowOf(head.map(() => '---')),
    ...rows.map(rowOf),
  ].join('\n')
}

const rowOf = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`

function figureOf(line: Line | undefined): string {
  if (line === undefined) return ''
  return line.value === null ? 'failed' : `${short(line.value)}${line.unit}`
}

const spreadOf = (line: Line | undefined): string =>
  line === undefined || line.p50 === null || Number.isNaN(line.p50) ? '' : `${short(line.p50)} / ${short(line.p99)}`
