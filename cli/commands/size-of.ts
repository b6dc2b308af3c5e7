/**
 * How many processes, cores, bytes and messages a load needs: a pure function of the load and of what was measured
 * (docs/costs.json). It adds what each role spends on each part of the load. It knows nothing of the time that nodes wait for
 * models, which costs a slot and no CPU, unless the load says it.
 */

/** The cost of one operation. */
export interface RoleCosts {
  /** Microseconds of CPU by role: edge, nats, resources, graphs, host. */
  cpu_us: { readonly [role: string]: number }
  /** Messages that the broker receives, and their bytes. */
  messages: number
  message_bytes: number
}

export interface Costs {
  at: string
  machine: { cores: number; model: string; node: string; weft: string }
  /** A thread is created; a thread is read. */
  write: RoleCosts
  read: RoleCosts
  /** A run of one step without a thread, on a thread, and each further step with its checkpoint. */
  run: RoleCosts
  run_on_thread: RoleCosts
  checkpoint: RoleCosts
  /** One of a model, one that a graph writes, one of a resumable run. */
  token: RoleCosts
  chunk: RoleCosts
  stored_chunk: RoleCosts
  /** Bytes of memory by role for an open stream. */
  stream_bytes: { readonly [role: string]: number }
  /** Resident MB of one process under load. */
  memory_mb: { readonly [role: string]: number }
  /** Bytes of the embedded store: a thread, its run of one step, each further step, an item with 200 bytes. */
  stored_bytes: { thread: number; run: number; checkpoint: number; item: number }
}

export interface Load {
  /** A second. */
  reads: number
  writes: number
  runs: number
  /** Steps of a run; on a thread each has a checkpoint. */
  steps: number
  /** Share of the runs on threads, 0 to 1. */
  on_threads: number
  /** Seconds that a run lasts, and milliseconds of CPU that the nodes themselves need. */
  run_seconds: number
  run_cpu_ms: number
  /** Tokens of each run. */
  tokens: number
  chunks: number
  /** Share of the chunks that are stored, 0 to 1. */
  resumable: number
  /** Open at the same time, idle or not. */
  streams: number
  /** Rows that are kept. */
  threads: number
  stored_runs: number
  items: number
  store: 'sqlite' | 'mongo'
  /** Cores of one machine. */
  cores: number
  /** Share of a core that a process may use on average, 0 to 1. */
  utilisation: number
}

export interface RoleSize {
  role: string
  /** CPU seconds a second, before the utilisation. */
  busy: number
  processes: number
  memory_mb: number
  /** Why there are as many. */
  because: string
}

export interface Size {
  roles: RoleSize[]
  /** Cores at the given utilisation, and machines of the given size. */
  cores: number
  machines: number
  memory_mb: number
  /** Through the broker, a second. */
  messages: number
  message_mb: number
  stored_gb: number
  /** One sentence for each limit of a single part that the load exceeds. */
  beyond: string[]
}

/** The connections of an edge are 20,000 at most; half of them leave room when another edge restarts. */
const STREAMS_PER_EDGE = 10_000
/** Runs at the same time of a graph worker (`N_JOBS_PER_WORKER`), and of a graph host. */
const SLOTS = 1_000
const MB = 1024 * 1024

