/**
 * Creating a run. Accepted = its row is stored durably and the thread row has taken it; the wake-up comes after.
 * Order of checks: API threads-and-runs 8.1. Repeatable by run id: a repeated create answers the stored run.
 */
import { v7 } from 'uuid'
import { wake } from '../bus/queue.js'
import type { Context, Reply } from '../bus/serve.js'
import type { Config as RunConfig, JsonObject } from '../schemas/assistants.js'
import { fail } from '../schemas/errors.js'
import { BUILT_IN_APP, token } from '../schemas/ids.js'
import type { Durability, RunCreate, RunHead, RunKwargs, RunMode, StreamMode } from '../schemas/runs.js'
import type { AssistantRow, Queued, RunRow, RunSummary, Step, ThreadRow } from '../store/port.js'
import { runText } from './answers.js'
import { find } from './assistants.js'
import { isObject, merge, type Tools } from './context.js'
import { newThread } from './threads.js'

/** A thread queues at most so many runs; the next is refused with 429. */
const MAX_QUEUED = 1_000
const BUILT_MODES: readonly StreamMode[] = ['values', 'updates', 'messages-tuple', 'custom']

/** Documented fields whose time has not come: what they may say until then. */
const unbuilt: { [field: string]: (body: RunCreate) => boolean } = {
  checkpoint: body => given(body.checkpoint),
  checkpoint_id: body => given(body.checkpoint_id),
  'command.update': body => given(body.command?.update),
  'command.goto': body => given(body.command?.goto),
  interrupt_before: body => given(body.interrupt_before),
  interrupt_after: body => given(body.interrupt_after),
  stream_subgraphs: body => body.stream_subgraphs === true,
  feedback_keys: body => given(body.feedback_keys),
  webhook: body => given(body.webhook),
  after_seconds: body => given(body.after_seconds) && body.after_seconds !== 0,
  multitask_strategy: body => given(body.multitask_strategy) && body.multitask_strategy !== 'enqueue',
  langsmith_tracer: body => given(body.langsmith_tracer),
}

export async function create(tools: Tools, body: RunCreate, { head }: Context): Promise<Reply> {
  const modes = modesOf(body)
  for (const [field, asks] of Object.entries(unbuilt)) {
    if (asks(body)) throw fail('invalid', `${field}: expected nothing or its default, this is not available yet`)
  }
  const mode = head.run?.mode ?? 'background'
  const run_id = head.run?.run_id ?? v7()
  const given_thread = head.params?.thread_id?.toLowerCase()
  const stateless = given_thread === undefined
  const assistant = await find(tools.store, body.assistant_id)
  if (assistant === null) throw fail('not_found', `No assistant found for "${body.assistant_id}". Make sure the assistant ID is for a valid assistant or a valid graph ID.`)
  const thread_id = given_thread ?? v7()
  const temporary = stateless && (body.on_completion ?? 'delete') === 'delete'
  const run = runRow(tools, body, assistant, { run_id, thread_id, mode, modes, stateless, temporary })
  const first = stateless ? await acceptNew(tools, run) : await accept(tools, run, body.if_not_exists === 'create')
  if (first === 'known') return answerKnown(tools, run, stateless)
  if (first) void wake(tools.link, tools.mux, token('pool', run.pool), { run_id, thread_id }, `${run_id}:1`)
  return answer(run, stateless)
}

function modesOf({ stream_mode }: RunCreate): StreamMode[] {
  const modes = stream_mode === undefined || stream_mode === null ? [] : Array.isArray(stream_mode) ? stream_mode : [stream_mode]
  for (const mode of modes) {
    if (!BUILT_MODES.includes(mode)) throw fail('invalid', `stream_mode: expected one or several of ${BUILT_MODES.join(', ')}; ${mode} is not available yet`)
  }
  return modes.length === 0 ? ['values'] : [...new Set(modes)]
}

interface Given {
  run_id: string
  thread_id: string
  mode: RunMode
  modes: StreamMode[]
  stateless: boolean
  temporary: boolean
}

function runRow(tools: Tools, body: RunCreate, assistant: AssistantRow, { run_id, thread_id, mode, modes, stateless, temporary }: Given): RunRow {
  const now = Date.now()
  const ids = { graph_id: assistant.graph_id, assistant_id: assistant.assistant_id, thread_id, run_id }
  const metadata = merge(JSON.parse(assistant.metadata), body.metadata, ids)
  const command = body.command && Object.keys(body.command).length > 0 ? body.command : null
  const resumable = body.stream_resumable ?? false
  const kwargs: RunKwargs = {
    input: body.input ?? null,
    command,
    config: configOf(JSON.parse(assistant.config), body.config, ids, metadata),
    context: contextOf(JSON.parse(assistant.context), body.context),
    stream_mode: modes,
    stream_subgraphs: false,
    resumable,
    durability: durabilityOf(body),
    temporary,
    feedback_keys: null,
    interrupt_before: null,
    interrupt_after: null,
    webhook: null,
  }
  return {
    app: BUILT_IN_APP,
    run_id,
    thread_id,
    assistant_id: assistant.assistant_id,
    graph_id: assistant.graph_id,
    pool: tools.pools.get(assistant.graph_id) ?? 'default',
    status: 'accepting',
    created_at: now,
    updated_at: now,
    metadata: JSON.stringify(metadata),
    kwargs: JSON.stringify(kwargs),
    multitask_strategy: 'enqueue',
    mode,
    resumable,
    temporary,
    on_disconnect: mode === 'background' ? 'continue' : (body.on_disconnect ?? (stateless && mode === 'stream' ? 'cancel' : 'continue')),
    due_at: 0,
    attempt: 0,
    token: null,
    hb: 0,
    worker: null,
    cancel: null,
    cancel_due_at: null,
    started_at: null,
    ended_at: null,
    last_event_id: null,
    error: null,
    result: null,
  }
}

