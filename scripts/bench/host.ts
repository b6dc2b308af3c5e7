/**
 * The peer `host`: one graph host over its pipe, with the bench as its supervisor and without a server: what a host itself
 * costs, compared with the library alone. Every run is checked: its end, its values, the ids of its events.
 */
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { v7 } from 'uuid'
import type { FinishHead, StartHead } from '../../schemas/host.js'
import { pack, unpack } from '../../schemas/packed.js'
import { programOf } from '../../workers/child/languages.js'
import { type Child, startChild } from '../../workers/child/start.js'
import { FROM_HOST, type Frame, monotonicMs, TO_HOST } from '../../workers/pipe.js'
import { type Budget, budgetMeter } from './budget.js'
import { type Spread, spreadOf } from './load.js'
import type { HostKind } from './scenario.js'
import { plainEnv } from './server.js'
import { check, shown } from './wrong.js'

/** The runs of a kind, and the expected answers. */
interface Work {
  graph_id: string
  input: { [name: string]: unknown }
  mode: StartHead['kwargs']['stream_mode'][number]
  /** Runs at the same time. */
  runs: number
  /** Events beside `metadata`. */
  events: number
  /** The figure: runs, or events. */
  counts: 'runs' | 'events'
}

interface Run {
  since: number
  text: string | undefined
  /** When the first event with data came. */
  first: number | null
  /** The id that comes next. */
  next: number
}

export interface HostOrder {
  kind: HostKind
  warm: number
  seconds: number
  quick: boolean
  /** Folder of the application. */
  app: string
  /** Its interpreter, if it is in Python. */
  python: string | null
}

export interface HostAnswer {
  perSecond: number
  latency: Spread
  count: number
  budget: Budget
}

const CHUNKS = 1_000
const TOKENS = 100
const HOST_MB = 4_096
/** After this time the start no longer affects the usage. */
const SETTLE_MS = 3_000

function workOf(kind: HostKind, n: number): Work {
  const echo = { graph_id: 'echo', input: { text: `text ${n}` }, counts: 'runs' } as const
  switch (kind) {
    case 'invoke':
      return { ...echo, mode: 'values', runs: 64, events: 2 }
    case 'first-event':
      return { ...echo, mode: 'updates', runs: 1, events: 1 }
    case 'first-event-16':
      return { ...echo, mode: 'updates', runs: 16, events: 1 }
    case 'tokens': {
      const input = { messages: [{ role: 'user', content: `${TOKENS}` }] }
      return { graph_id: 'chat', input, mode: 'messages-tuple', runs: 16, events: TOKENS, counts: 'events' }
    }
    case 'custom':
      return {
        graph_id: 'custom',
        input: { count: CHUNKS },
        mode: 'custom',
        runs: 50,
        events: CHUNKS,
        counts: 'events',
      }
    case 'waiting': {
      const input = { count: 1, start_ms: 600_000 }
      return { graph_id: 'custom', input, mode: 'custom', runs: 1_000, events: 1, counts: 'runs' }
    }
    case 'idle':
      return { ...echo, mode: 'values', runs: 0, events: 2 }
  }
}

