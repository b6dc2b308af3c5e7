/**
 * Commands of protocol v2 on a thread (docs/spec/protocol-v2.md): each has one answer, `success` or `error`, with HTTP
 * status 200; only a body that is not a command is 400. No process holds state of the protocol: a command reads what it
 * needs to know of earlier ones from the rows.
 */
import type { IValidation } from 'typia'
import { decodeAs, decodeJson, parseLarge } from '../../../bus/decode.js'
import { bytesHandler, type Context, jsonHandler } from '../../../bus/serve.js'
import { type ErrorCode, fail, WeftError } from '../../../schemas/errors.js'
import { jsonText, parseJson } from '../../../schemas/exact.js'
import { isObject, type JsonObject } from '../../../schemas/json.js'
import * as v2 from '../../../schemas/protocols/v2.js'
import { isTerminal, type RunCreate, type StreamMode, validateRunCreate } from '../../../schemas/runs.js'
import { seqOf } from '../../../schemas/thread-stream.js'
import type { Interrupt, ThreadState } from '../../../schemas/threads.js'
import type { ThreadRow } from '../../../store/rows/threads.js'
import { accessOf, sees } from '../access.js'
import { appOf } from '../apps.js'
import type { Deps } from '../context.js'
import { findRunnable, noAssistant } from '../rows/assistant.js'
import { requireCheckpoint } from '../rows/checkpoint.js'
import { requireThread } from '../rows/thread.js'
import { create } from '../runs/create.js'
import { targetOf } from '../runs/prepare.js'
import { graphIds } from '../state/ask-graph.js'
import { history, stateOf } from '../threads/state.js'
import { treeOf } from './v2-tree.js'

export const commands = (deps: Deps) => ({
  /** The validated filter of an event stream (docs/spec/protocol-v2.md#event-streams). */
  filter: jsonHandler<v2.EventsRequest>(v2.validateEventsRequest, body => ({ body: jsonText(askedOf(body)) })),
  command: bytesHandler(async (bytes, context) => {
    const command = readCommand(bytes, () => null)
    if (typeof command === 'string') return { head: { status: 400 }, body: command }
    return { body: (await answerOf(deps, command, context)).text }
  }),
  /** A command of a WebSocket: subscriptions are the edge's, the rest is as over HTTP. */
  socket_command: bytesHandler(async (bytes, context) => {
    const command = readCommand(bytes, idIn)
    if (typeof command === 'string') return { body: command }
    const order = Object.hasOwn(EDGE_ACTIONS, command.method) ? EDGE_ACTIONS[command.method]! : null
    if (order === null) {
      const { text, assistant_id } = await answerOf(deps, command, context)
      return { head: assistant_id === undefined ? {} : { assistant_id }, body: text }
    }
    try {
      return {
        head: { action: true as const },
        body: jsonText({ id: command.id, ...order(command.params ?? {}) }),
      }
    } catch (error) {
      return { body: v2.errorText(command.id, 'invalid_argument', (error as Error).message) }
    }
  }),
})

const EDGE_ACTIONS: { [method: string]: (params: JsonObject) => object } = {
  'subscription.subscribe': params => ({ subscribe: askedOf(checkParams(params, v2.validateEventsRequest)) }),
  'subscription.unsubscribe': params => ({ unsubscribe: checkParams(params, v2.validateUnsubscribe).subscription_id }),
}

/** The command, or the text of the error answer; `idOf` finds the id for it. */
function readCommand(bytes: Uint8Array, idOf: (bytes: Uint8Array) => number | null): v2.Command | string {
  try {
    return decodeAs(bytes, v2.validateCommand)
  } catch (error) {
    return v2.errorText(idOf(bytes), 'invalid_argument', (error as Error).message)
  }
}

/** The id of an invalid command, so that a socket can answer its sender; null when it is unreadable, too. */
function idIn(bytes: Uint8Array): number | null {
  try {
    const { id } = decodeJson(bytes) as { id?: unknown }
    return Number.isSafeInteger(id) && (id as number) >= 0 ? (id as number) : null
  } catch {
    return null
  }
}

function askedOf({ channels, namespaces, depth, since }: v2.EventsRequest): v2.EventsAsked {
  const unknown = v2.unknownChannel(channels)
  if (unknown !== undefined) throw fail('invalid', `channels: expected ${v2.CHANNELS_TEXT}, got ${jsonText(unknown)}`)
  return {
    filter: { channels, namespaces: namespaces?.length ? namespaces : null, depth: depth ?? null },
    from: since ?? 'current',
  }
}

