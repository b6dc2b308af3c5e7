/**
 * Checks the key of the control plane. The resource worker that made the key stores it; an edge elsewhere asks for its
 * SHA-256, so that the key never travels.
 */
import { hash, timingSafeEqual } from 'node:crypto'
import type { Caller } from '../bus/call.js'
import type { Config } from '../schemas/config.js'
import { rpc } from '../schemas/subjects.js'

export interface ControlKey {
  /** Whether this is the key; rejects with `unavailable` when no worker can tell. */
  matches(key: string, request_id: string): Promise<boolean>
}

/** Cache lifetime of the key digest; a replaced key stops working after this. */
const CACHE_MS = 30_000

/** A key that does not match may be newer than the cached digest; shortest time between two questions. */
const ASK_AGAIN_MS = 1_000

export function openControlKey({ control_key }: Config, caller: Caller): ControlKey {
  const configured = control_key === '' ? null : sha256(control_key)
  let cached: Buffer | null = null
  let cachedAt = 0
  return {
    async matches(key, request_id) {
      const digest = sha256(key)
      if (configured !== null) return timingSafeEqual(digest, configured)
      const age = performance.now() - cachedAt
      if (cached !== null && age < CACHE_MS) {
        if (timingSafeEqual(digest, cached)) return true
        if (age < ASK_AGAIN_MS) return false
      }
      const { body } = await caller.ask(rpc('control', 'key'), { request_id }, undefined, { repeat: true })
      cached = Buffer.from((JSON.parse(Buffer.from(body).toString()) as { sha256: string }).sha256, 'hex')
      cachedAt = performance.now()
      return timingSafeEqual(digest, cached)
    },
  }
}

const sha256 = (text: string): Buffer => hash('sha256', text, 'buffer')
