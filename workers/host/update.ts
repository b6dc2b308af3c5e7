/**
 * State updates (docs/spec/threads.md#state-and-history). The library applies them with a saver that stores
 * nothing. The parts to store return with the answer, so that the resource worker writes all of them or none.
 */

import type { StepUpdate, UpdateCall, UpdatedHead } from '../../schemas/host.js'
import type { JsonObject } from '../../schemas/json.js'
import { pack } from '../../schemas/packed.js'
import { inputOf } from './input.js'
import type { Graph, Library } from './library/types.js'
import { LARGEST_ANSWER, StateTooLarge } from './limits.js'
import { failure, type Host, transportOf, Unanswered } from './port.js'
import { errorOf, render } from './render.js'
import { jsonInterruptsOf, referenceOf, stateOf } from './state.js'
import type { SaverOptions, WeftSaver } from './storage/saver.js'

/** The inputs of a call. */
export interface Called {
  library: Library
  graph: Graph
  saver: WeftSaver
  /** The config with the checkpoint that the call names. */
  configurable: JsonObject
}

export async function update(
  host: Host,
  slot: number,
  { supersteps, first_seq, metadata, thread_id }: UpdateCall,
  prepare: (options: Partial<SaverOptions>) => Promise<Called>,
): Promise<Uint8Array> {
  const saves: Uint8Array[] = []
  let seq = first_seq
  const { graph, library, saver, configurable } = await prepare({
    transport: { ...transportOf(host, slot), save: async (_thread, body) => void saves.push(body) },
    durability: 'exit',
    nextSeq: () => seq++,
    metadata,
    keep: true,
  })
  const steps = await Promise.all(
    supersteps.map(async ({ updates }) => ({
      updates: await Promise.all(
        updates.map(async one => ({
          values: await valuesOf(one, graph, library),
          ...(one.as_node ? { asNode: one.as_node } : {}),
        })),
      ),
    })),
  )
  const updated = await graph.bulkUpdateState({ configurable }, steps).catch(refuse)
  const state = stateOf(await graph.getState({ configurable: { thread_id } }))
  const { values, ...rest } = state
  saves.push(await saver.outbox.take())
  const parts = [Buffer.from(render(values)), Buffer.from(render(rest).slice(1)), ...saves]
  const size = parts.reduce((all, part) => all + part.length, 0)
  if (size > LARGEST_ANSWER) throw failure('too_large', `The update makes more than ${LARGEST_ANSWER} bytes`)
  const [values_size = 0, rest_size = 0, ...save_sizes] = parts.map(part => part.length)
  const head: UpdatedHead = {
    checkpoint: referenceOf(updated),
    head: saver.head(),
    next: state.next,
    interrupts: jsonInterruptsOf(state.tasks),
    values_size,
    rest_size,
    save_sizes,
  }
  return pack(head, parts)
}

/** These nodes receive their values unchanged. */
const SPECIAL = ['__copy__', '__input__', '__end__']
/** The only channel of a graph whose state is not an object. */
const ROOT = '__root__'

/** A list of objects is applied one after the other, as commands; if the state is a list, the list is the value. */
async function valuesOf({ values, command, as_node }: StepUpdate, graph: Graph, library: Library): Promise<unknown> {
  if (command) return inputOf({ command, input: null } as never, library, async () => [])
  if (!Array.isArray(values) || SPECIAL.includes(as_node ?? '') || ROOT in graph.channels) return values ?? null
  return values.map(each => (isMap(each) ? new library.Command({ update: each }) : each))
}

const isMap = (value: unknown): value is { [key: string]: unknown } =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Nearly all errors here come from the client's input: an unknown node, values that a reducer rejects. */
function refuse(error: unknown): never {
  if (!(error instanceof Error) || error instanceof StateTooLarge || error instanceof Unanswered) throw error
  const { error: name, message } = errorOf(error)
  throw failure('invalid', `${name}: ${message}`)
}
