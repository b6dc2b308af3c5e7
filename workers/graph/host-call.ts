/** Questions that need graph code but no run. A failure is thrown as {code, detail}. */
import type { JsonObject } from '../../schemas/assistants.js'
import type { ErrorCode } from '../../schemas/errors.js'
import { type Host, transportOf } from './host-port.js'
import { withSaver } from './host-run.js'
import { stateOf } from './host-state.js'
import type { Call } from './protocol.js'
import { errorOf, render } from './render.js'
import { createSaver } from './saver.js'

export interface CallFailure {
  code: ErrorCode
  detail: string
}

const failure = (code: ErrorCode, detail: string): CallFailure => ({ code, detail })

/** The answer as JSON text. */
export async function answerCall(host: Host, slot: number, call: Call): Promise<string> {
  if (call.verb !== 'state') throw failure('bad_request', `A host knows no call "${call.verb}"`)
  try {
    return await state(host, slot, call)
  } catch (error) {
    if (!(error instanceof Error)) throw error
    const { error: name, message } = errorOf(error)
    console.error(error)
    throw failure('internal', `${name}: ${message}`)
  }
}

async function state(host: Host, slot: number, { graph_id, thread_id, checkpoint, subgraphs, config }: Call) {
  const { library, graphs } = host.application
  const graphOf = graphs.get(graph_id)
  if (library === null || graphOf === undefined) throw failure('not_found', `Graph "${graph_id}" not found`)
  const configurable: JsonObject = { ...(config.configurable as JsonObject), thread_id }
  for (const key of ['checkpoint_id', 'checkpoint_ns', 'checkpoint_map'] as const) {
    const chosen = checkpoint?.[key]
    if (chosen === null || chosen === undefined) delete configurable[key]
    else configurable[key] = chosen
  }
  const saver = createSaver(library, {
    transport: transportOf(host, slot),
    durability: 'sync',
    nextSeq: () => 0,
    thread_id,
  })
  const graph = withSaver(await graphOf({ ...config, configurable }), saver)
  const snapshot = await graph.getState({ configurable }, { subgraphs: subgraphs === true })
  if (checkpoint?.checkpoint_id && snapshot.createdAt === undefined)
    throw failure('not_found', `Checkpoint ${checkpoint.checkpoint_id} not found`)
  return render(stateOf(snapshot))
}
