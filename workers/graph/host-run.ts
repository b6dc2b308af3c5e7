/**
 * One run in a slot, from its start frame to its finish frame. Every start gets exactly one finish, also when the run
 * lost its authority: then the finish is empty and the supervisor, which no longer knows the slot, drops it.
 */
import type { JsonObject } from '../../schemas/assistants.js'
import type { Graph } from './application.js'
import { FROM_HOST } from './frames.js'
import { finish, settle } from './host-finish.js'
import { configOf, dropSelection, inputOf } from './host-input.js'
import { type Host, Refused, transportOf } from './host-port.js'
import { type EventBuffer, eventBuffer, eventsOf } from './host-stream.js'
import type { Library } from './loading.js'
import { memorySaver } from './memory-saver.js'
import type { StartHead } from './protocol.js'
import { errorOf, render } from './render.js'
import { createSaver, type WeftSaver } from './saver.js'

/** How long a stopped run may take to unwind before its slot is given back without it. */
const UNWIND_MS = 1000

/** The reason that a cancelled graph sees in its AbortSignal. */
export class Stopped extends Error {
  override name = 'AbortError'
}

/** The same, because its time was up. */
class TimedOut extends Stopped {}

export interface Run {
  /** Aborts it: it finishes as `interrupted`, or as `timeout`. */
  cancel(timeout: boolean): void
}

export interface RunState {
  host: Host
  slot: number
  start: StartHead
  abort: AbortController
  events: EventBuffer
  /** Null for a temporary run. */
  saver: WeftSaver | null
  graph: Graph | null
  /** The last values that the graph yielded. */
  values: { last: unknown } | null
  /** The graph yielded an interrupt: the state tells which. */
  paused: boolean
  /** A later attempt holds the run. */
  lost: boolean
  /** Why a save failed. */
  broken: { error: unknown } | null
  over: boolean
}

/** Executes a run; `done` is called when its finish has been sent. */
export function startRun(host: Host, slot: number, start: StartHead, newest: Uint8Array, done: () => void): Run {
  const abort = new AbortController()
  const events = eventBuffer(
    start.first_id,
    (id, count, body) => host.send({ kind: FROM_HOST.chunk, slot, id, count, body }),
    host.later,
  )
  const run: RunState = {
    host,
    slot,
    start,
    abort,
    events,
    saver: null,
    graph: null,
    values: null,
    paused: false,
    lost: false,
    broken: null,
    over: false,
  }
  execute(run, newest)
    .catch(error => {
      console.error(error)
      return finish(run, { status: 'error', error: errorOf(error) })
    })
    .finally(done)
  return {
    cancel: timeout =>
      abort.abort(timeout ? new TimedOut('The time of the run is up') : new Stopped('The run was cancelled')),
  }
}

async function execute(run: RunState, newest: Uint8Array): Promise<void> {
  let failed: { error: unknown } | null = null
  try {
    announce(run)
    const job = await prepare(run, newest)
    await unlessStopped(run, pump(run, job))
  } catch (error) {
    failed = { error: run.broken?.error ?? error }
  }
  if (run.lost) return finish(run, { status: 'interrupted' })
  if (failed === null) return settle(run, { status: 'success' })
  if (run.abort.signal.aborted && run.broken === null) {
    if (!(run.abort.signal.reason instanceof TimedOut)) return settle(run, { status: 'interrupted' })
    return settle(run, { status: 'timeout', error: { error: 'RunTimeout', message: 'The run took too long' } })
  }
  return settle(run, { status: 'error', error: errorOf(failed.error) })
}

/** API: metadata is the first event of each attempt, with exactly these keys. */
function announce({ events, start: { run_id, attempt } }: RunState): void {
  events.push('metadata', JSON.stringify({ run_id, attempt }))
}

interface Job {
  graph: Graph
  input: unknown
  options: JsonObject
  events: Map<string, string>
}

/** The graph with a checkpointer of this run, its input and its options. */
async function prepare(run: RunState, newest: Uint8Array): Promise<Job> {
  const { host, start, abort } = run
  const { kwargs, graph_id, thread_id, attempt } = start
  const { library, graphs } = host.application
  const graphOf = graphs.get(graph_id)
  if (library === null || graphOf === undefined) throw new Error(`Graph "${graph_id}" is not loaded.`)
  const config = configOf(start)
  const graph = await graphOf(config)
  const saver = saverOf(run, library, newest, config.metadata)
  run.graph = withSaver(graph, saver)
  const tuple = async () => saver.getTuple({ configurable: { thread_id } })
  let input: unknown
  if (attempt > 1 && newest.length > 0 && isOwn(await tuple(), start)) {
    input = null
    dropSelection(config.configurable)
  } else {
    input = await inputOf(kwargs, library, async () => pendingOf((await tuple())?.pendingWrites))
    // The newest checkpoint, named by a client, is no fork (API: checkpoint selection).
    const { checkpoint_id, checkpoint_ns } = config.configurable
    if (checkpoint_id !== undefined && !checkpoint_ns && checkpoint_id === run.saver?.head())
      dropSelection(config.configurable)
  }
  const events = eventsOf(kwargs.stream_mode)
  const alone = events.size === 1 && events.has('custom')
  const options: JsonObject = {
    ...config,
    signal: abort.signal,
    durability: kwargs.durability,
    subgraphs: kwargs.stream_subgraphs,
    streamMode: alone || events.size === 0 ? ['values'] : [...events.keys()],
  }
  // With no other mode to keep order with, chunks go straight to the buffer: 10 × the rate of the iterator.
  if (alone) options.writer = writerOf(run, library)
  return { graph: run.graph, input, options, events: alone ? new Map() : events }
}

