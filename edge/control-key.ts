/**
 * Checks the key of the control plane. The resource worker that made the key knows it; an edge elsewhere asks for its
 * SHA-256, so that the key never travels.
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import type { Caller } from '../bus/call.js'
import type { Config } from '../schemas/config.js'
import { rpc } from '../schemas/subjects.js'

export interface Control {
  /** Whether this is the key; rejects with `unavailable` when nobody can tell. */
  admits(key: string, request_id: string): Promise<boolean>
}

/** What we were told counts for so long: a key that was replaced opens nothing after that. */
const KEPT_MS = 30_000

/** A key that does not fit may be newer than what we were told; asked again at most so often. */
const ASK_AGAIN_MS = 1_000

export function openControl({ control_key }: Config, caller: Caller): Control {
  const given = control_key === '' ? null : sha256(control_key)
  let told: Buffer | null = null
  let asked = 0
  return {
    async admits(key, request_id) {
      const digest = sha256(key)
      if (given !== null) return timingSafeEqual(digest, given)
      const age = Date.now() - asked
      if (told !== null && age < KEPT_MS) {
        if (timingSafeEqual(digest, told)) return true
        if (age < ASK_AGAIN_MS) return false
      }
      const { body } = await caller.ask(rpc('control', 'key'), { request_id })
      told = Buffer.from((JSON.parse(Buffer.from(body).toString()) as { sha256: string }).sha256, 'hex')
      asked = Date.now()
      return timingSafeEqual(digest, told)
    },
  }
}

const sha256 = (text: string): Buffer => createHash('sha256').update(text).digest()
