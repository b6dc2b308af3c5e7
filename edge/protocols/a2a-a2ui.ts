/**
 * The extension A2UI of A2A (docs/spec/protocols.md#a2ui). Interfaces are content blocks `{type: "data", data, metadata}` of chat
 * messages, whose `metadata.mimeType` is one of A2UI. Others never see them: the assistant allows the extension, and the
 * message of the client activates it.
 */
import { checkAs, decodeJson } from '../../bus/decode.js'
import { WeftError } from '../../schemas/errors.js'
import { isObject, type JsonObject } from '../../schemas/json.js'
import { A2aError, type A2aMessage } from '../../schemas/protocols/a2a.js'
import {
  A2UI_EXTENSION,
  A2UI_TYPES,
  type A2uiType,
  a2uiTypeOf,
  isA2uiType,
  validateA2uiEvents,
  validateA2uiMessages,
  validateA2uiMetadata,
} from '../../schemas/protocols/a2ui.js'
import type { Agent, Assistant, Run } from './a2a-agent.js'
import type { Part } from './a2a-wire.js'

/** Metadata of a run whose client activated A2UI: the media type of the parts that it gets. */
export const SHOWS = 'a2a_a2ui'

export const allowsA2ui = ({ metadata }: Assistant): boolean => isObject(metadata.a2a) && metadata.a2a.a2ui === true

/** The entry in the card of an agent. */
export const A2UI_CARD = {
  uri: A2UI_EXTENSION,
  description: 'Ability to render A2UI v0.9',
  required: false,
  params: { 'v0.9': { supportedCatalogIds: [], acceptsInlineCatalogs: false } },
}

/** The extensions that the headers of the request activate. */
export const activatedBy = ({ exchange }: Agent): string[] => [
  ...new Set(exchange.received.a2aExtensions.split(',').flatMap(one => one.trim() || [])),
]

/** The agent allows the extension, and the request activates it. */
export const usesA2ui = (agent: Agent): boolean =>
  allowsA2ui(agent.assistant) && activatedBy(agent).includes(A2UI_EXTENSION)

/**
 * The media type of the interfaces in answers to the message; null: it activates none. `before`: the run that the message
 * resumes. Throws an A2aError for an event of a user that is wrong, or that the agent does not take.
 */
export function openA2ui(
  agent: Agent,
  message: A2aMessage,
  parts: readonly Part[],
  before: Run | null,
): A2uiType | null {
  const types = parts.map(a2uiTypeOf)
  const used = types.find(type => type !== null) ?? null
  if (used !== null && !allowsA2ui(agent.assistant)) throw new A2aError('params', 'This agent does not take A2UI')
  if (!usesA2ui(agent)) {
    if (used === null) return null
    throw new A2aError('params', `A2A-Extensions: expected ${A2UI_EXTENSION}, because the message has an event of A2UI`)
  }
  checkAs(message.metadata ?? {}, validateA2uiMetadata, 'message.metadata')
  for (const [i, part] of parts.entries())
    if (types[i] !== null && 'data' in part) {
      const fault = faultOf(part.data, validateA2uiEvents)
      if (fault !== null) throw new A2aError('params', `message.parts[${i}].data: ${fault}`)
    }
  return used ?? (before === null ? null : shownIn(before)) ?? A2UI_TYPES[0]
}

/** The media type of the interfaces of a run, as its client gets them; null: it gets none. */
export const shownIn = ({ metadata }: Pick<Run, 'metadata'>): A2uiType | null =>
  isA2uiType(metadata[SHOWS]) ? metadata[SHOWS] : null

/** How a reader of messages gets their interfaces. */
export interface Interfaces {
  type: A2uiType
  /** The author of the messages. */
  by: 'user' | 'agent'
  /** Told why an interface is left out. */
  onFault?: (fault: string) => void
}

/** The interface in a content block; null: it is none, or wrong. */
export function interfaceIn(block: JsonObject, { type, by, onFault }: Interfaces): Part | null {
  if (block.type !== 'data' || a2uiTypeOf(block) === null) return null
  const fault = faultOf(block.data, by === 'user' ? validateA2uiEvents : validateA2uiMessages)
  if (fault === null) return { data: block.data, metadata: { ...(block.metadata as JsonObject), mimeType: type } }
  onFault?.(fault)
  return null
}

/** Results of tools that the assistant names in `metadata.a2a.a2ui_tools`: those since the last message of the user. */
export function interfacesOfTools({ metadata }: Assistant, messages: readonly JsonObject[], shown: Interfaces): Part[] {
  const names = isObject(metadata.a2a) ? metadata.a2a.a2ui_tools : null
  if (!Array.isArray(names)) return []
  return messages.slice(messages.findLastIndex(({ type }) => type === 'human') + 1).flatMap(message => {
    if (message.type !== 'tool' || message.status === 'error' || !names.includes(message.name)) return []
    const data = resultOf(message.content)
    return interfaceIn({ type: 'data', data, metadata: { mimeType: shown.type } }, shown) ?? []
  })
}

/** The parsed JSON of a tool, which a client may have sent as a message; a text that is none stays one. */
function resultOf(content: unknown): unknown {
  if (typeof content !== 'string') return content
  try {
    return decodeJson(Buffer.from(content)) ?? content
  } catch {
    return content
  }
}

/** Why this is no message of A2UI and no list of them; null: it is. A message has its version and one member more. */
function faultOf(data: unknown, validate: Parameters<typeof checkAs>[1]): string | null {
  const one = Array.isArray(data) ? data : [data]
  if (one.some(message => isObject(message) && Object.keys(message).length !== 2))
    return 'expected messages with a version and one more member'
  try {
    checkAs(data, validate, 'data')
    return null
  } catch (error) {
    if (error instanceof WeftError) return error.message
    throw error
  }
}
