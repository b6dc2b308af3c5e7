/** Parts of A2A messages and contents of chat messages, in both directions. */

import { isObject, type JsonObject } from '../../schemas/json.js'
import type { A2aPart } from '../../schemas/protocols/a2a.js'
import { a2uiTypeOf, isA2uiType } from '../../schemas/protocols/a2ui.js'
import { type Interfaces, interfaceIn } from './a2a-a2ui.js'
import type { FilePart, Part } from './a2a-wire.js'

/** The part in one form for both versions; null: it has no content. */
export function readPart(part: A2aPart): Part | null {
  if (part.text !== undefined) return { text: part.text }
  const { raw, url, mediaType, filename, file, metadata } = part
  if (part.data !== undefined) {
    const mimeType = metadata?.mimeType ?? mediaType
    return isA2uiType(mimeType) ? { data: part.data, metadata: { ...metadata, mimeType } } : { data: part.data }
  }
  const { bytes = raw, uri = url, mimeType = mediaType, name = filename } = file ?? {}
  if (bytes === undefined && uri === undefined) return null
  return {
    file: {
      ...(bytes === undefined ? { uri: uri! } : { bytes }),
      ...(mimeType ? { mimeType } : {}),
      ...(name ? { name } : {}),
    },
  }
}

/** The content of one chat message: a text, or content blocks where there are files or events of A2UI. */
export function contentOf(parts: readonly Part[]): string | JsonObject[] {
  const isText = (part: Part): part is { text: string } => 'text' in part
  if (parts.every(isText)) return parts.map(({ text }) => text).join('\n')
  return parts.flatMap((part): JsonObject[] => {
    if (isText(part)) return [{ type: 'text', text: part.text }]
    if ('file' in part) return [blockOf(part.file)]
    return a2uiTypeOf(part) === null ? [] : [{ type: 'data', data: part.data, metadata: part.metadata }]
  })
}

/** A block that the LangChain libraries of both languages read. */
function blockOf({ bytes, uri, mimeType = 'application/octet-stream', name }: FilePart): JsonObject {
  const [kind] = mimeType.split('/', 1)
  return {
    type: kind === 'image' || kind === 'audio' ? kind : 'file',
    ...(bytes === undefined ? { source_type: 'url', url: uri } : { source_type: 'base64', data: bytes }),
    mime_type: mimeType,
    ...(name === undefined ? {} : { metadata: { filename: name } }),
  }
}

/**
 * The content of a chat message as parts; blocks that are no text and no file, such as reasoning, are left out, and so are
 * interfaces for a reader who does not get them.
 */
export function partsOf(content: unknown, interfaces: Interfaces | null = null): Part[] {
  if (typeof content === 'string') return content === '' ? [] : [{ text: content }]
  if (!Array.isArray(content)) return []
  return content.flatMap((block): Part[] => {
    if (typeof block === 'string') return [{ text: block }]
    if (!isObject(block)) return []
    if (typeof block.text === 'string' && `${block.type}`.endsWith('text')) return [{ text: block.text }]
    const shown = interfaces === null ? null : interfaceIn(block, interfaces)
    if (shown !== null) return [shown]
    const file = fileOf(block)
    return file === null ? [] : [{ file }]
  })
}

const DATA_URL = /^data:([^;,]+)?(?:;[^,]*)?;base64,(.*)$/s

/** `image_url` of the chat models, and the standard blocks with `data`, `base64` or `url`. */
function fileOf(block: JsonObject): FilePart | null {
  const { type, image_url, mime_type, mimeType = mime_type, base64, data = base64 } = block
  const url = type === 'image_url' ? (isObject(image_url) ? image_url.url : image_url) : block.url
  const of = typeof mimeType === 'string' ? { mimeType } : {}
  if (typeof data === 'string' && typeof type === 'string' && type !== 'text') return { bytes: data, ...of }
  if (typeof url !== 'string') return null
  const [, found, bytes] = DATA_URL.exec(url) ?? []
  if (bytes === undefined) return { uri: url, ...of }
  return { bytes, ...(found === undefined ? of : { mimeType: found }) }
}
