/**
 * Counters and histograms of a role. The code in which an event happens writes its figure, and an edge that asks for the
 * metrics reads it (metrics.ts). Labels have few values: what users choose goes
 * through `few`.
 */
import { statfs } from 'node:fs/promises'
import { type IntervalHistogram, monitorEventLoopDelay } from 'node:perf_hooks'
import pTimeout from 'p-timeout'
import { BOUNDS, boundsOf, type MetricName, type Sample } from '../schemas/metrics.js'
import type { Build } from '../schemas/protocol.js'

type Labels = { [label: string]: string }
type Read = () => Sample[] | Promise<Sample[]>

/** Combinations of labels that users choose: a report has at most 1,000 samples (schemas/metrics.ts). */
const FEW = 40
const LABEL_CHARS = 128

export interface Figures {
  /** Adds to a counter; 0 shows it before its first event. */
  count(name: MetricName, labels?: Labels, by?: number): void
  /** The histogram with these labels. A hot path keeps it. */
  histogram(name: MetricName, labels?: Labels): Histogram
  /** Labels that users choose: the first combinations of these names stand for themselves, in further ones each is "other". */
  few(labels: Labels): Labels
  /** Adds samples that are computed when the metrics are asked for. */
  onRead(read: Read): void
  /** Every sample; those of a reader that throws or is late are left out and reported to `onError`. */
  samples(onError: (error: unknown) => void): Promise<Sample[]>
}

/** An edge waits for a second (metrics.ts): a store that does not answer hides its own figures only. */
const READ_MS = 600

/** The answers that come in time; rejects else. */
export const timely = <T>(work: Promise<T>, ms: number): Promise<T> =>
  pTimeout(work, { milliseconds: ms, message: `no answer within ${ms} ms` })

/** One sample, with the name checked. */
export const sample = (name: MetricName, value: number, labels?: Labels): Sample =>
  labels === undefined ? { name, value } : { name, labels, value }

export function openFigures(): Figures {
  const counters = new Map<string, { name: MetricName; labels: Labels | undefined; value: number }>()
  const histograms = new Map<string, { name: MetricName; labels: Labels | undefined; histogram: Histogram }>()
  const chosen = new Map<string, Map<string, Labels>>()
  const readers: Read[] = []
  const keyOf = (name: string, labels?: Labels) => (labels === undefined ? name : `${name} ${JSON.stringify(labels)}`)
  return {
    count(name, labels, by = 1) {
      const key = keyOf(name, labels)
      const known = counters.get(key)
      if (known === undefined) counters.set(key, { name, labels, value: by })
      else known.value += by
    },
    histogram(name, labels) {
      const key = keyOf(name, labels)
      const known = histograms.get(key)
      if (known !== undefined) return known.histogram
      const histogram = openHistogram(boundsOf(name))
      histograms.set(key, { name, labels, histogram })
      return histogram
    },
    few(labels) {
      const names = Object.keys(labels)
      const kind = names.join(' ')
      let known = chosen.get(kind)
      if (known === undefined) {
        known = new Map()
        chosen.set(kind, known)
      }
      const key = Object.values(labels).join('\0')
      const found = known.get(key)
      if (found !== undefined) return found
      const change = (to: (value: string) => string): Labels =>
        Object.fromEntries(names.map(name => [name, to(labels[name]!)]))
      if (known.size >= FEW) return change(() => 'other')
      const own = change(value => value.slice(0, LABEL_CHARS))
      known.set(key, own)
      return own
    },
    onRead: read => void readers.push(read),
    async samples(onError) {
      const read = await Promise.allSettled(readers.map(one => timely((async () => one())(), READ_MS)))
      for (const one of read) if (one.status === 'rejected') onError(one.reason)
      return [
        ...[...counters.values()].map(({ name, labels, value }) => sample(name, value, labels)),
        ...[...histograms.values()].map(({ name, labels, histogram }) => histogram.sample(name, labels)),
        ...read.flatMap(one => (one.status === 'fulfilled' ? one.value : [])),
      ]
    },
  }
}

export interface Histogram {
  observe(seconds: number): void
  sample(name: MetricName, labels?: Labels): Sample
}

export function openHistogram(bounds: readonly number[] = BOUNDS): Histogram {
  const counts = new Array<number>(bounds.length + 1).fill(0)
  let sum = 0
  return {
    observe(seconds) {
      let i = 0
      while (i < bounds.length && seconds > bounds[i]!) i++
      counts[i]!++
      sum += seconds
    },
    sample: (name, labels) => ({ name, counts: [...counts], sum, ...(labels === undefined ? {} : { labels }) }),
  }
}

/** In bytes; `free`: what this process may still write. */
export interface DiskSpace {
  free: number
  size: number
}

/** The disk of a folder. */
export async function diskSpace(folder: string): Promise<DiskSpace> {
  const { bavail, blocks, bsize } = await statfs(folder)
  return { free: bavail * bsize, size: blocks * bsize }
}

/** Bytes that this process may still write to the disk of a folder. */
export const freeBytes = async (folder: string): Promise<number> => (await diskSpace(folder)).free

/** How often the event loop is looked at: each look wakes the process up. */
const DELAY_LOOK_MS = 50

/** Figures of this process; the delay of the event loop is that since the last call. */
export function openProcessFigures({ version, protocol }: Build): { samples(): Sample[]; close(): void } {
  const delay: IntervalHistogram = monitorEventLoopDelay({ resolution: DELAY_LOOK_MS })
  delay.enable()
  return {
    samples() {
      const { user, system } = process.cpuUsage()
      // The histogram has the time from look to look.
      const late = (percent: number) => Math.max(0, delay.percentile(percent) / 1e6 - DELAY_LOOK_MS) / 1e3
      const quantiles = [50, 99, 100].map(percent =>
        sample('weft_event_loop_delay_seconds', late(percent), { percentile: `${percent}` }),
      )
      delay.reset()
      return [
        ...quantiles,
        ...residentBytes(),
        sample('weft_process_cpu_seconds_total', (user + system) / 1e6),
        sample('weft_up', 1),
        sample('weft_build_info', 1, { version, protocol: `${protocol}` }),
      ]
    },
    close: () => delay.disable(),
  }
}

/** Empty when no file descriptor is left: Node.js must open a file to read the memory, and throws. */
function residentBytes(): Sample[] {
  try {
    return [sample('weft_process_resident_bytes', process.memoryUsage.rss())]
  } catch {
    return []
  }
}
