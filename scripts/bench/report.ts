/** Medians, ratios and targets over all rounds, as a table for people and as JSON. */
import { cpus, release, totalmem } from 'node:os'
import { readVersions } from '../../bus/versions.js'
import { findHostNode } from '../../workers/child/node.js'
import type { Measured } from './measure.js'
import { sum } from './proc.js'
import type { Scenario } from './scenario.js'

export interface Line {
  scenario: string
  server: string
  /** Median of the rounds; null when one of them failed. */
  value: number | null
  unit: string
  rounds: number[]
  p50: number | null
  p99: number | null
  failure: string | null
  target: number | null
  /** Value as part of the target; above 1 is better than the target. */
  of_target: number | null
  met: boolean | null
  /** How many times better this server is than the peer; above 1 is better. */
  ratios: { [peer: string]: number }
  /** Per unit of `per`, from the round of the median. */
  per: string
  cpu_us: number | null
  cpu_share: { [role: string]: number }
  messages: number | null
  message_bytes: number | null
  commits: number | null
  disk_bytes: number | null
  memory_mb: number | null
  /** Share of all cores that the hypervisor gave to other machines, 0 to 1. */
  stolen: number | null
  also: { [name: string]: number }
}

/**
 * One line per scenario and server, in the order of the scenarios and of the servers' first appearance. A quick round is
 * not compared with the targets.
 */
export function linesOf(
  scenarios: readonly Scenario[],
  all: readonly Measured[],
  { quick = false }: { quick?: boolean } = {},
): Line[] {
  const servers = [...new Set(all.map(({ server }) => server))]
  return scenarios.flatMap(scenario => {
    const lines = servers.flatMap(server => {
      const rounds = all.filter(one => one.scenario === scenario.name && one.server === server)
      return rounds.length === 0 ? [] : [lineOf(quick ? { ...scenario, target: undefined } : scenario, server, rounds)]
    })
    for (const line of lines)
      for (const peer of lines)
        if (peer !== line && line.value !== null && peer.value !== null)
          line.ratios[peer.server] = better(scenario, line.value, peer.value)
    return lines
  })
}

const better = ({ better }: Scenario, a: number, b: number): number => (better === 'more' ? a / b : b / a)

function lineOf(scenario: Scenario, server: string, rounds: Measured[]): Line {
  const failure = rounds.find(one => one.failure !== undefined)?.failure ?? null
  const sorted = rounds.filter(({ value }) => value !== undefined).sort((a, b) => a.value! - b.value!)
  // The worse of the two middle figures, so that every figure is a measured one.
  const upper = scenario.better === 'less'
  const middle = sorted[upper ? Math.floor(sorted.length / 2) : Math.floor((sorted.length - 1) / 2)]
  const value = failure === null ? (middle?.value ?? null) : null
  const { target, unit, per } = scenario
  const budget = middle?.budget
  const n = middle?.operations
  const each = (total: number | null | undefined) => (total === null || total === undefined || !n ? null : total / n)
  const judged = target !== undefined && server !== 'in-process' && server !== 'host'
  return {
    scenario: scenario.name,
    server,
    value,
    unit,
    rounds: rounds.flatMap(one => (one.value === undefined ? [] : [one.value])),
    p50: middle?.latency?.p50 ?? null,
    p99: middle?.latency?.p99 ?? null,
    failure,
    target: judged ? target : null,
    of_target: judged && value !== null ? better(scenario, value, target) : null,
    met: judged ? value !== null && better(scenario, value, target) >= 1 : null,
    ratios: {},
    per,
    cpu_us: budget ? each(sum(budget.cpu) * 1e6) : null,
    cpu_share: budget ? { ...shares(budget.cpu, budget.seconds), client: budget.client / budget.seconds } : {},
    messages: each(budget?.broker?.in_msgs),
    message_bytes: each(budget?.broker?.in_bytes),
    commits: each(budget?.commits),
    disk_bytes: budget ? each(sum(budget.written)) : null,
    memory_mb: budget ? sum(budget.rss) || null : null,
    stolen: middle?.stolen ?? null,
    also: middle?.also ?? {},
  }
}

const shares = (cpu: { [role: string]: number }, seconds: number): { [role: string]: number } =>
  Object.fromEntries(Object.entries(cpu).map(([role, used]) => [role, used / seconds]))

export const machine = () => ({
  cores: cpus().length,
  model: cpus()[0]?.model ?? 'unknown',
  memory_gb: Math.round(totalmem() / 1024 ** 3),
  node: process.version,
  /** The Node.js of graph hosts, and of the library alone. */
  host_node: findHostNode(process.env.WEFT_NEWEST_NODE ?? '', null, 'WEFT_NEWEST_NODE').version,
  kernel: release(),
  weft: readVersions().weft,
})

/** The lines of one scenario as text. */
export function blockOf({ name, what }: Scenario, lines: readonly Line[]): string {
  return [`\n${name}: ${what}`, ...lines.map(textOf)].join('\n')
}

function textOf(line: Line): string {
  const { server, value, unit, p50, p99, failure, target, of_target, met, ratios, per } = line
  if (failure !== null) return `  ${server.padEnd(11)} FAILED: ${failure}`
  const parts = [`  ${server.padEnd(11)} ${`${short(value)}${unit}`.padStart(13)}`]
  parts.push(p50 === null ? ''.padEnd(22) : `p50 ${short(p50)} p99 ${short(p99)} ms`.padEnd(22))
  if (target !== null) parts.push(`target ${short(target)}: ${short(of_target)} × ${met ? 'met' : 'MISSED'}`)
  for (const [peer, ratio] of Object.entries(ratios)) parts.push(`${short(ratio)} × ${peer}`)
  const costs: string[] = []
  if (line.cpu_us !== null) costs.push(`CPU ${short(line.cpu_us)} µs`)
  if (line.messages !== null) costs.push(`${short(line.messages)} messages, ${short(line.message_bytes)} B`)
  if (line.commits !== null) costs.push(`${short(line.commits)} commits`)
  if (line.memory_mb !== null) costs.push(`${short(line.memory_mb)} MB resident in all`)
  if (line.disk_bytes) costs.push(`${short(line.disk_bytes)} B to disk`)
  const busy = Object.entries(line.cpu_share).map(([role, share]) => `${role} ${Math.round(share * 100)}`)
  const also = Object.entries(line.also).map(([key, n]) => `${key} ${short(n)}`)
  if ((line.stolen ?? 0) >= 0.01) also.push(`${Math.round(line.stolen! * 100)} % of the machine taken by its host`)
  return [
    parts.join('  '),
    ...(costs.length > 0 ? [`${' '.repeat(14)}per ${per}: ${costs.join(', ')}; % of a core: ${busy.join(', ')}`] : []),
    ...(also.length > 0 ? [`${' '.repeat(14)}${also.join(', ')}`] : []),
  ].join('\n')
}

/** Three significant digits, no exponent. */
export function short(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return '-'
  if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString('en-US')
  return `${Number(value.toPrecision(3))}`
}
