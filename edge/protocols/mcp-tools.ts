/** The assistants of a caller as tools of MCP (docs/spec/protocols.md#mcp). */
import { isObject, type JsonObject } from '../../schemas/json.js'

export interface Assistant {
  assistant_id: string
  graph_id: string
  name: string
  description?: string | null
}

/** Clients accept names of these characters, up to this length. */
const ODD = /[^A-Za-z0-9_-]+/g
const MAX_NAME = 64

/** One name for each assistant, in the order given: the first keeps the name that several have, others get a number. */
export function toolNames(assistants: readonly Assistant[]): Map<string, Assistant> {
  const named = new Map<string, Assistant>()
  for (const assistant of assistants) {
    const plain = assistant.name.replace(ODD, '_').slice(0, MAX_NAME) || 'assistant'
    let name = plain
    for (let n = 2; named.has(name); n++) name = `${plain.slice(0, MAX_NAME - `_${n}`.length)}_${n}`
    named.set(name, assistant)
  }
  return named
}

/** A list of chat messages, as clients write them; the schemas of the library describe each class with all its fields. */
const MESSAGES = {
  type: 'array',
  description: 'Chat messages',
  items: {
    type: 'object',
    properties: {
      role: { type: 'string', enum: ['user', 'assistant', 'system', 'tool'] },
      content: { type: 'string' },
    },
    required: ['role', 'content'],
  },
}
/** The definitions of the classes of messages, by their names in JavaScript and Python. */
const OF_MESSAGE =
  /^(\w*Message(Chunk)?|\w*MessageLikeRepresentation|(Invalid)?ToolCall(Chunk)?|(Input|Output)TokenDetails|UsageMetadata)$/
/** The name of a header that a client has to send an argument in, too. No header of a call is read. */
const IN_HEADER = 'x-mcp-header'
const REF = /^#\/(?:\$defs|definitions)\/(.+)$/

/** The schema of the input of a graph for a tool: an object, without the definitions of messages. */
export function toolSchema(schema: unknown): JsonObject & { type: 'object' } {
  if (!isObject(schema) || schema.type !== 'object') return { type: 'object' }
  const plain = withoutMessages(schema) as JsonObject
  for (const place of ['$defs', 'definitions'] as const) {
    const definitions = plain[place]
    if (!isObject(definitions)) continue
    const left = Object.entries(definitions).filter(([name]) => !OF_MESSAGE.test(name))
    if (left.length === 0) delete plain[place]
    else plain[place] = Object.fromEntries(left)
  }
  return { ...plain, type: 'object' }
}

function withoutMessages(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutMessages)
  if (!isObject(value)) return value
  if (value.type === 'array' && (value.langgraph_type === 'messages' || namesMessages(value.items))) {
    const { title, default: preset } = value
    return {
      ...MESSAGES,
      ...(title === undefined ? {} : { title }),
      ...(preset === undefined ? {} : { default: preset }),
    }
  }
  if (namesMessages(value)) return MESSAGES.items
  const shown = Object.entries(value).filter(([key, inner]) => key !== IN_HEADER || typeof inner !== 'string')
  return Object.fromEntries(shown.map(([key, inner]) => [key, withoutMessages(inner)]))
}

/** A reference to a class of messages, or a choice between such. */
function namesMessages(schema: unknown): boolean {
  if (!isObject(schema)) return false
  if (typeof schema.$ref === 'string') return OF_MESSAGE.test(REF.exec(schema.$ref)?.[1] ?? '')
  const choices = schema.anyOf ?? schema.oneOf
  return Array.isArray(choices) && choices.length > 0 && choices.every(namesMessages)
}
