/** Converts the library's snapshot to a ThreadState (docs/spec/threads.md#state). */
import type { Checkpoint } from '../../schemas/checkpoints.js'
import type { JsonObject } from '../../schemas/json.js'
import { interruptsOf, type Task, type ThreadState } from '../../schemas/threads.js'
import type { Snapshot } from './library/types.js'
import { errorOf, render } from './render.js'

/** Returns the ThreadState object. Its members hold the graph's own values, so the renderer must process it. */
export function stateOf(snapshot: Snapshot): ThreadState {
  const tasks = snapshot.tasks.map(taskOf)
  return {
    values: snapshot.values ?? {},
    next: snapshot.next,
    tasks,
    checkpoint: referenceOf(snapshot.config),
    parent_checkpoint: referenceOf(snapshot.parentConfig),
    metadata: visible(snapshot.metadata),
    created_at: snapshot.createdAt ?? null,
    interrupts: tasks.flatMap(task => task.interrupts),
  }
}

/** Returns the pending interrupts as JSON data. Their values may have types that JSON does not have. */
export function jsonInterruptsOf(tasks: readonly Task[]): ReturnType<typeof interruptsOf> {
  const interrupts = interruptsOf(tasks)
  return Object.keys(interrupts).length === 0 ? interrupts : JSON.parse(render(interrupts))
}

/** Removes internal members: identity, request ids, internal keys of the library. */
export function visible(metadata: JsonObject | undefined): JsonObject {
  const shown: JsonObject = {}
  for (const [key, value] of Object.entries(metadata ?? {})) if (!isHidden(key)) shown[key] = value
  return shown
}

const isHidden = (key: string): boolean =>
  key.startsWith('__') || key.startsWith('langgraph_auth_') || key === 'langgraph_request_id'

function taskOf({ id, name, path, error, interrupts, state, result }: Snapshot['tasks'][number]): Task {
  const nested = state !== undefined && 'values' in state ? stateOf(state as Snapshot) : null
  const { configurable } = (state ?? {}) as { configurable?: JsonObject }
  return {
    id,
    name,
    path: path ?? [],
    error: error === undefined || error === null ? null : errorText(error),
    // The library lists the interrupts of a task also after its answer. One that asks again is not in `next` either.
    interrupts: (result === undefined ? (interrupts ?? []) : []).map(({ id, value }) => ({
      id: id as string,
      value: value ?? null,
    })),
    checkpoint:
      nested === null && configurable !== undefined
        ? {
            thread_id: configurable.thread_id as string,
            checkpoint_ns: (configurable.checkpoint_ns as string) ?? '',
            checkpoint_id: (configurable.checkpoint_id as string) ?? null,
            checkpoint_map: (configurable.checkpoint_map as JsonObject) ?? null,
          }
        : null,
    state: nested,
    result: result ?? null,
  }
}

/** Stored as {name, message}; both may be missing. */
function errorText(error: unknown): string {
  if (typeof error === 'string') return error
  const { name, message } = error as { name?: unknown; message?: unknown }
  if (!(error instanceof Error) && message === undefined) return typeof name === 'string' ? name : 'Error'
  const { error: found, message: text } = errorOf(error)
  const type = found === 'Object' && typeof name === 'string' ? name : found
  return text === '' ? type : `${type}: ${text}`
}

/** Null if there is no checkpoint: clients read it as an empty thread. */
export function referenceOf(config: { configurable?: JsonObject } | undefined): Checkpoint | null {
  const { thread_id, checkpoint_ns, checkpoint_id, checkpoint_map } = config?.configurable ?? {}
  if (typeof checkpoint_id !== 'string') return null
  return {
    thread_id: thread_id as string,
    checkpoint_ns: (checkpoint_ns as string) ?? '',
    checkpoint_id,
    checkpoint_map: (checkpoint_map as JsonObject) ?? null,
  }
}
