/**
 * Encryption of states by the server itself, with the encryption keys of its configuration, for applications without
 * handlers of their own (decision 098). What runs store is encrypted whole: values, checkpoints, inputs, results, errors
 * and interrupts. Of metadata, `config`, `context` and items, only the keys that LANGGRAPH_AES_JSON_KEYS names, because
 * searches need the others.
 */
import type { Config } from '../../../schemas/config.js'
import { jsonText, parseJson } from '../../../schemas/exact.js'
import type { JsonObject } from '../../../schemas/json.js'
import type { Owner, Sealed } from './envelope.js'

export interface OwnCipher {
  /** Whether new values are encrypted; those that were encrypted once are decrypted always. */
  encrypts: boolean
  /** Null: the value stays as it is. */
  seal(value: Plain): Uint8Array | null
  /** Throws an Error with one sentence when no key opens it. */
  open(sealed: Sealed): Uint8Array
}

/** The key ring, as far as it is needed here (keys/ring.ts). */
interface Ring {
  sealBytes(bytes: Uint8Array, where: string): Uint8Array
  openBytes(sealed: Uint8Array, where: string): Uint8Array
}

type Plain = Omit<Sealed, 'context' | 'by'>

/** JSON columns that are encrypted whole. */
const WHOLE: ReadonlySet<string> = new Set(['thread.values', 'run.kwargs', 'run.body', 'cron.payload'])
/** The only member of an object that is encrypted whole, and the last one of an object with encrypted members. */
const MEMBER = '__weft_sealed'
/** An object that is encrypted whole does not begin with it. */
const LIST = '['.charCodeAt(0)

/** Throws an Error with one sentence for keys of JSON without encryption. */
export function ownCipher({ encrypt_states, aes_key, aes_json_keys }: Config, ring: Ring): OwnCipher {
  const encrypts = encrypt_states || aes_key !== ''
  if (aes_json_keys !== '' && !encrypts)
    throw new Error('LANGGRAPH_AES_JSON_KEYS needs LANGGRAPH_AES_KEY, or WEFT_ENCRYPT_STATES=true')
  const names = new Set(aes_json_keys.split(',').map(name => name.trim()))
  const isChosen = (key: string) => names.has(key) || key === MEMBER

  return {
    encrypts,
    seal(value) {
      const { kind, model, field, bytes } = value
      if (kind === 'blob') return ring.sealBytes(bytes, placeOf(value))
      const seal = (plain: Uint8Array) => Buffer.from(ring.sealBytes(plain, placeOf(value))).toString('base64')
      if (WHOLE.has(`${model}.${field}`)) return Buffer.from(jsonText({ [MEMBER]: seal(bytes) }))
      const entries = Object.entries(parseJson(Buffer.from(bytes).toString()) as JsonObject)
      const hidden = entries.filter(([key]) => isChosen(key))
      if (hidden.length === 0) return null
      // The order of the keys is kept for whoever prints the value.
      const text = jsonText([entries.map(([key]) => key), Object.fromEntries(hidden)])
      const shown = entries.filter(([key]) => !isChosen(key))
      return Buffer.from(jsonText({ ...Object.fromEntries(shown), [MEMBER]: seal(Buffer.from(text)) }))
    },
    open(sealed) {
      const { kind, bytes } = sealed
      if (kind === 'blob') return ring.openBytes(bytes, placeOf(sealed))
      const { [MEMBER]: hidden, ...shown } = parseJson(Buffer.from(bytes).toString()) as JsonObject
      const plain = ring.openBytes(Buffer.from(String(hidden), 'base64'), placeOf(sealed))
      if (plain[0] !== LIST) return plain
      const [keys, values] = parseJson(Buffer.from(plain).toString()) as [string[], JsonObject]
      const all = { ...shown, ...values }
      return Buffer.from(jsonText(Object.fromEntries(keys.map(key => [key, all[key]]))))
    },
  }
}

/** A value opens in this column of this application only. */
const placeOf = ({ app, kind, model, field }: Pick<Owner, 'app'> & Omit<Plain, 'app' | 'bytes'>): string =>
  `${kind} ${model}.${field} of ${app}`
