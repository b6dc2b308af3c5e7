/** Log entry of a failed run: the node, the line of the application, and the stack with source maps. */
import { isAbsolute, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { RunFailure } from '../../schemas/host.js'
import type { ErrorPlace } from '../../schemas/runs.js'
import type { ThreadState } from '../../schemas/threads.js'
import { errorOf } from './render.js'
import type { RunState } from './run-state.js'

/** Maximum number of stack characters. */
const LONGEST = 8_000
const LONGEST_FILE = 1_024
const LONGEST_NAME = 256

/** A stack frame in code of the application. */
export interface AppFrame {
  /** Absolute, and relative to the folder of langgraph.json. */
  file: string
  path: string
  line: number
  column: number
  function: string | null
}

interface Found {
  state: ThreadState | null
  frame: AppFrame | null
}

export function failureOf({ start }: RunState, thrown: unknown, { state, frame }: Found): RunFailure {
  const { error, message } = errorOf(thrown)
  const { assistant_id } = (start.kwargs.config.configurable ?? {}) as { assistant_id?: unknown }
  return {
    error,
    message: message.slice(0, LONGEST),
    graph_id: start.graph_id,
    assistant_id: typeof assistant_id === 'string' ? assistant_id : null,
    node: nodeOf(thrown, state),
    at: frame && `${frame.file}:${frame.line}:${frame.column}`,
    stack: stackOf(thrown)?.slice(0, LONGEST) ?? null,
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
    return typeof stack === 'string' ? stack : null
  } catch {
    return null
  }
}

/** `at f (/a/b.ts:1:2)`, `at async f (file:///a/b.js:1:2)`, `at /a/b.ts:1:2`. */
const FRAME = /^\s+at (?:async )?(?:(.+?) \()?(.+?):(\d+):(\d+)\)?$/

/** The innermost frame of an error in the folders of the application, outside of its packages; null: there is none. */
export function frameOf(thrown: unknown, folders: readonly string[]): AppFrame | null {
  for (const text of linesOf(thrown)) {
    const [, name, place, line, column] = FRAME.exec(text) ?? []
    if (place === undefined) continue
    const file = place.startsWith('file:') ? fileOf(place) : place
    if (!isAbsolute(file) || !folders.some(folder => isWithin(folder, file))) continue
    const path = relative(folders[0]!, file).replaceAll(sep, '/')
    return { file, path, line: Number(line), column: Number(column), function: nameOf(name) }
  }
  return null
}

function isWithin(folder: string, file: string): boolean {
  const parts = relative(folder, file).split(sep)
  return parts[0] !== '..' && !parts.includes('node_modules')
}

export const placeOf = ({ path, line, function: name }: AppFrame): ErrorPlace => ({
  file: path.slice(-LONGEST_FILE),
  line,
  function: name?.slice(0, LONGEST_NAME) ?? null,
})

/** The frames of a stack: lines of the message may look like frames, because it quotes another stack. */
function linesOf(thrown: unknown): string[] {
  const stack = stackOf(thrown) ?? ''
  const { message } = errorOf(thrown)
  const from = stack.indexOf(message)
  return (from < 0 ? stack : stack.slice(from + message.length)).split('\n')
}

/** The names that V8 and the library give to functions without a name. */
const NAMELESS = new Set(['<anonymous>', 'func'])

/** `RunnableCallable.load [as func]`, as the library calls nodes, is `load`; `RunnableCallable.func` has no name. */
function nameOf(shown: string | undefined): string | null {
  const name = shown?.replace(/ \[as .*\]$/, '').replace(/^(?:Object|RunnableCallable)\./, '')
  return name === undefined || NAMELESS.has(name) ? null : name
}

function fileOf(url: string): string {
  try {
    return fileURLToPath(url)
  } catch {
    return url
  }
}
