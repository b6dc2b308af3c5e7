/**
 * Reads what hosts for Python have stored, for threads on which graphs of both languages run: msgpack with the extensions
 * of the Python library. Messages become `lc` constructors, which the serialiser here revives; other objects become their
 * plain fields. Nothing here writes msgpack.
 */
import { Decoder, ExtensionCodec } from '@msgpack/msgpack'
import { isObject } from '../../../schemas/json.js'

/** Codes of extensions whose content is [module, name, argument or arguments, …]. */
const OBJECTS = [0, 1, 2, 3, 4, 5]
/** An array of numpy, and a snapshot of an incremental channel: their content alone. */
const CONTENTS = [6, 7]
const MESSAGES = /^langchain_core\.messages\./

const codec = new ExtensionCodec()
const decoder = new Decoder({ extensionCodec: codec, mapKeyConverter: keyText })
const decode = (bytes: Uint8Array): unknown => decoder.decode(bytes)
for (const type of OBJECTS) codec.register({ type, encode: () => null, decode: bytes => plainObject(decode(bytes)) })
for (const type of CONTENTS) codec.register({ type, encode: () => null, decode })

/** The value as JSON text. */
export const jsonOfMsgpack = (bytes: Uint8Array): string =>
  JSON.stringify(decoder.decode(bytes), (_, value: unknown) =>
    value instanceof Uint8Array ? Buffer.from(value).toString('base64') : value,
  )

function plainObject(content: unknown): unknown {
  if (!Array.isArray(content)) return content
  const [module, name, fields] = content as [unknown, unknown, unknown]
  if (MESSAGES.test(String(module)) && isObject(fields)) {
    const { type: _, ...kwargs } = fields
    return { lc: 1, type: 'constructor', id: ['langchain_core', 'messages', name], kwargs }
  }
  if (module === 'langgraph.types' && name === 'Send' && Array.isArray(fields)) {
    const [node, args] = fields as [unknown, unknown]
    return { lg_name: 'Send', node, args }
  }
  return fields
}

function keyText(key: unknown): string {
  return typeof key === 'string' ? key : JSON.stringify(key)
}
