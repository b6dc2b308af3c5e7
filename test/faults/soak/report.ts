/** The measurements of a soak, as plots and as the part of docs/faults.md between its marks. */
import { type LinePlot, linePlot } from '../../../scripts/plot/lines.js'
import { rolesIn, type SoakRole, totals } from './samples.js'
import type { SoakResult } from './soak.js'

/** The content of docs/soak.json: the result without its samples. */
export type SoakSummary = Omit<SoakResult, 'samples' | 'latency'> & {
  date: string
  command: string
  /** p99 of short runs: the median and the highest of its half minutes (ms). */
  p99: { median: number; highest: number }
  /** Megabytes at the end, and per minute over the second half. */
  disk: { [of in 'store' | 'broker']: { end: number; slope: number } }
}

export function summaryOf({ samples, latency, ...result }: SoakResult, date: string, command: string): SoakSummary {
  const sorted = latency.map(([, ms]) => ms).sort((a, b) => a - b)
  const disk = (of: 'store' | 'broker') => {
    const half = samples.slice(Math.floor(samples.length / 2))
    const [from, to] = [half[0], half.at(-1)]
    if (from === undefined || to === undefined || to.at === from.at) return { end: 0, slope: 0 }
    return { end: to.disk[of], slope: (to.disk[of] - from.disk[of]) / (to.at - from.at) }
  }
  return {
    ...result,
    date,
    command,
    p99: { median: sorted[sorted.length >> 1] ?? 0, highest: sorted.at(-1) ?? 0 },
    disk: { store: disk('store'), broker: disk('broker') },
  }
}

/** SVG files by name, for docs/plots. */
export function plotsOf({ samples, latency, faults, minutes }: SoakResult, date: string): { [file: string]: string } {
  const roles = rolesIn(samples)
  const common = { x: 'minutes', note: `${minutes} minutes on ${date}; the vertical lines are faults` }
  const marks = faults.map(({ at, name }) => ({ x: at, name }))
  const byRole = (figure: 'mb' | 'files') => roles.map(role => ({ name: role, points: totals(samples, role, figure) }))
  const disk = (['store', 'broker'] as const).map(name => ({
    name,
    points: samples.map((sample): [number, number] => [sample.at, sample.disk[name]]),
  }))
  const plots: { [file: string]: LinePlot } = {
    'soak-memory.svg': {
      ...common,
      title: 'Soak: memory by role',
      marks,
      panels: [{ title: 'Resident memory of all processes of a role', unit: 'MB', lines: byRole('mb') }],
    },
    'soak-usage.svg': {
      ...common,
      title: 'Soak: descriptors, disk and latency',
      marks,
      panels: [
        { title: 'Open descriptors of all processes of a role', unit: 'descriptors', lines: byRole('files') },
        { title: 'Disk', unit: 'MB', lines: disk },
        { title: 'Short runs, p99 of half a minute', unit: 'ms', lines: [{ name: 'p99', points: latency }] },
      ],
    },
  }
  return Object.fromEntries(Object.entries(plots).map(([file, plot]) => [file, linePlot(plot)]))
}

/** Markdown. */
export function soakText(summary: SoakSummary): string {
  const {
    minutes,
    seed,
    date,
    command,
    faults,
    calls,
    kept,
    streams,
    deployed,
    crons,
    memory,
    files,
    p99,
    disk,
    short,
  } = summary
  const trend = (role: SoakRole) => {
    const [mb, fd] = [memory[role]!, files[role]!]
    // No process of the role lived longer than its first minutes.
    if (mb.minutes === 0) return `| ${role} | not measured | not measured | 0 |`
    return `| ${role} | ${signed(mb.slope)} | ${signed(fd.slope)} | ${mb.minutes.toFixed(0)} |`
  }
  return `Run on ${date} with \`${command}\` (seed ${seed}): ${minutes} minutes with two edges, a resource worker on the embedded
store, two graph workers, a deploy worker and a NATS server, while other programs used the machine. ${faults.length} faults,
${calls.ok} calls answered 2xx, ${calls.refused} refused, ${calls.unknown} cut by a fault. ${kept.ended.success ?? 0} of ${kept.runs} runs on threads that stay
ended as success. ${streams.ended} streams were whole after ${streams.broken} broken connections, ${streams.refused} were refused because their events
were lost with a worker or the broker. ${deployed.cutovers} cutovers (${deployed.failed} failed, during a fault), ${deployed.answers} answers of the
deployment. Crons fired last ${crons.late_s.toFixed(0)} s before the end. p99 of short runs, by half minute: median ${p99.median.toFixed(0)} ms, highest
${p99.highest.toFixed(0)} ms. Disk at the end: store ${disk.store.end.toFixed(0)} MB (${signed(disk.store.slope)} MB a minute, for the threads that stay), broker ${disk.broker.end.toFixed(0)} MB.

Promised: memory of one process grows by 2 MB a minute at most after its first ten minutes (a third of a shorter soak).

| role | memory, MB/min | descriptors/min | minutes of processes measured |
|---|---|---|---|
${(Object.keys(memory) as SoakRole[]).map(trend).join('\n')}

${short.length === 0 ? 'Nothing fell short.' : `Fell short:\n\n${short.map(text => `- ${text}`).join('\n')}`}

![Memory by role](plots/soak-memory.svg)

![Descriptors, disk and latency](plots/soak-usage.svg)
`
}

const signed = (value: number): string => `${value < 0 ? '−' : '+'}${Math.abs(value).toFixed(2)}`
