/**
 * Finds the origin of chunks of the mode `tools`. They carry no metadata, so a callback handler, which receives the
 * same calls slightly earlier, notes the origins. Both receive the calls in the same order: a chunk takes its note and
 * drops the notes before it, which belong to calls that the library does not stream (hidden calls, interrupts).
 */
import type { JsonObject } from '../../../../schemas/json.js'
import { type Origin, originOf } from './task.js'

interface Note {
  event: string
  tool_call_id: string | undefined
  name: string
  /** The input, the output, the error or the data of the event: the same value that the chunk carries. */
  value: unknown
  origin: Origin
}

/** The members of a callback handler of the library that are used here. */
interface ToolHandler {
  name: string
  awaitHandlers: boolean
  ignoreLLM: boolean
  ignoreChain: boolean
  ignoreAgent: boolean
  ignoreRetriever: boolean
  ignoreCustomEvent: boolean
  handleToolStart(...args: unknown[]): void
  handleToolEvent(value: unknown, run: string): void
  handleToolEnd(value: unknown, run: string): void
  handleToolError(value: unknown, run: string): void
}

export interface ToolOrigins {
  handler: ToolHandler
  /** Returns the origin of a chunk with namespace `ns`; null: the chunk comes from a subgraph that is not streamed. */
  take(ns: readonly string[], payload: unknown): Origin | null
}

/** Tools of subgraphs are noted only if `subgraphs` are streamed. */
export function toolOrigins({ subgraphs }: { subgraphs: boolean }): ToolOrigins {
  const calls = new Map<string, Pick<Note, 'tool_call_id' | 'name' | 'origin'>>()
  let notes: Note[] = []

  function note(event: string, run: string, value: unknown, { last = false } = {}): void {
    const call = calls.get(run)
    if (call === undefined) return
    if (last) calls.delete(run)
    notes.push({ ...call, event, value })
  }

  return {
    handler: {
      name: 'weft_tool_origins',
      // Called before the tool starts, like the library's own handler.
      awaitHandlers: true,
      ignoreLLM: true,
      ignoreChain: true,
      ignoreAgent: false,
      ignoreRetriever: true,
      ignoreCustomEvent: true,
      handleToolStart(_tool, input, run, _parent, _tags, metadata, name, tool_call_id) {
        const origin = originOf(metadata as JsonObject | undefined)
        if (origin.graph.length > 0 && !subgraphs) return
        const call = { tool_call_id: tool_call_id as string | undefined, name: String(name ?? 'unknown'), origin }
        calls.set(run as string, call)
        note('on_tool_start', run as string, input)
      },
      handleToolEvent: (value, run) => note('on_tool_event', run, value),
      handleToolEnd: (value, run) => note('on_tool_end', run, value, { last: true }),
      handleToolError: (value, run) => note('on_tool_error', run, value, { last: true }),
    },
    take(ns, payload) {
      const { event, toolCallId, name, input, data, output, error } = payload as JsonObject
      const value = input ?? data ?? output ?? error
      const found = notes.findIndex(
        one =>
          one.event === event &&
          one.tool_call_id === toolCallId &&
          one.name === name &&
          (one.value ?? undefined) === value,
      )
      if (found < 0) return subgraphs ? { graph: ns, task: ns, node: undefined } : null
      const { origin } = notes[found]!
      notes = notes.slice(found + 1)
      return origin
    },
  }
}
