/** Log entry of a failed run: the node, the line of the application, and the stack with source maps. */
import { isAbsolute, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { RunFailure } from '../../schemas/host.js'
import type { ThreadState } from '../../schemas/threads.js'
import { errorOf } from './render.js'
import type { RunState } from './run-state.js'

/** Maximum number of stack characters. */
const LONGEST = 8_000

export function failureOf({ start }: RunState, thrown: unknown, state: ThreadState | null): RunFailure {
  const { error, message } = errorOf(thrown)
  const stack = stackOf(thrown)
  const { assistant_id } = (start.kwargs.config.configurable ?? {}) as { assistant_id?: unknown }
  return {
    error,
    message: message.slice(0, LONGEST),
    graph_id: start.graph_id,
    assistant_id: typeof assistant_id === 'string' ? assistant_id : null,
    node: nodeOf(thrown, state),
    at: placeOf(stack),
    stack,
  }
}

/**
 * The library adds the id of the task to the error that its node throws. Otherwise: the only node that did not finish.
 */
function nodeOf(thrown: unknown, state: ThreadState | null): string | null {
  const id = (thrown as { pregelTaskId?: unknown } | null | undefined)?.pregelTaskId
  const tasks = state?.tasks ?? []
  const found = tasks.find(task => task.id === id) ?? (tasks.length === 1 ? tasks[0] : undefined)
  return found?.name ?? null
}

function stackOf(thrown: unknown): string | null {
  try {
    const stack = (thrown as { stack?: unknown } | null | undefined)?.stack
    return typeof stack === 'string' ? stack.slice(0, LONGEST) : null
  } catch {
    return null
  }
}

/** Returns the first stack line outside of packages and Node.js: `file:line:column`. */
function placeOf(stack: string | null): string | null {
  for (const line of stack?.split('\n') ?? []) {
    const [, place] = /^\s+at (?:.*\()?(.+:\d+:\d+)\)?$/.exec(line) ?? []
    if (place === undefined) continue
    const file = place.startsWith('file:') ? urlPath(place) : place
    if (isAbsolute(file) && !file.includes(`${sep}node_modules${sep}`)) return file
  }
  return null
}

function urlPath(place: string): string {
  const [, url = '', position = ''] = /^(.*?)(:\d+:\d+)$/.exec(place) ?? []
  try {
    return `${fileURLToPath(url)}${position}`
  } catch {
    return place
  }
}
