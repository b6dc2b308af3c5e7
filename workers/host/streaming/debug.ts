/**
 * Payloads of the modes `checkpoints`, `tasks` and `debug` as a client receives them (docs/spec/streams.md#events): the
 * payloads of the library, with references in place of configs and without internal members of Weft or the library.
 */
import type { JsonObject } from '../../../schemas/json.js'
import type { Interrupt } from '../../../schemas/threads.js'
import { referenceOf, visible } from '../state.js'

interface LibraryConfig extends JsonObject {
  callbacks?: unknown
  configurable?: JsonObject
  metadata?: JsonObject
}

interface LibraryTask extends JsonObject {
  interrupts?: unknown[]
  state?: { configurable?: JsonObject }
}

interface LibraryCheckpoint {
  config: LibraryConfig
  parentConfig?: LibraryConfig
  values: unknown
  metadata: JsonObject
  next: string[]
  tasks: LibraryTask[]
}

export function debugOf(chunk: unknown): unknown {
  const { payload, ...rest } = chunk as { type: string; payload: unknown }
  return { ...rest, payload: rest.type === 'checkpoint' ? checkpointOf(payload) : taskOf(payload) }
}

export function checkpointOf(payload: unknown): unknown {
  const { config, parentConfig, values, metadata, next, tasks } = payload as LibraryCheckpoint
  return {
    values,
    next,
    metadata: visible(metadata),
    config: shown(config),
    parent_config: parentConfig === undefined ? null : shown(parentConfig),
    checkpoint: referenceOf(config),
    parent_checkpoint: referenceOf(parentConfig),
    tasks: tasks.map(taskOf),
  }
}

/** A task at its start, at its end, or in a checkpoint, where `state` holds the config of a subgraph. */
export function taskOf(payload: unknown): unknown {
  const { state, interrupts, ...task } = payload as LibraryTask
  if (interrupts !== undefined) task.interrupts = interrupts.flat().map(interruptOf)
  const { configurable } = state ?? {}
  if (configurable === undefined) return state === undefined ? task : { ...task, state }
  const { thread_id, checkpoint_ns, checkpoint_id, checkpoint_map } = configurable
  return {
    ...task,
    checkpoint: {
      thread_id,
      checkpoint_ns: checkpoint_ns ?? '',
      checkpoint_id: checkpoint_id ?? null,
      checkpoint_map: checkpoint_map ?? null,
    },
  }
}

const interruptOf = (interrupt: unknown): unknown => {
  if (typeof interrupt !== 'object' || interrupt === null || !('value' in interrupt)) return interrupt
  const { id, value } = interrupt as Interrupt
  return { id, value: value ?? null }
}

function shown({ callbacks: _, configurable, metadata, ...config }: LibraryConfig): LibraryConfig {
  if (metadata !== undefined) config.metadata = visible(metadata)
  return configurable === undefined ? config : { ...config, configurable: visible(configurable) }
}