type Handler = (deps: Deps, params: JsonObject, context: Context) => Promise<Done>

interface Done {
  result: object
  meta?: object
  /** The connection runs this assistant from now on. */
  assistant_id?: string
}

const HANDLERS: { [method: string]: Handler } = {
  'run.start': (deps, params, context) => runStart(deps, checkParams(params, v2.validateRunStart), context),
  'input.respond': (deps, params, context) => respond(deps, checkParams(params, v2.validateInputRespond), context),
  'state.get': (deps, params, context) => stateGet(deps, checkParams(params, v2.validateStateGet), context),
  'state.listCheckpoints': (deps, params, context) =>
    listCheckpoints(deps, checkParams(params, v2.validateListCheckpoints), context),
  'state.fork': (deps, params, context) => fork(deps, checkParams(params, v2.validateStateFork), context),
  'agent.getTree': (deps, params, context) => getTree(deps, checkParams(params, v2.validateGetTree), context),
}

/** Known commands that are not served here. */
const NOT_SUPPORTED: { [method: string]: string } = {
  'input.inject': 'A message cannot be put into a run that is under way',
  'subscription.subscribe': 'Over HTTP, an event stream is opened by POST …/stream/events',
  'subscription.unsubscribe': 'Over HTTP, an event stream ends with its connection',
  'subscription.reconnect': 'Subscribe again with `since` instead',
}

class CommandRefused extends Error {
  constructor(
    readonly code: v2.ProtocolError,
    message: string,
  ) {
    super(message)
  }
}

/** Another run answered the interrupt meanwhile: the command is evaluated again. */
class InterruptAnswered extends Error {}

interface Answer {
  text: string
  assistant_id?: string
}

async function answerOf(deps: Deps, { id, method, params }: v2.Command, context: Context): Promise<Answer> {
  try {
    if (Object.hasOwn(NOT_SUPPORTED, method)) throw new CommandRefused('not_supported', NOT_SUPPORTED[method]!)
    const handler = Object.hasOwn(HANDLERS, method) ? HANDLERS[method]! : null
    if (handler === null) throw new CommandRefused('unknown_command', `There is no command "${method}"`)
    const { result, meta, ...bound } = await handler(deps, params ?? {}, context)
    return { text: v2.successText(id, result, meta), ...bound }
  } catch (error) {
    if (error instanceof InterruptAnswered) return answerOf(deps, { id, method, params }, context)
    if (error instanceof CommandRefused) return { text: v2.errorText(id, error.code, error.message) }
    // The outcome is unknown: the edge repeats the call with the same run id.
    if (!(error instanceof WeftError) || error.code === 'unavailable' || error.code === 'internal') throw error
    return { text: v2.errorText(id, CODES[error.code] ?? 'unknown_error', error.message) }
  }
}

const CODES: { [code in ErrorCode]?: v2.ProtocolError } = {
  bad_request: 'invalid_argument',
  invalid: 'invalid_argument',
  not_found: 'invalid_argument',
  conflict: 'invalid_argument',
  unauthorized: 'permission_denied',
  forbidden: 'permission_denied',
}

function checkParams<T>(params: JsonObject, validate: (value: unknown) => IValidation<T>): T {
  return decodeAs(Buffer.from(jsonText(params)), validate)
}

// Runs.

const MODES: StreamMode[] = ['values', 'updates', 'messages-tuple', 'tools', 'custom', 'tasks', 'checkpoints']
const STRATEGIES: unknown[] = ['reject', 'rollback', 'interrupt', 'enqueue']

/** Options of every run of the protocol (docs/spec/protocol-v2.md#commands). */
const COMMON = { stream_mode: MODES, stream_subgraphs: true, stream_resumable: true, if_not_exists: 'create' } as const

