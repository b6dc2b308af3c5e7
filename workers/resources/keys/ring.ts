/**
 * Encryption at rest: AES-256-GCM with one data key per value, wrapped with the first key of the ring. A sealed text
 * names the key it needs, so keys can be rotated, and is bound to its location (`where`): a copy in another record does
 * not open.
 *
 *   w1.<key id>.<data key, wrapped>.<text, encrypted>      both base64url of iv, tag, ciphertext
 */
import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from 'node:crypto'
import { join } from 'node:path'
import type { Config } from '../../../schemas/config.js'
import { readOrCreateSecret } from './secret-file.js'

export interface KeyRing {
  /** Id of the key that encrypts: not secret. */
  readonly id: string
  /** The text, readable only with the ring and for the same `where`. */
  seal(text: string, where: string): string
  /** The sealed text; throws an Error with one sentence when no key of the ring opens it, or when it was changed. */
  open(sealed: string, where: string): string
  /** The same for bytes: one byte 1, the key id, the data key, wrapped, and the bytes, encrypted. */
  sealBytes(bytes: Uint8Array, where: string): Uint8Array
  openBytes(sealed: Uint8Array, where: string): Uint8Array
  /** Keyed digests of a text, that of the first key first: equal texts have equal digests. */
  prints(text: string): string[]
  /** The same text encrypted with the first key; null when it already is. */
  renew(sealed: string, where: string): string | null
}

const CIPHER = 'aes-256-gcm'
const IV = 12
const TAG = 16
const KEY = 32
/** Bytes of the id of a key, and of a data key that is wrapped. */
const ID = 6
const WRAPPED = IV + TAG + KEY

/** The ring of the configured keys, else of the key in `<data>/encryption.key`, which is made at first start. */
export const keyRingOf = ({ encryption_key, aes_key, data }: Config): KeyRing =>
  openRing(
    encryption_key ||
      aes_key ||
      readOrCreateSecret(join(data, 'encryption.key'), () => randomBytes(32).toString('base64')),
  )

/** `text`: keys of at least 16 characters, comma-separated. Throws an Error with one sentence when it holds none. */
export function openRing(text: string): KeyRing {
  const keys = text.split(',').flatMap(one => (one.trim() === '' ? [] : [keyOf(one.trim())]))
  const [first] = keys
  if (first === undefined) throw new Error('WEFT_ENCRYPTION_KEY holds no key')

  /** The data key of a sealed text, and the text as it is encrypted with it. */
  function unwrap(sealed: string, where: string): { id: string; key: Buffer; body: string } {
    const [version, id = '', wrapped, body] = sealed.split('.')
    if (version !== 'w1' || wrapped === undefined || body === undefined)
      throw new Error(`${where} is not a sealed text`)
    return { id, key: decrypt(wrapped, masterOf(id, where), where), body }
  }

  function masterOf(id: string, where: string): Buffer {
    const master = keys.find(one => one.id === id)
    if (master === undefined)
      throw new Error(`${where} needs the encryption key ${id}, which is not among the configured ones`)
    return master.bytes
  }

  const wrap = (key: Buffer, body: string, where: string): string =>
    `w1.${first.id}.${encrypt(key, first.bytes, where)}.${body}`

  return {
    id: first.id,
    seal(text, where) {
      const key = randomBytes(KEY)
      return wrap(key, encrypt(Buffer.from(text), key, where), where)
    },
    open(sealed, where) {
      const { key, body } = unwrap(sealed, where)
      return decrypt(body, key, where).toString()
    },
    sealBytes(bytes, where) {
      const key = randomBytes(KEY)
      const wrapped = encryptBytes(key, first.bytes, where)
      return Buffer.concat([Buffer.of(1), Buffer.from(first.id, 'hex'), wrapped, encryptBytes(bytes, key, where)])
    },
    openBytes(sealed, where) {
      const bytes = Buffer.from(sealed.buffer, sealed.byteOffset, sealed.length)
      if (bytes[0] !== 1 || bytes.length < 1 + ID + WRAPPED) throw new Error(`${where} holds no encrypted bytes`)
      const master = masterOf(bytes.toString('hex', 1, 1 + ID), where)
      const key = decryptBytes(bytes.subarray(1 + ID, 1 + ID + WRAPPED), master, where)
      return decryptBytes(bytes.subarray(1 + ID + WRAPPED), key, where)
    },
    prints: text => keys.map(({ bytes }) => createHmac('sha256', bytes).update('print ').update(text).digest('hex')),
    renew(sealed, where) {
      const { id, key, body } = unwrap(sealed, where)
      return id === first.id ? null : wrap(key, body, where)
    },
  }
}

/**
 * Any text is a key: LangGraph's have 16, 24 or 32 characters, ours 32 bytes in base64. The encryption key and its id
 * are derived from it; the id reveals nothing about it.
 */
function keyOf(text: string): { id: string; bytes: Buffer } {
  if (text.length < 16) throw new Error('an encryption key must have at least 16 characters')
  const derived = (info: string, size: number) => Buffer.from(hkdfSync('sha256', text, 'weft', info, size))
  return { id: derived('id', 6).toString('hex'), bytes: derived('key', 32) }
}

const encrypt = (data: Buffer, key: Buffer, where: string): string =>
  encryptBytes(data, key, where).toString('base64url')

const decrypt = (text: string, key: Buffer, where: string): Buffer =>
  decryptBytes(Buffer.from(text, 'base64url'), key, where)

/** The iv, the tag and the ciphertext. */
function encryptBytes(data: Uint8Array, key: Buffer, where: string): Buffer {
  const iv = randomBytes(IV)
  const cipher = createCipheriv(CIPHER, key, iv).setAAD(Buffer.from(where))
  const body = Buffer.concat([cipher.update(data), cipher.final()])
  return Buffer.concat([iv, cipher.getAuthTag(), body])
}

function decryptBytes(data: Buffer, key: Buffer, where: string): Buffer {
  try {
    const decipher = createDecipheriv(CIPHER, key, data.subarray(0, IV), { authTagLength: TAG })
    decipher.setAAD(Buffer.from(where)).setAuthTag(data.subarray(IV, IV + TAG))
    return Buffer.concat([decipher.update(data.subarray(IV + TAG)), decipher.final()])
  } catch {
    throw new Error(`${where} cannot be opened: it was changed, or belongs elsewhere`)
  }
}

/** The location that the client secret of a provider is bound to. */
export const secretPlace = (id: string): string => `client secret of provider ${id}`

/** The location that a version of secrets is bound to. */
export const secretsPlace = (deployment_id: string, secrets_id: string): string =>
  `secrets ${secrets_id} of deployment ${deployment_id}`

/** The location that a token of a grant is bound to. */
export const tokenPlace = (token_id: string, member: 'access_token' | 'refresh_token'): string =>
  `${member} of grant ${token_id}`

/** The location that the PKCE verifier of a flow is bound to. */
export const verifierPlace = (auth_id: string): string => `verifier of flow ${auth_id}`
