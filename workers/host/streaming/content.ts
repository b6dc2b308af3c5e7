/**
 * Converts chat messages to content blocks (docs/spec/protocol-v2.md#content-blocks). A message starts, its blocks start,
 * grow and finish one after the other, and the message finishes. The library sends tokens as chunks, which the message
 * id assigns to a message, and whole messages that nodes return.
 */

import type { JsonObject } from '../../../schemas/json.js'
import type { Namespace } from '../../../schemas/protocols/v2.js'
import type { Origin } from './origins/task.js'

export interface StreamedMessage {
  id?: string
  type?: string
  _getType?(): string
  content: unknown
  /** Present on chunks only. */
  concat?: unknown
  additional_kwargs?: JsonObject
  tool_call_chunks?: { index?: number; id?: string; name?: string; args?: string }[]
  tool_calls?: JsonObject[]
  usage_metadata?: JsonObject
  tool_call_id?: string
}

export interface Content {
  take(origin: Origin, message: StreamedMessage, metadata: JsonObject): void
  /** Finishes the messages of the task or the graph in `ns`, and those below it. */
  finish(ns: Namespace): void
  /** Marks open messages as failed: they will not be finished. */
  fail(message: string): void
}

/** The part that a chunk adds to its block. `key` identifies the block within its message. */
interface Piece {
  key: string
  block: JsonObject
  delta: JsonObject | null
}

interface Open {
  id: string
  origin: Origin
  /** Key of the block that grows; `count` is the number of blocks so far. */
  key: string | null
  block: JsonObject
  count: number
  usage: JsonObject | undefined
}

/** Calls `send` with the origin and the data of each event. */
export function contentOf(send: (origin: Origin, data: JsonObject) => void): Content {
  const open = new Map<string, Open>()

  const emit = ({ origin, id }: Open, data: JsonObject) =>
    // Several messages of one namespace may be in progress at once: each SDK distinguishes them by a different key.
    send(origin, { ...data, message_id: id, run_id: id })

  function start(origin: Origin, message: StreamedMessage, metadata: JsonObject): Open {
    const { id = '' } = message
    const one: Open = { id, origin, key: null, block: {}, count: 0, usage: undefined }
    const role = roleOf(message)
    const { tool_call_id } = message
    emit(one, {
      event: 'message-start',
      role,
      id,
      ...(tool_call_id === undefined ? {} : { tool_call_id }),
      metadata: shownOf(metadata),
    })
    return one
  }

  function add(one: Open, { key, block, delta }: Piece): void {
    if (one.key !== key) {
      finishBlock(one)
      one.key = key
      one.block = block
      emit(one, { event: 'content-block-start', index: one.count++, content: block })
    }
    if (delta === null) return
    grow(one.block, delta)
    // A patch replaces the block: it carries the content received so far.
    const sent = delta.type === 'block-delta' ? { type: 'block-delta', fields: { ...one.block } } : delta
    emit(one, { event: 'content-block-delta', index: one.count - 1, delta: sent })
  }

  function finishBlock(one: Open): void {
    if (one.key === null) return
    one.key = null
    emit(one, { event: 'content-block-finish', index: one.count - 1, content: whole(one.block) })
  }

  function finishMessage(one: Open): void {
    finishBlock(one)
    open.delete(one.id)
    emit(one, { event: 'message-finish', ...(one.usage === undefined ? {} : { usage: one.usage }) })
  }

  return {
    take(origin, message, metadata) {
      const { id } = message
      if (!id) return
      let one = open.get(id)
      if (one === undefined) open.set(id, (one = start(origin, message, metadata)))
      for (const piece of piecesOf(message)) add(one, piece)
      one.usage = sum(one.usage, message.usage_metadata)
      if (message.concat === undefined) finishMessage(one)
    },
    finish(ns) {
      for (const one of open.values()) if (ns.every((segment, i) => one.origin.task[i] === segment)) finishMessage(one)
    },
    fail(message) {
      for (const one of open.values()) emit(one, { event: 'error', message })
      open.clear()
    },
  }
}