/** With pending interrupts, the input of a run is the answer to them. A connection runs one assistant. */
async function runStart(deps: Deps, params: v2.RunStart, context: Context): Promise<Done> {
  const { input, config, metadata, langsmith_tracer, multitaskStrategy, multitask_strategy } = params
  const found = await findRunnable(deps.store, accessOf(context.head, 'assistants:read'), params.assistant_id)
  if (found === null) throw await noAssistant(deps.store, appOf(context.head), params.assistant_id)
  const { assistant_id } = found
  const { assistant_id: bound = assistant_id } = context.head
  if (bound !== assistant_id)
    throw new CommandRefused(
      'invalid_argument',
      `This connection is bound to assistant ${bound}: open another to run ${params.assistant_id} on the thread`,
    )
  const thread = await threadOf(deps, context)
  const strategy = multitask_strategy ?? multitaskStrategy
  const answered = input !== null && input !== undefined && thread !== null ? pendingOf(thread) : []
  const body: RunCreate = {
    ...COMMON,
    assistant_id,
    ...(answered.length > 0 ? { command: { resume: input } } : { input }),
    config,
    metadata,
    langsmith_tracer,
    checkpoint_id: (config?.configurable as JsonObject | undefined)?.checkpoint_id as string | undefined,
    multitask_strategy: STRATEGIES.includes(strategy) ? (strategy as RunCreate['multitask_strategy']) : 'enqueue',
  }
  const done = await start(deps, context, thread, body, answered)
  return { ...done, assistant_id }
}

async function respond(deps: Deps, params: v2.InputRespondOne | v2.InputRespondMany, context: Context): Promise<Done> {
  const thread = await threadOf(deps, context)
  const responses = 'responses' in params ? params.responses : [params]
  const pending = new Set(thread === null ? [] : pendingOf(thread))
  const unknown = responses.find(({ interrupt_id }) => !pending.has(interrupt_id))
  if (thread === null || (unknown !== undefined && !(await isRepeated(deps, context))))
    throw new CommandRefused('no_such_interrupt', `No interrupt ${unknown?.interrupt_id} is waiting on this thread`)
  const { update, goto, config, metadata } = params
  const answers = responses.map(({ interrupt_id, response }) => [interrupt_id, response ?? null] as const)
  const body: RunCreate = {
    ...COMMON,
    assistant_id: assistantOf(thread),
    command: {
      resume: Object.fromEntries(answers),
      ...(update ? { update } : {}),
      ...(goto ? { goto: goto as never } : {}),
    },
    config,
    metadata,
  }
  const answered = answers.map(([interrupt_id]) => interrupt_id)
  return start(deps, context, thread, body, answered)
}

async function fork(deps: Deps, { checkpoint_id, input, config }: v2.StateFork, context: Context): Promise<Done> {
  const thread = await threadOf(deps, context)
  const { thread_id = '' } = context.head.params ?? {}
  const refuse = (message: string) => new CommandRefused('no_such_checkpoint', message)
  if (thread === null) throw refuse(`Checkpoint ${checkpoint_id} not found on thread ${thread_id}`)
  await requireCheckpoint(deps.store, thread.thread_id, { checkpoint_id }, refuse)
  const assistant_id = assistantOf(thread)
  const done = await start(deps, context, thread, { ...COMMON, assistant_id, input, config, checkpoint_id })
  return { ...done, result: { ...done.result, thread_id: thread.thread_id } }
}

/**
 * The edge makes the id of the run, so that a repeated command starts no second run. `answered`: interrupts that only one
 * run may answer.
 */
async function start(
  deps: Deps,
  context: Context,
  thread: ThreadRow | null,
  body: RunCreate,
  answered: readonly string[] = [],
): Promise<Done> {
  const expects = (row: ThreadRow) => {
    const pending = answered.length > 0 ? pendingOf(row) : []
    if (answered.some(id => !pending.includes(id))) throw new InterruptAnswered()
  }
  const { head } = await create(deps, checkParams(body as never, validateRunCreate), targetOf(context.head), {
    expects,
  })
  const { run_id, thread_id } = head!.run!
  const idle = thread === null || (thread.active === null && thread.queue.length === 0)
  // All later events belong to this run: a stream that is opened now need not start with the run before.
  const applied_through_seq = idle ? endOf(thread?.claim_no ?? 0) : undefined
  return { result: { run_id }, meta: { thread_id, applied_through_seq } }
}

/** The last seq that a claim can have. */
const endOf = (claim_no: number): number => seqOf(0, { claim_no: claim_no + 1, attempt: 1 }) - 1

async function threadOf(
  { store }: Deps,
  { head }: Context,
  event: 'threads:create_run' | 'threads:read' = 'threads:create_run',
): Promise<ThreadRow | null> {
  const access = accessOf(head, event)
  const row = await store.threads.get(access.app, head.params?.thread_id?.toLowerCase() ?? '')
  if (row !== null && (row.temporary || !sees(access, row.metadata)))
    throw fail('not_found', `Thread with ID ${head.params?.thread_id} not found`)
  return row
}

