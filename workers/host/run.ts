/**
 * One run in a slot, from its start frame to its finish frame. Every start gets exactly one finish, even if the run
 * lost its lease: then the finish is empty, and the supervisor, which has already removed the slot, ignores it.
 */

import pTimeout from 'p-timeout'
import type { StartHead } from '../../schemas/host.js'
import type { JsonObject } from '../../schemas/json.js'
import { CHUNK, FROM_HOST } from '../pipe.js'
import { finish, sendBare, settle } from './finish.js'
import { configOf, dropSelection, inputOf, isNewest } from './input.js'
import { hasTaskModes } from './library/library-versions.js'
import type { Graph, Library } from './library/types.js'
import { type Host, Refused, transportOf } from './port.js'
import { type Job, pump, writerOf } from './pump.js'
import { errorOf } from './render.js'
import type { RunState } from './run-state.js'
import { recordSpans } from './spans.js'
import { hostStore } from './storage/item-store.js'
import { memorySaver } from './storage/memory-saver.js'
import { createSaver } from './storage/saver.js'
import { runEvents } from './streaming/events.js'
import { lifecycleEvents } from './streaming/lifecycle.js'
import { modesOf } from './streaming/modes.js'
import { withCustomOrigins } from './streaming/origins/custom.js'
import { eventBuffer } from './streaming/stream.js'

/** Time for the library to settle after an abort. */
const UNWIND_MS = 1000
/**
 * Time for a node that ignores the abort. With the time above it leaves 1 s of the grace (graph/stopping.ts), after which
 * the supervisor kills the host and all its runs.
 */
const LINGER_MS = 3000

/** The abort reason that a cancelled graph finds in its AbortSignal. */
export class Stopped extends Error {
  override name = 'AbortError'
}

/** The same for a run that exceeded its timeout. */
class TimedOut extends Stopped {}

export interface Run {
  /** Aborts the run: it finishes as `interrupted`, or as `timeout`. */
  cancel(timeout: boolean): void
}

export interface RunOptions {
  slot: number
  /** Time of the last confirmation of its lease (monotonic). */
  confirmed_at: number
  /** Its parts are recorded. */
  recorded: boolean
  start: StartHead
  newest: Uint8Array
  /** Called after the finish frame is sent. */
  done(): void
}

/** Executes a run. */
export function startRun(host: Host, { slot, confirmed_at, recorded, start, newest, done }: RunOptions): Run {
  const abort = new AbortController()
  const events = eventBuffer({
    firstId: start.first_id,
    firstSeq: start.first_seq,
    send: (id, count, body, v2) =>
      host.send({ kind: FROM_HOST.chunk, flags: v2 ? CHUNK.v2 : 0, slot, id, count, body }),
    later: host.later,
  })
  const spans = recorded ? spansOf(host, slot, start, abort.signal) : null
  const run: RunState = {
    host,
    slot,
    start,
    abort,
    gate: host.gates.open(slot, confirmed_at, abort.signal, spans),
    events,
    v2: start.events ? runEvents(events, start.graph_id) : null,
    lifecycle: start.kwargs.stream_mode.includes('lifecycle') ? lifecycleEvents(events) : null,
    saver: null,
    graph: null,
    spans,
    values: null,
    paused: false,
    feedback: null,
    lost: false,
    broken: null,
    ended: false,
  }
  execute(run, newest)
    .catch(error => {
      console.error(error)
      return finish(run, { status: 'error', error: errorOf(error) })
    })
    .catch(error => {
      // Its finish failed. The supervisor drops a second one.
      console.error(error)
      sendBare(host, slot, error, events.lastId())
    })
    .finally(() => {
      run.gate.close()
      done()
    })
  return {
    cancel: timeout =>
      abort.abort(
        timeout ? new TimedOut('The time limit of the run was reached') : new Stopped('The run was cancelled'),
      ),
  }
}

async function execute(run: RunState, newest: Uint8Array): Promise<void> {
  let failed: { error: unknown } | null = null
  try {
    announce(run)
    const job = await prepare(run, newest)
    await unlessStopped(run, pump(run, job))
    if (run.start.kwargs.feedback_keys?.length) await unlessStopped(run, sendFeedbackUrls(run))
  } catch (error) {
    failed = { error: run.broken?.error ?? error }
  }
  const nodes = run.abort.signal.aborted ? nodesEnded(run) : null
  // The next attempt of a lost run has started already.
  if (run.lost) return finish(run, { status: 'interrupted' })
  if (failed === null) return settle(run, { status: 'success' })
  if (run.abort.signal.aborted && run.broken === null) {
    await nodes
    if (!(run.abort.signal.reason instanceof TimedOut)) return settle(run, { status: 'interrupted' })
    return settle(run, { status: 'timeout', error: { error: 'RunTimeout', message: 'The run took too long' } })
  }
  return settle(run, { status: 'error', error: errorOf(failed.error), thrown: failed.error })
}

/** The first event of each attempt has exactly these keys (docs/spec/streams.md#format). */
function announce({ events, v2, start: { run_id, attempt } }: RunState): void {
  events.push('metadata', JSON.stringify({ run_id, attempt }))
  v2?.start()
}

/** Where feedback about the run may be given; the graph has ended without an error. */
async function sendFeedbackUrls(run: RunState): Promise<void> {
  const { run_id, kwargs } = run.start
  run.feedback = await run.host.application.langsmith.feedbackUrls(run_id, kwargs.feedback_keys!)
  if (run.feedback !== null) run.events.push('feedback', JSON.stringify(run.feedback))
}