/** Throws a Wrong for a wrong answer. */
export async function measureHost({ kind, warm, seconds, quick, python, app: folder }: HostOrder): Promise<HostAnswer> {
  const app = join(folder, 'langgraph.json')
  const env = plainEnv()
  const node = process.env.WEFT_NEWEST_NODE || process.execPath
  const program = programOf(python === null ? 'javascript' : 'python', {
    app,
    env,
    memory_mb: HOST_MB,
    node,
    python,
    threads: 256,
  })
  const running = new Map<number, Run>()
  const samples: number[] = []
  let fail: (error: Error) => void = () => {}
  const failed = new Promise<never>((_, reject) => (fail = reject))
  failed.catch(() => {})
  let greet: () => void = () => {}
  const greeted = new Promise<void>(resolve => (greet = resolve))
  let [n, units, isCounting, isOver] = [0, 0, false, false]

  const child: Child = startChild({
    program,
    name: 'graph host',
    app,
    env,
    user: null,
    sandbox: null,
    onFrame: takeFrame,
    onNote() {},
    onMalformed: fail,
    onError: fail,
    onExit: ({ tail }) => fail(new Error(`the host ended: ${tail}`)),
  })

  function takeFrame(frame: Frame): void {
    if (frame.kind === FROM_HOST.hello) return greet()
    const run = running.get(frame.slot)
    if (run === undefined) return
    try {
      if (frame.kind === FROM_HOST.chunk) takeChunk(run, frame)
      else if (frame.kind === FROM_HOST.finish) takeFinish(run, frame)
    } catch (error) {
      fail(error as Error)
    }
  }
  function takeChunk(run: Run, { id, count }: Frame): void {
    check(id === run.next, () => `event ${run.next} should have come, not ${id}`)
    run.next += count
    // The first event is `metadata`.
    if (run.next > 1) run.first ??= performance.now()
    if (isCounting && workOf(kind, 0).counts === 'events') units += count
  }
  function takeFinish(run: Run, { slot, body }: Frame): void {
    const { head, rest } = unpack<FinishHead>(body)
    const { events, counts } = workOf(kind, 0)
    check(head.status === 'success', () => `a run ended ${shown(head)}`)
    // Models of the Python library end with an empty chunk.
    const more = run.next - 1 - events
    check(head.last_event_id === run.next - 1 && (more === 0 || (more === 1 && kind === 'tokens')), () => {
      return `${run.next - 1} events came instead of ${events}`
    })
    if (run.text !== undefined) {
      const values = JSON.parse(Buffer.from(rest.subarray(0, head.values_size)).toString()) as { seen?: string }
      check(values.seen === run.text, () => `"${run.text}" should have come back: ${shown(values)}`)
    }
    running.delete(slot)
    if (isCounting) {
      if (counts === 'runs') units++
      samples.push((kind.startsWith('first-event') ? run.first! : performance.now()) - run.since)
    }
    if (!isOver) begin()
  }
  function begin(): void {
    const slot = ++n
    const { graph_id, input, mode } = workOf(kind, slot)
    const head: StartHead = {
      run_id: v7(),
      thread_id: v7(),
      graph_id,
      attempt: 1,
      first_id: 0,
      first_seq: 2 ** 24,
      metadata: { graph_id, assistant_id: graph_id },
      want_values: false,
      events: false,
      kwargs: {
        input: input as StartHead['kwargs']['input'],
        command: null,
        config: {},
        context: null,
        stream_mode: [mode],
        stream_subgraphs: false,
        resumable: false,
        durability: 'async',
        temporary: true,
        feedback_keys: null,
        interrupt_before: null,
        interrupt_after: null,
        webhook: null,
      },
    }
    running.set(slot, { since: performance.now(), text: input.text as string | undefined, first: null, next: 0 })
    child.send({ kind: TO_HOST.start, slot, id: monotonicMs(), body: pack(head) })
  }
  const confirm = () => {
    for (const slot of running.keys()) child.send({ kind: TO_HOST.confirm, slot, id: monotonicMs() })
  }
  const confirms = setInterval(confirm, 5_000)

  const meter = budgetMeter({ pids: () => [child.pid], data: null, monitor: null })
  try {
    await Promise.race([greeted, failed])
    const { runs } = workOf(kind, 0)
    for (let i = 0; i < runs; i++) begin()
    const isStill = kind === 'idle' || kind === 'waiting'
    await Promise.race([sleep(isStill && !quick ? SETTLE_MS : warm * 1000), failed])
    await meter.begin()
    const since = performance.now()
    isCounting = true
    await Promise.race([sleep(seconds * 1000), failed])
    isCounting = false
    const took = (performance.now() - since) / 1000
    await meter.end()
    if (kind === 'waiting') units = running.size
    isOver = true
    return { perSecond: units / took, latency: spreadOf(samples), count: units, budget: meter.budget()! }
  } finally {
    clearInterval(confirms)
    child.kill()
  }
}