/** A repeat of a command whose run exists. */
async function isRepeated({ store }: Deps, { head }: Context): Promise<boolean> {
  const run_id = head.run?.run_id
  return run_id !== undefined && (await store.runs.summary([run_id])).length > 0
}

/** Ids of the interrupts that wait for an answer; none while a run is under way. */
function pendingOf({ interrupts, active, queue }: ThreadRow): string[] {
  if (active !== null || queue.length > 0) return []
  const raised = Object.values(parseJson(interrupts) as { [task_id: string]: Interrupt[] })
  return raised.flat().map(({ id }) => id)
}

/** The assistant of the run that left the state, and raised the interrupt. */
function assistantOf(thread: ThreadRow): string {
  const { assistant_id, graph_id } = thread.left_by ?? graphIds(thread)
  const id = assistant_id ?? graph_id
  if (id === undefined) throw new CommandRefused('no_such_run', 'This thread has no runs')
  return id
}

// State.

async function stateGet(deps: Deps, { namespace, keys }: v2.StateGet, { head }: Context): Promise<Done> {
  const row = await requireThread(deps.store, accessOf(head, 'threads:read'), head.params?.thread_id ?? '')
  const checkpoint_ns = await namespaceOf(deps, row, namespace)
  const { values, checkpoint } = parseLarge<ThreadState>(await stateOf(deps, row, { checkpoint_ns }, false))
  const all = isObject(values) ? values : { values }
  const shown = keys ? Object.fromEntries(keys.filter(key => Object.hasOwn(all, key)).map(key => [key, all[key]])) : all
  const at = checkpoint?.checkpoint_id
  return { result: { values: shown, ...(at ? { checkpoint: { id: at, ns: checkpoint.checkpoint_ns ?? '' } } : {}) } }
}

async function listCheckpoints(deps: Deps, params: v2.ListCheckpoints, { head }: Context): Promise<Done> {
  const { namespace, limit, before } = params
  const row = await requireThread(deps.store, accessOf(head, 'threads:read'), head.params?.thread_id ?? '')
  const checkpoint = { checkpoint_ns: await namespaceOf(deps, row, namespace) }
  const text = await history(deps, row, { limit: limit ?? LISTED, before: before ?? null, checkpoint })
  const checkpoints = parseLarge<ThreadState[]>(text).map(({ checkpoint, created_at, metadata }) => ({
    id: checkpoint?.checkpoint_id,
    timestamp: created_at,
    step: metadata.step,
    metadata,
  }))
  return { result: { checkpoints } }
}

/** Default length of a list of checkpoints. */
const LISTED = 10

/** The checkpoint namespace of the store; throws when the subgraph never ran. */
async function namespaceOf({ store }: Deps, { thread_id }: ThreadRow, given: string[] | null | undefined) {
  const ns = (given ?? []).join('|')
  if (ns !== '' && (await store.checkpoints.get({ thread_id, ns })) === null)
    throw new CommandRefused('no_such_namespace', `There is no state in the namespace "${ns}"`)
  return ns
}

async function getTree(deps: Deps, { run_id }: v2.GetTree, context: Context): Promise<Done> {
  const thread = await threadOf(deps, context, 'threads:read')
  const last = thread === null ? undefined : await newestRun(deps, thread)
  const [run] = run_id ? await deps.store.runs.summary([run_id.toLowerCase()]) : [last]
  if (thread === null || run === undefined || run.thread_id !== thread.thread_id)
    throw new CommandRefused('no_such_run', run_id ? `No run ${run_id} on this thread` : 'This thread has no runs')
  const waits = run.run_id === last?.run_id && run.status === 'success' && thread.settled === 'interrupted'
  const status = !isTerminal(run.status)
    ? run.status === 'running'
      ? 'running'
      : 'started'
    : run.status === 'interrupted' || waits
      ? 'interrupted'
      : run.status === 'success'
        ? 'completed'
        : 'failed'
  return { result: { tree: await treeOf(deps, run, status) } }
}

async function newestRun({ store }: Deps, { thread_id }: ThreadRow) {
  const [run] = await store.runs.list({ thread_id, limit: 1 })
  return run
}
