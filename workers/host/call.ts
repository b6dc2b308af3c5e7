/** Calls that need graph code but no run. A failure is thrown as {code, detail}. */
import type { Checkpoint } from '../../schemas/checkpoints.js'
import { WeftError } from '../../schemas/errors.js'
import type { Call, DescribeCall, HistoryCall, StateCall } from '../../schemas/host.js'
import type { JsonObject } from '../../schemas/json.js'
import { LARGEST_ANSWER, StateTooLarge } from './limits.js'
import { failure, type Host, transportOf } from './port.js'
import { errorOf, render } from './render.js'
import { withSaver } from './run.js'
import { draw, schemas, subgraphs } from './schemas/describe.js'
import { stateOf } from './state.js'
import { createSaver, type SaverOptions } from './storage/saver.js'
import { type Called, update } from './update.js'

const encoder = new TextEncoder()

/** A call that concerns a thread. */
type ThreadCall = Exclude<Call, DescribeCall>

/** Returns the bytes of the answer. */
export async function answerCall(host: Host, slot: number, call: Call): Promise<Uint8Array> {
  try {
    if (call.verb === 'draw' || call.verb === 'schemas' || call.verb === 'subgraphs')
      return encoder.encode(await describe(host, call))
    const prepare = (options: Partial<SaverOptions> = {}) => called(host, slot, call, options)
    if (call.verb === 'state') return encoder.encode(await state(call, await prepare()))
    if (call.verb === 'history') return encoder.encode(await history(call, await prepare()))
    if (call.verb === 'update') return await update(host, slot, call, prepare)
    throw failure('bad_request', `A host knows no call "${(call as { verb: string }).verb}"`)
  } catch (error) {
    if (!(error instanceof Error)) throw error
    if (error instanceof WeftError) throw failure(error.code, error.message)
    if (error instanceof StateTooLarge) throw failure('too_large', error.message)
    const { error: name, message } = errorOf(error)
    console.error(error)
    throw failure('internal', `${name}: ${message}`)
  }
}

async function describe({ application }: Host, call: DescribeCall): Promise<string> {
  const graphOf = application.graphs.get(call.graph_id)
  if (graphOf === undefined) throw failure('not_found', `Graph "${call.graph_id}" not found`)
  const graph = await graphOf(call.config, { accessContext: 'assistants.read', executionRuntime: null })
  if (call.verb === 'draw') return draw(call, graph)
  const tools = await application.schemaTools()
  return call.verb === 'schemas'
    ? schemas(call, graph, tools, application.types)
    : subgraphs(call, graph, tools, application.types)
}

/** The graph with a saver that can access this thread only. */
async function called(host: Host, slot: number, call: ThreadCall, options: Partial<SaverOptions>): Promise<Called> {
  const { graph_id, thread_id, checkpoint, config } = call
  const { library, graphs } = host.application
  const graphOf = graphs.get(graph_id)
  if (library === null || graphOf === undefined) throw failure('not_found', `Graph "${graph_id}" not found`)
  const configurable = { ...(config.configurable as JsonObject), ...placeIn(checkpoint), thread_id }
  const accessContext = call.verb === 'update' ? 'threads.update' : 'threads.read'
  const saver = createSaver(library, {
    transport: transportOf(host, slot),
    durability: 'sync',
    nextSeq: () => 0,
    thread_id,
    ...options,
  })
  const graph = withSaver(await graphOf({ ...config, configurable }, { accessContext, executionRuntime: null }), saver)
  return { library, graph, saver, configurable: { thread_id, ...placeIn(checkpoint) } }
}

/** The part of the checkpoint that a client named; null and absent are equivalent. */
function placeIn(checkpoint: Checkpoint | null | undefined): JsonObject {
  const place: JsonObject = {}
  for (const key of ['checkpoint_id', 'checkpoint_ns', 'checkpoint_map'] as const) {
    const chosen = checkpoint?.[key]
    if (chosen !== null && chosen !== undefined) place[key] = chosen
  }
  return place
}

async function state({ checkpoint, subgraphs }: StateCall, { graph, configurable }: Called): Promise<string> {
  const snapshot = await graph.getState({ configurable }, { subgraphs: subgraphs === true })
  if (checkpoint?.checkpoint_id && snapshot.createdAt === undefined)
    throw failure('not_found', `Checkpoint ${checkpoint.checkpoint_id} not found`)
  return render(stateOf(snapshot))
}

async function history({ limit, before, metadata }: HistoryCall, { graph, configurable }: Called): Promise<string> {
  const options: JsonObject = { limit }
  if (before) options.before = { configurable: { thread_id: configurable.thread_id, checkpoint_id: before } }
  if (metadata) options.filter = metadata
  const states: string[] = []
  let size = 0
  for await (const snapshot of graph.getStateHistory({ configurable }, options)) {
    const text = render(stateOf(snapshot))
    states.push(text)
    if ((size += text.length) > LARGEST_ANSWER)
      throw failure('too_large', `The history holds more than ${LARGEST_ANSWER} bytes: ask for fewer states (limit)`)
  }
  return `[${states.join()}]`
}
