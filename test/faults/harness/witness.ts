/** Reads what the graph `witness` of test/apps/faults has written, and what must be true of it. */
import { existsSync, readFileSync } from 'node:fs'

export interface Begin {
  run_id: string
  thread_id: string
  attempt: number
  step: number
  pid: number
  /** Nanoseconds of the machine's monotonic clock. */
  at: bigint
  /** When the node ended; null: its process was killed before. */
  ended: bigint | null
  key: string
}

/** The nodes that have begun, in the order of the file. */
export function begunIn(file: string): Begin[] {
  if (!existsSync(file)) return []
  const all: Begin[] = []
  const open = new Map<string, Begin>()
  for (const line of readFileSync(file, 'utf8').split('\n')) {
    const [mark, run_id = '', thread_id = '', attempt, step, pid, at, key = ''] = line.split(' ')
    if (at === undefined) continue
    const id = [run_id, attempt, step, pid].join(' ')
    const one = { run_id, thread_id, attempt: Number(attempt), step: Number(step), pid: Number(pid) }
    if (mark === 'B') {
      const begin: Begin = { ...one, at: BigInt(at), ended: null, key }
      all.push(begin)
      open.set(id, begin)
    } else {
      const begin = open.get(id)
      if (begin !== undefined) begin.ended = BigInt(at)
    }
  }
  return all
}

/** The nodes by the key of their run's input, each in the order of time. */
export function byKey(all: readonly Begin[]): Map<string, Begin[]> {
  const found = grouped(all, ({ key }) => key)
  for (const nodes of found.values()) nodes.sort((a, b) => (a.at < b.at ? -1 : 1))
  return found
}

/**
 * The defect of the executions of one run; null: none. Each attempt continues where the one before it stopped.
 * With `sync` only the step that was in progress may run again; otherwise also steps whose checkpoint was on its way.
 */
export function wrongExecution(
  nodes: readonly Begin[],
  { steps, sync }: { steps: number; sync: boolean },
): string | null {
  const attempts = [...grouped(nodes, ({ attempt }) => attempt)].sort(([a], [b]) => a - b)
  const said = attempts
    .map(([attempt, all]) => `attempt ${attempt}: ${all.map(({ step }) => step).join(' ')}`)
    .join('; ')
  let last = 0
  for (const [i, [, all]] of attempts.entries()) {
    const taken = attempts[i + 1]?.[1][0]?.at
    if (taken !== undefined && all.at(-1)!.at > taken) return `an old attempt went on beside the new one (${said})`
    const first = all[0]!.step
    if (first > last + 1 || (sync && first < last)) return `continued at step ${first} after step ${last} (${said})`
    for (const [n, { step }] of all.entries()) if (step !== first + n) return `steps out of order (${said})`
    last = all.at(-1)!.step
  }
  return last === steps ? null : `stopped at step ${last} of ${steps} (${said})`
}

/**
 * Nodes that began after their attempt was over: a later attempt of their run had begun a node, or a later run of their
 * thread. A node that began before may execute beside them (docs/promises.md).
 */
export function lateNodes(all: readonly Begin[]): Begin[] {
  const late: Begin[] = []
  for (const nodes of grouped(all, one => one.thread_id).values()) {
    nodes.sort((a, b) => (a.at < b.at ? -1 : 1))
    const over = new Set<string>()
    let current = ''
    for (const node of nodes) {
      const attempt = `${node.run_id} ${node.attempt}`
      if (over.has(attempt)) late.push(node)
      else if (attempt !== current) {
        over.add(current)
        current = attempt
      }
    }
  }
  return late
}

/** Pairs of nodes of different runs that executed on a thread at the same time. */
export function overlaps(all: readonly Begin[]): string[] {
  const found: string[] = []
  for (const [thread_id, nodes] of grouped(all, one => one.thread_id)) {
    nodes.sort((a, b) => (a.at < b.at ? -1 : 1))
    let latest: Begin | null = null
    for (const node of nodes) {
      if (latest !== null && latest.run_id !== node.run_id && latest.ended! > node.at)
        found.push(`thread ${thread_id}: ${node.run_id} began while ${latest.run_id} executed`)
      if (node.ended !== null && (latest === null || node.ended > latest.ended!)) latest = node
    }
  }
  return found
}

/**
 * The longest time between the beginnings of two nodes of one run, the second in a later attempt (ms). Where attempts are
 * left out, their workers were killed before their first node: that time is shared by the take-overs.
 */
export function longestTakeover(runs: Iterable<readonly Begin[]>): number {
  let longest = 0
  for (const nodes of runs)
    for (const [i, { at, attempt }] of nodes.entries()) {
      const before = nodes[i - 1]
      const takeovers = before === undefined ? 0 : attempt - before.attempt
      if (takeovers > 0) longest = Math.max(longest, Number(at - before!.at) / 1e6 / takeovers)
    }
  return longest
}

function grouped<T, K>(all: readonly T[], keyOf: (one: T) => K): Map<K, T[]> {
  const found = new Map<K, T[]>()
  for (const one of all) {
    const group = found.get(keyOf(one))
    if (group === undefined) found.set(keyOf(one), [one])
    else group.push(one)
  }
  return found
}