/** Throws a RangeError with one sentence when a number of the load is out of its range. */
export function sizeOf(load: Load, costs: Costs): Size {
  check(load)
  const parts: [count: number, costs: RoleCosts][] = [
    [load.reads, costs.read],
    [load.writes, costs.write],
    [load.runs * (1 - load.on_threads), costs.run],
    [load.runs * load.on_threads, costs.run_on_thread],
    [load.runs * (load.steps - 1), costs.checkpoint],
    [load.runs * load.tokens, costs.token],
    [load.runs * load.chunks * (1 - load.resumable), costs.chunk],
    [load.runs * load.chunks * load.resumable, costs.stored_chunk],
  ]
  const add = (of: (costs: RoleCosts) => number) => parts.reduce((sum, [count, one]) => sum + count * of(one), 0)
  const busyOf = (role: string) => add(({ cpu_us }) => cpu_us[role] ?? 0) / 1e6
  const single = (busy: number) => Math.max(1, Math.ceil(busy / load.utilisation))
  const role = (name: string, busy: number, processes: number, because: string): RoleSize => {
    const streams = ((costs.stream_bytes[name] ?? 0) * load.streams) / MB
    return { role: name, busy, processes, memory_mb: processes * (costs.memory_mb[name] ?? 0) + streams, because }
  }
  const most = (...reasons: [count: number, because: string][]): [number, string] =>
    reasons.reduce((best, one) => (one[0] > best[0] ? one : best))

  const edge = busyOf('edge')
  const resources = busyOf('resources')
  const graphs = busyOf('graphs')
  const host = busyOf('host') + (load.runs * load.run_cpu_ms) / 1_000
  const running = load.runs * load.run_seconds
  const hosts = most([single(host), 'CPU time'], [Math.ceil(running / SLOTS), `${SLOTS} runs at the same time each`])
  const perWorker = Math.max(1, load.cores - 1)
  const workers = most(
    [single(graphs), 'CPU time'],
    [Math.ceil(running / SLOTS), `${SLOTS} slots each`],
    [Math.ceil(hosts[0] / perWorker), `${perWorker} hosts each`],
  )
  const nats = busyOf('nats')
  const roles = [
    role(
      'edge',
      edge,
      ...most(
        [single(edge), 'CPU time'],
        [Math.ceil(load.streams / STREAMS_PER_EDGE), `${STREAMS_PER_EDGE} streams each`],
      ),
    ),
    role('nats', nats, 1, 'one server, or three with replicas'),
    load.store === 'sqlite'
      ? role('resources', resources, 1, 'the embedded store has one')
      : role('resources', resources, single(resources), 'CPU time'),
    role('graphs', graphs, ...workers),
    role('host', host, ...hosts),
  ]
  const messages = add(one => one.messages)
  const cores = roles.reduce((sum, { busy }) => sum + busy, 0) / load.utilisation
  return {
    roles,
    cores,
    machines: Math.max(1, Math.ceil(cores / load.cores)),
    memory_mb: roles.reduce((sum, { memory_mb }) => sum + memory_mb, 0),
    messages,
    message_mb: add(one => one.message_bytes) / MB,
    stored_gb: storedBytes(load, costs) / 1024 ** 3,
    beyond: beyond(load, { resources, nats }),
  }
}

const storedBytes = ({ threads, stored_runs, items, steps }: Load, { stored_bytes }: Costs): number =>
  threads * stored_bytes.thread +
  stored_runs * (stored_bytes.run + (steps - 1) * stored_bytes.checkpoint) +
  items * stored_bytes.item

function beyond(
  { store, utilisation, cores }: Load,
  { resources, nats }: { resources: number; nats: number },
): string[] {
  const found: string[] = []
  if (store === 'sqlite' && resources > utilisation)
    found.push('The embedded store has one resource worker, which this load fills: use MongoDB and several.')
  if (nats > utilisation * cores)
    found.push('The broker alone fills a machine: give it more cores, or divide the applications among clusters.')
  return found
}

const SHARES = ['on_threads', 'resumable'] as const

function check(load: Load): void {
  for (const [name, value] of Object.entries(load))
    if (typeof value === 'number' && !(value >= 0 && Number.isFinite(value)))
      throw new RangeError(`${name} is ${value}: expected a number from 0`)
  for (const name of SHARES)
    if (load[name] > 1) throw new RangeError(`${name} is ${load[name]}: expected a share from 0 to 1`)
  if (!(load.utilisation > 0 && load.utilisation <= 1))
    throw new RangeError(`utilisation is ${load.utilisation}: expected a share above 0, at most 1`)
  for (const name of ['steps', 'cores'] as const)
    if (load[name] < 1) throw new RangeError(`${name} is ${load[name]}: expected a number from 1`)
}
