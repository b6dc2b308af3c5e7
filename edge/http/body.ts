/**
 * Reads request bodies within limits: by Content-Length before a byte is read, then by count; all bodies in memory share
 * a budget. The bytes are never parsed.
 */
import { ERRORS } from '../../schemas/errors.js'
import type { Exchange } from './exchange.js'

/** Bytes of bodies in the memory of this process. */
export interface Budget {
  held: number
  readonly most: number
}

const BODY_MS = 30_000
const FIRST_GROWTH = 256 * 1024
const EMPTY = new Uint8Array(0)

/** Passes the whole body on; else answers 408, 413 or 429 and closes. The budget is released when the exchange is over. */
export function readBody(exchange: Exchange, limit: number, budget: Budget, onBody: (body: Uint8Array) => void) {
  const { length, encodings } = exchange.received
  if (length > limit) return exchange.refuseAndClose(413, ERRORS.too_large.sentence)
  if (length > 0 && budget.held + length > budget.most) return tooMany(exchange)
  if (length <= 0 && encodings === 0) return onBody(EMPTY)

  let bytes: Buffer | null = null
  let size = 0
  let deadline: NodeJS.Timeout | null = null
  const { onOver } = exchange
  exchange.onOver = () => {
    if (deadline !== null) clearTimeout(deadline)
    budget.held -= size
    onOver?.()
  }
  exchange.onData((chunk, last) => {
    const total = size + chunk.byteLength
    if (total > limit) return closeNow(exchange, 413, ERRORS.too_large.sentence)
    if (budget.held + chunk.byteLength > budget.most) return tooMany(exchange)
    // The chunk's memory is only valid during this call.
    if (bytes === null && last) bytes = Buffer.from(new Uint8Array(chunk))
    else {
      if (bytes === null || total > bytes.length) bytes = grow(bytes, size, total, length)
      bytes.set(new Uint8Array(chunk), size)
    }
    budget.held += chunk.byteLength
    size = total
    if (last) {
      if (deadline !== null) clearTimeout(deadline)
      onBody(bytes.length === size ? bytes : bytes.subarray(0, size))
    } else deadline ??= setTimeout(() => closeNow(exchange, 408, 'The body did not arrive in time'), BODY_MS)
  })
}

/** Grows with the received bytes, not by Content-Length: a header costs the sender nothing. */
function grow(bytes: Buffer | null, size: number, needed: number, announced: number): Buffer {
  const next = Math.max(needed, (bytes?.length ?? 0) * 2, FIRST_GROWTH)
  const out = Buffer.allocUnsafe(announced >= needed ? Math.min(next, announced) : next)
  if (bytes !== null) out.set(bytes.subarray(0, size))
  return out
}

const tooMany = (exchange: Exchange): void => closeNow(exchange, 429, 'Too many request bodies at once')

function closeNow(exchange: Exchange, status: number, detail: string): void {
  exchange.received.close = true
  exchange.error(status, detail)
}
