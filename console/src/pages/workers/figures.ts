/** The samples of `/metrics?format=json` as figures of pools, processes and the store. */
export interface Sample {
  name: string
  labels?: { [label: string]: string }
  value?: number
}

/** A graph host: a process with code of the application. */
export interface Host {
  worker: string
  pool: string
  pid: number
  runs: number
  loop_delay_seconds: number
  /** For how long one run holds its event loop now. */
  held_seconds: number
  /** That run; null: none, or one that the caller may not see. */
  run: { run_id: string; thread_id: string; graph_id: string } | null
}

export interface Metrics {
  samples: Sample[]
  hosts: Host[]
  /** The process that answers. */
  edge?: string
}

export interface Pool {
  pool: string
  waiting: number
  /** Seconds. */
  oldest: number
  redelivered: number
  running: number
  slots: number
  hosts: number
}

/** A process of Weft, which may have several roles. */
export interface Worker {
  /** `host.pid`. */
  process: string
  roles: string[]
  /** The version of Weft; '' when it does not say. */
  version: string
  /** Runs; null for roles that execute none. */
  running: number | null
  /** Bytes. */
  memory: number
  /** Seconds. */
  cpu: number
  /** Seconds. */
  delay: number
  /** The most delayed first. */
  hosts: Host[]
}

export interface Figures {
  pools: Pool[]
  workers: Worker[]
  /** Bytes and seconds. */
  store: { takeovers: number; bytes: number; free: number | null; ping: number }
}

export function figuresOf({ samples, hosts, edge = 'this one' }: Metrics): Figures {
  const values = (name: string, labels: { [label: string]: string | undefined } = {}): number[] =>
    samples
      .filter(
        one => one.name === name && Object.entries(labels).every(([label, value]) => one.labels?.[label] === value),
      )
      .map(({ value }) => value ?? 0)
  const sum = (...asked: Parameters<typeof values>) => values(...asked).reduce((all, one) => all + one, 0)
  const max = (...asked: Parameters<typeof values>) => Math.max(0, ...values(...asked))
  const free = values('weft_disk_free_bytes')
  const pools = [...new Set(samples.flatMap(({ labels }) => labels?.pool ?? []))].sort()
  return {
    pools: pools.map(pool => ({
      pool,
      waiting: sum('weft_queue_waiting', { pool }),
      oldest: max('weft_queue_oldest_seconds', { pool }),
      redelivered: sum('weft_queue_redelivered', { pool }),
      running: sum('weft_pool_running', { pool }),
      slots: sum('weft_pool_slots', { pool }),
      hosts: sum('weft_hosts', { pool }),
    })),
    workers: processesOf(samples, hosts, edge),
    store: {
      takeovers: sum('weft_run_takeovers_total'),
      bytes: max('weft_store_bytes'),
      free: free.length === 0 ? null : Math.min(...free),
      ping: max('weft_store_ping_seconds'),
    },
  }
}

/** Every role of a process tells the memory of the whole process. */
function processesOf(samples: Sample[], hosts: Host[], edge: string): Worker[] {
  const nameOf = ({ worker, pool }: { [label: string]: string }): string =>
    worker === undefined ? edge : processOf(worker, pool)
  const own = samples.filter(({ labels }) => labels?.role !== undefined)
  const names = [...new Set(own.filter(({ name }) => name === 'weft_up').map(({ labels }) => nameOf(labels!)))]
  return names.map(process => {
    const mine = own.filter(({ labels }) => nameOf(labels!) === process)
    const values = (name: string, percentile?: string) =>
      mine
        .filter(one => one.name === name && (percentile === undefined || one.labels!.percentile === percentile))
        .map(({ value }) => value ?? 0)
    const max = (...asked: Parameters<typeof values>) => Math.max(0, ...values(...asked))
    const running = values('weft_pool_running')
    return {
      process,
      roles: [...new Set(mine.map(({ labels }) => labels!.role!))].sort(),
      version: mine.find(({ name }) => name === 'weft_build_info')?.labels?.version ?? '',
      running: running.length === 0 ? null : running.reduce((all, one) => all + one, 0),
      memory: max('weft_process_resident_bytes'),
      cpu: max('weft_process_cpu_seconds_total'),
      delay: max('weft_event_loop_delay_seconds', '99'),
      hosts: hosts
        .filter(({ worker, pool }) => processOf(worker, pool) === process)
        .toSorted((a, b) => b.loop_delay_seconds - a.loop_delay_seconds),
    }
  })
}

/** A graph worker has its pool behind the name of its process. */
const processOf = (worker: string, pool: string | undefined): string =>
  pool !== undefined && worker.endsWith(`.${pool}`) ? worker.slice(0, -pool.length - 1) : worker

const UNITS = ['B', 'KB', 'MB', 'GB', 'TB']

export function bytesText(bytes: number): string {
  let value = bytes
  let unit = 0
  while (value >= 1_000 && unit < UNITS.length - 1) {
    value /= 1_000
    unit++
  }
  return `${value < 10 && unit > 0 ? value.toFixed(1) : Math.round(value)} ${UNITS[unit]}`
}
