/**
 * Checks the key of the control plane. The resource worker that made the key stores it; an edge elsewhere asks for its
 * SHA-256, so that the key never travels.
 */
import { hash, timingSafeEqual } from 'node:crypto'
import type { Caller } from '../bus/call.js'
import { type Config, controlKeysOf } from '../schemas/config.js'
import { rpc } from '../schemas/subjects.js'

export interface ControlKey {
  /** Whether this is the key; rejects with `unavailable` when no worker can tell. */
  matches(key: string, request_id: string): Promise<boolean>
  /** The same for a text that is probably none: the answer may be half a minute old. */
  isKey(text: string, request_id: string): boolean | Promise<boolean>
}

/** Cache lifetime of the key digest; a replaced key stops working after this. */
const CACHE_MS = 30_000

/** A key that does not match may be newer than the cached digest; shortest time between two questions. */
const ASK_AGAIN_MS = 1_000

export function openControlKey(config: Pick<Config, 'control_key'>, caller: Caller): ControlKey {
  const given = controlKeysOf(config)
  const configured = given.length === 0 ? null : given.map(sha256)
  let cached: Buffer[] | null = null
  let cachedAt = 0

  async function read(request_id: string): Promise<Buffer[]> {
    const { body } = await caller.ask(rpc('control', 'key'), { request_id }, undefined, { repeat: true })
    const { sha256, more = [] } = JSON.parse(Buffer.from(body).toString()) as { sha256: string; more?: string[] }
    cached = [sha256, ...more].map(hex => Buffer.from(hex, 'hex'))
    cachedAt = performance.now()
    return cached
  }

  /** One question at a time. */
  let asking: Promise<Buffer[]> | null = null
  const ask = (request_id: string): Promise<Buffer[]> => {
    asking ??= read(request_id).finally(() => (asking = null))
    return asking
  }

  return {
    async matches(key, request_id) {
      const digest = sha256(key)
      if (configured !== null) return isOneOf(digest, configured)
      const age = performance.now() - cachedAt
      if (cached !== null && age < CACHE_MS) {
        if (isOneOf(digest, cached)) return true
        if (age < ASK_AGAIN_MS) return false
      }
      return isOneOf(digest, await ask(request_id))
    },
    isKey(text, request_id) {
      const digest = sha256(text)
      if (configured !== null) return isOneOf(digest, configured)
      if (cached !== null && performance.now() - cachedAt < CACHE_MS) return isOneOf(digest, cached)
      // While no worker answers, the last known key is still the one to look for.
      const known = ask(request_id).catch(error => cached ?? Promise.reject(error))
      return known.then(one => isOneOf(digest, one))
    },
  }
}

const isOneOf = (digest: Buffer, known: readonly Buffer[]): boolean => known.some(one => timingSafeEqual(digest, one))

const sha256 = (text: string): Buffer => hash('sha256', text, 'buffer')
