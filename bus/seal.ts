/**
 * Sealed answers. All processes of a role share the rights of its broker user, so each of them could subscribe to the
 * inboxes of the others and read, for example, the input and the lease token of a claim. A caller whose role is not one
 * trust domain therefore sends a random key with each message of calls, which only resource workers can receive; its
 * answers are encrypted and authenticated with it. An answer of anybody else cannot be opened.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import type { Role } from './connect.js'
import { KIND, messagesOf, NOTHING } from './envelope.js'

/** Graph workers run code of several applications; answers to deploy workers contain secrets of deployments. */
const SEALED: readonly Role[] = ['graphs', 'deployer']

const CIPHER = 'aes-256-gcm'
const KEY_BYTES = 32
const NONCE_BYTES = 12
const TAG_BYTES = 16

/** Bytes that a seal adds to a message. */
export const SEAL_BYTES = NONCE_BYTES + TAG_BYTES

export interface Seal {
  key: Uint8Array
  /** The message of calls with the key in front. */
  attach(message: Uint8Array): Uint8Array
  /** The content of a sealed answer. Throws an Error for any other message. */
  open(message: Uint8Array): Uint8Array
}

/** Null for a role whose answers travel as they are. */
export function openSeal(role: Role): Seal | null {
  if (!SEALED.includes(role)) return null
  const key = randomBytes(KEY_BYTES)
  const entry = messagesOf([{ kind: KIND.key, id: 0, time: 0, head: NOTHING, body: key }]).next().value!
  return {
    key,
    attach: message => Buffer.concat([entry, message]),
    open(message) {
      const decipher = createDecipheriv(CIPHER, key, message.subarray(0, NONCE_BYTES))
      decipher.setAuthTag(message.subarray(NONCE_BYTES, SEAL_BYTES))
      return Buffer.concat([decipher.update(message.subarray(SEAL_BYTES)), decipher.final()])
    },
  }
}

/** The answer for a caller with this key: nonce, tag, encrypted content. Throws a RangeError for a key of another size. */
export function seal(key: Uint8Array, message: Uint8Array): Uint8Array {
  const nonce = freshNonce()
  const cipher = createCipheriv(CIPHER, key, nonce)
  const content = cipher.update(message)
  cipher.final()
  return Buffer.concat([nonce, cipher.getAuthTag(), content])
}

/** Random bytes are drawn for many nonces at once: a draw for each costs 3 µs. */
let nonces = Buffer.alloc(0)
function freshNonce(): Uint8Array {
  if (nonces.length === 0) nonces = randomBytes(NONCE_BYTES * 1_000)
  const nonce = nonces.subarray(0, NONCE_BYTES)
  nonces = nonces.subarray(NONCE_BYTES)
  return nonce
}

export const isKey = (body: Uint8Array): boolean => body.length === KEY_BYTES
