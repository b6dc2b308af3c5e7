/**
 * Two changes to globals of the host process, imported before everything else. User code can observe them, so they are
 * decided here, openly, and nowhere else.
 *
 * - `process.env` becomes a plain object. The libraries read it on each call, and each read of the real one is a system
 *   call with a lock: 4.5 % of a busy host. The cost: a write no longer reaches the C environment (TZ is the variable
 *   that matters) and is not converted to a string; child processes still receive the written values.
 * - Small random numbers come from a pool (`crypto.getRandomValues`, `crypto.randomFillSync`, up to 64 bytes): 9.5 %,
 *   because the libraries make many ids. The system's generator fills the pool; each byte is used once and wiped.
 *
 * Together 1.15–1.21 × the runs per second of a warm host.
 *
 * A third change is a setting: callbacks are awaited. In the background mode, the library's default, tokens pass
 * through one queue for the whole process; a stream that ends before its turn loses them, and one slow handler delays
 * all runs. The setting must be made before the library makes its first handler.
 */
import crypto from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'

process.env = { ...process.env, LANGCHAIN_CALLBACKS_BACKGROUND: 'false' }

const LARGEST = 64
const pool = Buffer.alloc(16 * 1024)
let at = pool.length

/** Fills `out` from the pool; returns false if it is too large for the pool. */
function fill(out: Uint8Array): boolean {
  if (out.length > LARGEST) return false
  if (at + out.length > pool.length) {
    randomFillSync(pool)
    at = 0
  }
  for (let i = 0; i < out.length; i++) {
    out[i] = pool[at]!
    pool[at++] = 0
  }
  return true
}

const bytesOf = (view: unknown): Uint8Array | null =>
  ArrayBuffer.isView(view) && !(view instanceof Float32Array || view instanceof Float64Array)
    ? new Uint8Array(view.buffer, view.byteOffset, view.byteLength)
    : null

const randomFillSync = crypto.randomFillSync.bind(crypto)
const getRandomValues = crypto.webcrypto.getRandomValues.bind(crypto.webcrypto)

function pooledValues<T extends Exclude<NodeJS.TypedArray, Float32Array | Float64Array>>(out: T): T {
  const bytes = bytesOf(out)
  return bytes !== null && fill(bytes) ? out : (getRandomValues(out as never) as T)
}

function pooledFill(out: NodeJS.ArrayBufferView, offset?: number, size?: number): NodeJS.ArrayBufferView {
  const bytes = offset === undefined && size === undefined ? bytesOf(out) : null
  if (bytes !== null && fill(bytes)) return out
  return (randomFillSync as (...all: unknown[]) => NodeJS.ArrayBufferView)(
    out,
    ...[offset, size].filter(value => value !== undefined),
  )
}

// `crypto.getRandomValues` of node:crypto reads this property.
crypto.webcrypto.getRandomValues = pooledValues as never
Object.assign(crypto, { randomFillSync: pooledFill })
syncBuiltinESMExports()
