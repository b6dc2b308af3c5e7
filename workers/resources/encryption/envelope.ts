/**
 * The stored form of a value that the handlers of an application encrypted: the result of the handler, and everything that
 * its decryption needs. It is recognised without configuration, so rows that were stored before stay readable.
 */
import type { JsonObject } from '../../../schemas/json.js'
import { pack, unpack } from '../../../schemas/packed.js'
import { SEALED_TYPE } from '../rows/checkpoint.js'

/** json: the bytes are the JSON text of an object, whose keys the handler keeps. */
export type Kind = 'json' | 'blob'

/** Whose handlers encrypted a value, and the context that they receive again. Both are stored in plain text. */
export interface Owner {
  app: string
  context: JsonObject
}

export interface Sealed extends Owner {
  kind: Kind
  /** The arguments of the handler beside the value. */
  model: string
  field: string
  /** Encrypted with a key of the server; absent: by the handlers of the application. */
  by?: 'key'
  bytes: Uint8Array
}

type Head = Omit<Sealed, 'bytes'>

/** No JSON text begins with it, and none contains it. */
const MARK = '\u0001'
const MARK_BYTE = 1

const headOf = ({ bytes: _, ...head }: Sealed): Head => head

/** In a column of text. */
export function textOf(sealed: Sealed): string {
  const bytes = Buffer.from(sealed.bytes.buffer, sealed.bytes.byteOffset, sealed.bytes.length)
  const text = sealed.kind === 'json' ? bytes.toString() : bytes.toString('base64')
  return MARK + JSON.stringify(headOf(sealed)) + MARK + text
}

/** Null for plain text. */
export function fromText(text: string): Sealed | null {
  if (!text.startsWith(MARK)) return null
  const end = text.indexOf(MARK, 1)
  if (end === -1) return null
  const head = JSON.parse(text.slice(1, end)) as Head
  return { ...head, bytes: Buffer.from(text.slice(end + 1), head.kind === 'json' ? 'utf8' : 'base64') }
}

/** In a column of JSON text as bytes. */
export const bytesOf = (sealed: Sealed): Uint8Array =>
  Buffer.concat([Uint8Array.of(MARK_BYTE), pack(headOf(sealed), [sealed.bytes])])

/** Null for plain bytes. */
export const fromBytes = (bytes: Uint8Array): Sealed | null =>
  bytes[0] === MARK_BYTE ? unpacked(bytes.subarray(1)) : null

export interface Typed {
  type: string
  value: Uint8Array
}

/** In a value with a type. */
export const typedOf = (type: string, sealed: Sealed): Typed => ({
  type: SEALED_TYPE + type,
  value: pack(headOf(sealed), [sealed.bytes]),
})

/** Whether a value with this type is encrypted. */
export const isTyped = (type: string): boolean => type.startsWith(SEALED_TYPE)
export const plainType = (type: string): string => type.slice(SEALED_TYPE.length)
export const unpacked = (value: Uint8Array): Sealed => {
  const { head, rest } = unpack<Head>(value)
  return { ...head, bytes: rest }
}