function saverOf(run: RunState, library: Library, newest: Uint8Array, metadata: JsonObject) {
  const { kwargs, thread_id, first_seq } = run.start
  if (kwargs.temporary) return memorySaver(library, metadata)
  let seq = first_seq
  run.saver = createSaver(library, {
    transport: transportOf(run.host, run.slot),
    durability: kwargs.durability,
    nextSeq: () => seq++,
    thread_id,
    newest,
    metadata: checkpointMetadata(metadata),
    failed(error) {
      if (error instanceof Refused) run.lost = true
      else run.broken = { error }
      run.abort.abort(error)
    },
  })
  return run.saver
}

/** The user's graph stays untouched: runs of one graph overlap. Subgraphs inherit through the library. */
export function withSaver(graph: Graph, value: unknown): Graph {
  return Object.create(graph, { checkpointer: { value, writable: true, enumerable: true, configurable: true } })
}

/** Identities are not stored with each checkpoint. */
const checkpointMetadata = (metadata: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(metadata).filter(([key]) => !key.startsWith('langgraph_auth_')))

const isOwn = (tuple: { metadata?: unknown } | undefined, { run_id }: StartHead): boolean =>
  (tuple?.metadata as JsonObject | undefined)?.run_id === run_id

/** Ids of the interrupts that wait in a checkpoint. */
const pendingOf = (writes: readonly [string, string, unknown][] | undefined): string[] =>
  (writes ?? [])
    .filter(([, channel]) => channel === '__interrupt__')
    .flatMap(([, , value]) => value as { id?: string }[])
    .flatMap(({ id }) => id ?? [])

function writerOf(run: RunState, library: Library): (chunk: unknown) => void {
  const { events, start } = run
  if (!start.kwargs.stream_subgraphs)
    return chunk => {
      if (!run.over) events.push('custom', render(chunk))
    }
  return chunk => {
    const ns = library.getConfig()?.configurable?.checkpoint_ns?.split('|').slice(0, -1) ?? []
    if (!run.over) events.push(nameOf('custom', ns), render(chunk))
  }
}

/** API: the namespace follows the name; root events have the bare name. */
const nameOf = (event: string, ns: readonly string[]): string =>
  ns.length === 0 ? event : `${event}|${ns.join('|').replace(/[\r\n]/g, ' ')}`

async function pump(run: RunState, { graph, input, options, events }: Job): Promise<void> {
  const subgraphs = options.subgraphs === true
  for await (const chunk of await streamOf(graph, input, options)) {
    if (run.over) return
    const [ns, mode, payload] = (subgraphs ? chunk : [[], ...(chunk as unknown[])]) as [string[], string, unknown]
    if (mode === 'values' && ns.length === 0) {
      if (isInterrupt(payload)) run.paused = true
      else run.values = { last: payload }
    }
    const event = events.get(mode)
    if (event === undefined) continue
    run.events.push(nameOf(event, ns), render(mode === 'updates' ? withNulls(payload) : payload))
    const full = run.host.drained()
    if (full !== null) await full
  }
}

/**
 * The generator under `stream`, which only wraps it into two more streams: 1.25 × the runs and 3 × the chunks per
 * second (172,000 against 55,000). It is the method that every Runnable overrides, so it has been there from the
 * start; a graph without it takes the usual way.
 */
function streamOf(graph: Graph, input: unknown, options: JsonObject) {
  return graph._streamIterator?.(input, options) ?? graph.stream(input, options)
}

const isInterrupt = (payload: unknown): boolean =>
  typeof payload === 'object' && payload !== null && '__interrupt__' in payload

/** A node without writes is `{node: null}` (API: event catalogue). */
function withNulls(payload: unknown): unknown {
  if (typeof payload !== 'object' || payload === null) return payload
  const updates = payload as JsonObject
  return Object.values(updates).includes(undefined)
    ? Object.fromEntries(Object.entries(updates).map(([node, update]) => [node, update ?? null]))
    : payload
}

/** A node that ignores its signal does not hold the slot. */
async function unlessStopped(run: RunState, work: Promise<void>): Promise<void> {
  const { signal } = run.abort
  let stop = () => {}
  let timer: NodeJS.Timeout | undefined
  const stopped = new Promise<void>((_, reject) => {
    stop = () => {
      timer = setTimeout(() => reject(signal.reason), UNWIND_MS)
    }
    signal.addEventListener('abort', stop, { once: true })
  })
  work.catch(() => {})
  try {
    if (signal.aborted) stop()
    await Promise.race([work, stopped])
    signal.throwIfAborted()
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', stop)
  }
}
