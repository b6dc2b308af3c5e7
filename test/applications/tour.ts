/** The tour: what each application has to do on a server, step after step, through the official SDK. */
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client, type Config, type StreamMode } from '@langchain/langgraph-sdk'
import { inputOf, type Schema } from './sample.js'
import type { Application } from './table.js'

type Values = { [name: string]: unknown; messages?: { type: string; content: unknown }[] }
type Asks = Pick<Application, 'calls' | 'asks'>

interface Place extends Asks {
  client: Client
  graph: string
  /** Whether streams have the events of subgraphs. */
  subgraphs: boolean
  input(say?: string): { [name: string]: unknown }
  /** The thread of the steps after the first run. */
  thread: string
}

export interface Passed {
  passed: string[]
  failed: { step: string; why: string } | null
}

/** A step that has not ended then has failed. */
const STEP_MS = 60_000

const STREAM_MODES: readonly StreamMode[] = [
  'values',
  'updates',
  'messages',
  'messages-tuple',
  'custom',
  'debug',
  'events',
  'tasks',
  'checkpoints',
]

/** In order; the first that fails ends the tour. */
const STEPS: { readonly [name: string]: (place: Place) => Promise<void> } = {
  schemas,
  drawing,
  'first run': firstRun,
  ...Object.fromEntries(STREAM_MODES.map(mode => [`stream ${mode}`, (place: Place) => stream(place, mode)])),
  'tool calls': toolCalls,
  interrupt,
  state,
  history,
  fork,
  store,
  'second run': secondRun,
}

export const stepNames = Object.keys(STEPS)

export async function tour(apiUrl: string, graph: string, asks: Asks, subgraphs = true): Promise<Passed> {
  const client = new Client({ apiUrl, callerOptions: { maxRetries: 0 } })
  const passed: string[] = []
  const place: Place = { client, graph, subgraphs, input: () => ({}), thread: '', ...asks }
  for (const [step, execute] of Object.entries(STEPS))
    try {
      await Promise.race([execute(place), late()])
      passed.push(step)
    } catch (error) {
      return { passed, failed: { step, why: (error as Error).message } }
    }
  return { passed, failed: null }
}

async function late(): Promise<never> {
  await sleep(STEP_MS, null, { ref: false })
  throw new Error(`it did not end in ${STEP_MS / 1000} s`)
}

async function schemas(place: Place): Promise<void> {
  const [assistant] = await place.client.assistants.search({ graphId: place.graph })
  // The official server takes the name of a graph in runs only.
  place.graph = assistant!.assistant_id
  const found = await place.client.assistants.getSchemas(place.graph)
  assert.ok(found.input_schema, 'the graph has no schema of its input')
  place.input = say => inputOf(found.input_schema as Schema, say)
}

async function drawing({ client, graph }: Place): Promise<void> {
  const { nodes, edges } = await client.assistants.getGraph(graph, { xray: true })
  assert.ok(nodes.length > 1 && (edges as unknown[]).length > 0, 'the drawing has no nodes or edges')
}

async function firstRun(place: Place): Promise<void> {
  const { client, graph, input } = place
  spoke(await client.runs.wait(null, graph, { input: input() }))
  place.thread = (await client.threads.create()).thread_id
  spoke(await client.runs.wait(place.thread, graph, { input: input() }))
}

async function stream({ client, graph, subgraphs, input }: Place, streamMode: StreamMode): Promise<void> {
  const seen: string[] = []
  for await (const { event, data } of client.runs.stream(null, graph, {
    input: input(),
    streamMode,
    streamSubgraphs: subgraphs,
  })) {
    assert.ok(event !== 'error', `the stream has an error: ${JSON.stringify(data)}`)
    seen.push(event)
  }
  assert.equal(seen[0], 'metadata', `the stream begins with ${seen[0]}`)
  // A graph may write nothing to it, or call no model; official servers have no checkpoints without a thread.
  if (!['custom', 'messages', 'messages-tuple', 'checkpoints'].includes(streamMode))
    assert.ok(seen.length > 1, `the stream has no event of ${streamMode}`)
}