/** Returns the graph with a checkpointer of this run, its input and its options. */
async function prepare(run: RunState, newest: Uint8Array): Promise<Job> {
  const { host, start, abort } = run
  const { kwargs, graph_id, thread_id, attempt } = start
  const { library, graphs, execution } = host.application
  const graphOf = graphs.get(graph_id)
  if (library === null || graphOf === undefined) throw new Error(`Graph "${graph_id}" is not loaded.`)
  const config = configOf(start, execution)
  const graph = await graphOf(config, {
    accessContext: 'threads.create_run',
    executionRuntime: { context: config.context },
  })
  const isGuarded = host.gates.guard(graph)
  const saver = saverOf(run, library, newest, config.metadata)
  run.graph = withSaver(graph, saver, hostStore(library, host, run.slot))
  const tuple = async (place: JsonObject = {}) => saver.getTuple({ configurable: { thread_id, ...place } })
  let input: unknown
  if (attempt > 1 && newest.length > 0 && isOwn(await tuple(), start)) {
    input = null
    dropSelection(config.configurable)
  } else {
    const newestOf = async (ns: string) => (ns === '' ? run.saver!.head() : idOf(await tuple({ checkpoint_ns: ns })))
    if (run.saver === null || (await isNewest(config.configurable, newestOf))) dropSelection(config.configurable)
    const { checkpoint_id, checkpoint_ns } = config.configurable
    const place = checkpoint_id && !checkpoint_ns ? { checkpoint_id } : {}
    input = await inputOf(kwargs, library, async () => pendingOf((await tuple(place))?.pendingWrites))
  }
  const modes = modesOf({
    requested: kwargs.stream_mode,
    subgraphs: kwargs.stream_subgraphs,
    task_modes: hasTaskModes(execution.langgraph_version),
    events: run.events,
    v2: run.v2,
    lifecycle: run.lifecycle,
    onCheckpoint: kwargs.resumable && !kwargs.temporary && run.v2 === null ? id => reportCheckpoint(run, id) : null,
  })
  const options: JsonObject = {
    ...config,
    signal: abort.signal,
    durability: kwargs.durability,
    subgraphs: kwargs.stream_subgraphs || run.lifecycle !== null,
    streamMode: modes.direct ? ['values'] : modes.library,
  }
  if (modes.direct) options.writer = writerOf(run, modes, library)
  const tracer = config.configurable.langsmith_project
    ? await host.application.langsmith.tracerOf(config.configurable)
    : undefined
  const handlers = [modes.tools?.handler, isGuarded ? undefined : run.spans?.handlerOfRun(), tracer].filter(
    handler => handler !== undefined,
  )
  if (handlers.length > 0) options.callbacks = handlers
  const streamed = modes.custom_origins ? withCustomOrigins(run.graph, library) : run.graph
  return { graph: streamed, input, options, modes }
}

const reportCheckpoint = ({ host, slot, events }: RunState, id: string): void =>
  host.send({ kind: FROM_HOST.checkpoint, slot, id: events.lastId(), body: Buffer.from(id) })

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

const spansOf = (host: Host, slot: number, { graph_id, attempt, sealed = false }: StartHead, signal: AbortSignal) =>
  recordSpans({
    graph_id,
    attempt,
    send: spans => host.send({ kind: FROM_HOST.spans, slot, body: Buffer.from(JSON.stringify(spans)) }),
    isStopped: () => signal.aborted,
    sealed,
  })

/** The user's graph stays unchanged, because runs of one graph overlap. Subgraphs inherit through the library. */
export function withSaver(graph: Graph, saver: unknown, store?: object): Graph {
  const member = (value: unknown) => ({ value, writable: true, enumerable: true, configurable: true })
  return Object.create(graph, { checkpointer: member(saver), ...(store === undefined ? {} : { store: member(store) }) })
}

/** Checkpoints do not store identities. */
const checkpointMetadata = (metadata: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(metadata).filter(([key]) => !key.startsWith('langgraph_auth_')))

const isOwn = (tuple: { metadata?: unknown } | undefined, { run_id }: StartHead): boolean =>
  (tuple?.metadata as JsonObject | undefined)?.run_id === run_id

const idOf = (tuple: { config: { configurable?: JsonObject } } | undefined): string | null =>
  (tuple?.config.configurable?.checkpoint_id as string | undefined) ?? null

/** Writes that a task leaves without having finished. */
const UNFINISHED = new Set(['__interrupt__', '__resume__', '__error__', '__error_source_node__'])

/** Ids of the pending interrupts of a checkpoint: those of tasks that have not finished. */
function pendingOf(writes: readonly [string, string, unknown][] = []): string[] {
  const finished = new Set(writes.filter(([, channel]) => !UNFINISHED.has(channel)).map(([task]) => task))
  return writes
    .filter(([task, channel]) => channel === '__interrupt__' && !finished.has(task))
    .flatMap(([, , value]) => value as { id?: string }[])
    .flatMap(({ id }) => id ?? [])
}

/**
 * Waits until no node of a stopped run executes, at most LINGER_MS: the thread, and with it its next run, waits until
 * then. A node that ignores `config.signal` for longer may execute beside the next run, but it can no longer store
 * anything. The log names the graph, the run and the thread.
 */
async function nodesEnded({ gate, start: { run_id, thread_id, graph_id } }: RunState): Promise<void> {
  const stopped_at = performance.now()
  const idle = gate.idle()
  const hasEnded = idle.then(() => true)
  if (await pTimeout(hasEnded, { milliseconds: LINGER_MS, fallback: () => false })) return
  const place = `graph ${graph_id}, run ${run_id}, thread ${thread_id}`
  console.warn(`A node ignores config.signal and still executes although its run was stopped (${place}).`)
  void idle.then(() =>
    console.warn(`That node has ended after ${Math.round(performance.now() - stopped_at)} ms (${place}).`),
  )
}

/** The library usually settles soon after the abort. If it does not, the run ends without it. */
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
