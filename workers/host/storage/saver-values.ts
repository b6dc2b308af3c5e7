/**
 * Converts channel values to bytes and back: the library's serialiser, with a shorter path for plain JSON, which most
 * channels hold. The library walks a value with a replacer and revives it with a promise for each member.
 */
import type { BaseCheckpointSaver } from '@langchain/langgraph'

type Serializer = BaseCheckpointSaver['serde']
export type Dumped = [type: string, value: Uint8Array]

const encoder = new TextEncoder()
const decoder = new TextDecoder()
/** Deeper values use the library's serialiser, which handles cycles. */
const DEEP = 100

/** The bytes are complete when this returns, even if it returns a promise. */
export function dump(serde: Serializer, value: unknown): Dumped | Promise<Dumped> {
  if (!isPlain(value, 0)) return serde.dumpsTyped(value)
  return ['json', encoder.encode(JSON.stringify(value))]
}

/** A text without any "lc" member contains nothing that the library would revive. */
export function revive(serde: Serializer, type: string, bytes: Uint8Array): unknown {
  if (type === 'null') return null
  if (type === 'msgpack') return reviveMsgpack(serde, bytes)
  if (type !== 'json') return serde.loadsTyped(type, bytes)
  // JSON has nothing for a function or a symbol: the library writes no text for it.
  if (bytes.length === 0) return undefined
  const text = decoder.decode(bytes)
  return text.includes('"lc":') ? serde.loadsTyped(type, text) : JSON.parse(text)
}

/** Only a thread that a graph in Python has used needs the reader. */
async function reviveMsgpack(serde: Serializer, bytes: Uint8Array): Promise<unknown> {
  const { jsonOfMsgpack } = await import('./msgpack.js')
  return revive(serde, 'json', encoder.encode(jsonOfMsgpack(bytes)))
}

function isPlain(value: unknown, depth: number): boolean {
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' || value === null)
    return true
  if (typeof value !== 'object' || depth > DEEP) return false
  if (Array.isArray(value)) return value.every(item => isPlain(item, depth + 1))
  const prototype = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) return false
  if ('toJSON' in value || 'lg_name' in value) return false
  for (const key of Object.keys(value)) {
    if (!isPlain((value as { [key: string]: unknown })[key], depth + 1)) return false
  }
  return true
}