async function toolCalls({ client, graph, input, calls = [] }: Place): Promise<void> {
  for (const say of calls) {
    const { messages = [] } = spoke(await client.runs.wait(null, graph, { input: input(say) }))
    assert.ok(
      messages.some(({ type }) => type === 'tool'),
      `"${say}" called no tool`,
    )
  }
}

async function interrupt(place: Place): Promise<void> {
  const { client, graph, input, asks } = place
  const { thread_id } = await client.threads.create()
  const ask = asks === undefined ? { interruptBefore: '*' as const } : {}
  await client.runs.wait(thread_id, graph, { input: input(asks?.say), ...ask })
  const { status, interrupts } = await client.threads.get(thread_id)
  assert.equal(status, 'interrupted')
  if (asks !== undefined) assert.ok(Object.values(interrupts).flat().length > 0, 'the thread lists no interrupt')
  const next = asks === undefined ? { input: null } : { command: { resume: asks.resume } }
  const values = spoke(await client.runs.wait(thread_id, graph, next))
  const after = await client.threads.get(thread_id)
  assert.equal(after.status, 'idle')
  if (asks !== undefined) assert.ok(values.messages!.some(({ type }) => type === 'tool'))
}

async function state({ client, thread }: Place): Promise<void> {
  const { values, next, checkpoint } = await client.threads.getState(thread, undefined, { subgraphs: true })
  assert.ok(Object.keys(values).length > 0, 'the state is empty')
  assert.deepEqual(next, [])
  assert.ok(checkpoint.checkpoint_id)
}

async function history({ client, thread }: Place): Promise<void> {
  const states = await client.threads.getHistory(thread, { limit: 100 })
  assert.ok(states.length > 1, `the history has ${states.length} states`)
}

/** Runs again from the first state after the input; before it there may be no values of which a state can be made. */
async function fork({ client, graph, thread }: Place): Promise<void> {
  const states = await client.threads.getHistory(thread, { limit: 100 })
  const { checkpoint } = states.findLast(({ next }) => next.length > 0 && next[0] !== '__start__')!
  const { thread_id } = await client.threads.copy(thread)
  spoke(await client.runs.wait(thread, graph, { input: null, checkpointId: checkpoint.checkpoint_id! }))
  const copied = await client.threads.getHistory(thread_id, { limit: 100 })
  assert.equal(copied.length, states.length, 'the copy has another history')
  // LangGraph 1.0 for Python refuses an update before the first node that names no node.
  const update = { values: null, checkpoint, asNode: '__start__' }
  const { checkpoint: changed } = (await client.threads.updateState(thread, update)) as Config & { checkpoint: object }
  assert.ok(changed)
}

async function store({ client }: Place): Promise<void> {
  await client.store.putItem(['tour', 'items'], 'one', { text: 'first' })
  assert.deepEqual((await client.store.getItem(['tour', 'items'], 'one'))?.value, { text: 'first' })
  const { items } = await client.store.searchItems(['tour'], { filter: { text: 'first' } })
  assert.equal(items.length, 1)
}

async function secondRun({ client, graph, input }: Place): Promise<void> {
  const { thread_id } = await client.threads.create()
  let before = 0
  for (const say of ['The first', 'The second', 'The third']) {
    const answer = spoke(await client.runs.wait(thread_id, graph, { input: input(say) }))
    const { values } = await client.threads.getState<Values>(thread_id)
    const { messages = [] } = values
    // An output schema may leave them out.
    if (answer.messages) assert.equal(messages.length, answer.messages.length, 'the state differs from the answer')
    if (before > 0) assert.ok(messages.length > 1, 'the thread does not keep its messages')
    before = messages.length
  }
}

/** The answer of a run that did not fail. */
function spoke(answer: unknown): Values {
  const { __error__, ...values } = (answer ?? {}) as Values & { __error__?: { error: string; message: string } }
  assert.ok(__error__ === undefined, `the run failed: ${__error__?.error}: ${__error__?.message}`)
  return values
}