/** API: threads-and-runs 8.3. Auth keys are ours to set; system keys win over whatever the client sent. */
function configOf(base: RunConfig, given: RunConfig | null | undefined, ids: JsonObject, metadata: JsonObject): JsonObject {
  const configurable = merge(base.configurable, given?.configurable)
  for (const key of Object.keys(configurable)) if (key.startsWith('langgraph_auth_') || key.startsWith('__')) delete configurable[key]
  const config = merge(base, given)
  for (const [key, value] of Object.entries(config)) if (value === null) delete config[key]
  return merge(config, { configurable: merge(configurable, ids), metadata: merge(isObject(config.metadata) ? config.metadata : null, metadata) })
}

const contextOf = (base: unknown, given: unknown): unknown => (given === undefined || given === null ? base : isObject(base) && isObject(given) ? merge(base, given) : given)

/** Design 7: durability wins; without it, checkpoint_during false means exit. */
const durabilityOf = ({ durability, checkpoint_during }: RunCreate): Durability => durability ?? (checkpoint_during === false ? 'exit' : 'async')

const given = (value: unknown): boolean => value !== undefined && value !== null && !(Array.isArray(value) && value.length === 0)

/** A stateless run brings its own thread row, so there is nothing to compare. Resolves to true: it is first in line. */
async function acceptNew({ store }: Tools, run: RunRow): Promise<true | 'known'> {
  const metadata = JSON.stringify({ graph_id: run.graph_id, assistant_id: run.assistant_id })
  const row: ThreadRow = { ...newThread(run.thread_id, metadata, run.temporary), status: 'busy', queue: [{ run_id: run.run_id, no: 0, due_at: run.due_at }], next_no: 1 }
  const failed = await store.apply([{ step: 'runs.insert', row: run }, { step: 'threads.insert', row }, pending(run)])
  return failed === 0 ? 'known' : true
}

/** One compare-and-set on the thread row takes the multitask decision and the place in the line. */
async function accept({ store }: Tools, run: RunRow, mayCreate: boolean): Promise<boolean | 'known'> {
  for (;;) {
    const thread = await store.threads.get(run.app, run.thread_id)
    if (thread === null && !mayCreate) throw fail('not_found', `Thread with ID ${run.thread_id} not found`)
    if (thread?.temporary) throw fail('not_found', `Thread with ID ${run.thread_id} not found`)
    const base = thread ?? newThread(run.thread_id, '{}', false)
    if (base.queue.length >= MAX_QUEUED) throw fail('too_many', `The thread has ${MAX_QUEUED} runs in line; wait for one of them to end`)
    const queue: Queued[] = [...base.queue, { run_id: run.run_id, no: base.next_no, due_at: run.due_at }]
    const set = {
      queue,
      next_no: base.next_no + 1,
      status: 'busy' as const,
      updated_at: run.created_at,
      metadata: JSON.stringify(merge(JSON.parse(base.metadata), { graph_id: run.graph_id, assistant_id: run.assistant_id })),
    }
    const take: Step =
      thread === null ? { step: 'threads.insert', row: { ...base, ...set } } : { step: 'threads.patch', thread_id: run.thread_id, where: { rev: thread.rev }, set }
    const failed = await store.apply([{ step: 'runs.insert', row: run }, take, pending(run)])
    if (failed === 0) return 'known'
    // Lost the race for the thread row: look again.
    if (failed === 1) continue
    return base.active === null && queue.length === 1
  }
}

const pending = (run: RunRow): Step => ({ step: 'runs.patch', run_id: run.run_id, where: { status: ['accepting'] }, set: { status: 'pending' } })

async function answerKnown({ store }: Tools, run: RunRow, stateless: boolean): Promise<Reply> {
  const stored = await store.runs.get(run.run_id)
  if (stored === null || stored.status === 'accepting') throw fail('unavailable', 'The run is being accepted; ask again')
  return answer(stored, stateless)
}

/** Stream and wait need the head alone; the body would be thrown away at the edge. */
const answer = (run: RunRow, stateless: boolean): Reply => {
  const shown: RunRow = run.status === 'accepting' ? { ...run, status: 'pending' } : run
  return { head: { run: headOf(shown, stateless) }, ...(run.mode === 'background' ? { body: runText(shown) } : {}) }
}

/** What the edge must know of a run. */
export const headOf = (run: RunSummary, stateless: boolean, modes: StreamMode[] = []): RunHead => ({
  run_id: run.run_id,
  thread_id: run.thread_id,
  stateless,
  resumable: run.resumable,
  on_disconnect: run.on_disconnect,
  status: run.status === 'accepting' ? 'pending' : run.status,
  attempt: run.attempt,
  last_event_id: run.last_event_id,
  from: run.mode === 'background' || run.status === 'pending' ? 'start' : 'live',
  stream_mode: modes,
})