const ROLES: { [type: string]: string } = { human: 'human', system: 'system', tool: 'tool' }
const roleOf = (message: StreamedMessage): string => ROLES[message._getType?.() ?? message.type ?? ''] ?? 'ai'

/** The flat, short members of a message's metadata. */
function shownOf(metadata: JsonObject): JsonObject {
  const { langgraph_node, langgraph_step, ls_provider, ls_model_name, ls_model_type, run_id, thread_id } = metadata
  const all = { provider: ls_provider, model: ls_model_name, model_type: ls_model_type, langgraph_node, langgraph_step }
  return Object.fromEntries(Object.entries({ ...all, run_id, thread_id }).filter(([, value]) => value !== undefined))
}

/** Content parts that the tool calls of the message represent better. */
const TOOL_PARTS = new Set(['tool_use', 'tool_call', 'tool_call_chunk', 'input_json_delta'])

function* piecesOf(message: StreamedMessage): Generator<Piece> {
  const { content, additional_kwargs, tool_call_chunks, tool_calls } = message
  const reasoning = additional_kwargs?.reasoning_content
  if (typeof reasoning === 'string' && reasoning !== '') yield reasoningOf('reasoning', reasoning)
  if (typeof content === 'string' && content !== '') yield textOf('text', content)
  for (const [i, part] of (Array.isArray(content) ? content : []).entries()) {
    if (typeof part === 'string') yield textOf('text', part)
    else if (typeof part === 'object' && part !== null) yield* partOf(part as JsonObject, i)
  }
  if (message.concat !== undefined) {
    for (const { index, id, name, args } of tool_call_chunks ?? [])
      yield {
        key: `tool ${index ?? id ?? ''}`,
        block: { type: 'tool_call_chunk', id: id ?? null, name: name ?? null, args: '' },
        delta: { type: 'block-delta', fields: { id, name, args } },
      }
    return
  }
  for (const { id, name, args } of tool_calls ?? [])
    yield { key: `call ${id}`, block: { type: 'tool_call', id, name, args }, delta: null }
}

function* partOf(part: JsonObject, i: number): Generator<Piece> {
  const { type, text, index } = part
  const key = `${type} ${index ?? ''}`
  const thought = part.reasoning ?? part.thinking
  if (TOOL_PARTS.has(type as string)) return
  if (typeof text === 'string' && (type === 'text' || type === 'text_delta')) yield textOf(`text ${index ?? ''}`, text)
  else if (typeof thought === 'string') yield reasoningOf(key, thought)
  else yield { key: `${key} ${i}`, block: part, delta: null }
}

const textOf = (key: string, text: string): Piece => ({
  key,
  block: { type: 'text', text: '' },
  delta: { type: 'text-delta', text },
})

const reasoningOf = (key: string, reasoning: string): Piece => ({
  key,
  block: { type: 'reasoning', reasoning: '' },
  delta: { type: 'reasoning-delta', reasoning },
})

function grow(block: JsonObject, { type, text, reasoning, fields }: JsonObject): void {
  if (type === 'text-delta') block.text += text as string
  else if (type === 'reasoning-delta') block.reasoning += reasoning as string
  else {
    const { id, name, args } = fields as { id?: string; name?: string; args?: string }
    block.id ??= id ?? null
    block.name ??= name ?? null
    block.args += args ?? ''
  }
}

/** Completes a block: a tool call has its arguments, or reports that they cannot be parsed. */
function whole(block: JsonObject): JsonObject {
  if (block.type !== 'tool_call_chunk') return block
  const { id, name, args } = block
  try {
    return { type: 'tool_call', id, name, args: args === '' ? {} : JSON.parse(args as string) }
  } catch {
    return { type: 'invalid_tool_call', id, name, args, error: 'The arguments are no JSON' }
  }
}

function sum(before: JsonObject | undefined, more: JsonObject | undefined): JsonObject | undefined {
  if (more === undefined || before === undefined) return more ?? before
  const out = { ...before }
  for (const [key, value] of Object.entries(more))
    out[key] = typeof value === 'number' && typeof out[key] === 'number' ? out[key] + value : (value ?? out[key])
  return out
}
