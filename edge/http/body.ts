/**
 * Reads request bodies within limits: by Content-Length before a byte is read, then by count; all bodies in memory share
 * a budget. The bytes are not parsed here. A body leaves the budget when a worker has answered its call, not at the end of
 * the answer: a stream lasts as long as its run.
 */
import { ERRORS } from '../../schemas/errors.js'
import type { Exchange } from './exchange.js'

/** Bytes of bodies in the memory of this process. */
export interface Budget {
  held: number
  readonly most: number
  /** The part of `held` whose length was not announced. Chunked bodies announce none, so they have a separate limit. */
  unannounced: number
  readonly mostUnannounced: number
}

/** Share of the budget for bodies without a Content-Length; the bodies of the SDKs have one. */
const UNANNOUNCED_SHARE = 1 / 4

export const openBudget = (most: number, limit: number): Budget => ({
  held: 0,
  most,
  unannounced: 0,
  mostUnannounced: Math.min(most, Math.max(limit, most * UNANNOUNCED_SHARE)),
})

/**
 * Members and elements of a body that the edge itself parses: its event loop serves every stream. The bodies of the API are
 * parsed by workers, which take more.
 */
export const EDGE_VALUES = 100_000

const BODY_MS = 30_000
const FIRST_BLOCK = 16 * 1024
const LARGEST_BLOCK = 1024 * 1024
const EMPTY = new Uint8Array(0)

/** Passes the whole body on; else answers 408, 413 or 429 and closes. */
export function readBody(exchange: Exchange, limit: number, budget: Budget, onBody: (body: Uint8Array) => void): void {
  const { length, encodings } = exchange.received
  if (length > limit) return exchange.refuseAndClose(413, ERRORS.too_large.sentence)
  if (length > 0 && budget.held + length > budget.most) return tooMany(exchange)
  if (length <= 0 && encodings === 0) return onBody(EMPTY)

  const announced = encodings === 0
  const blocks = new Blocks(announced ? length : limit)
  let counted = 0
  const count = (bytes: number) => {
    counted += bytes
    budget.held += bytes
    if (!announced) budget.unannounced += bytes
  }
  let deadline: NodeJS.Timeout | null = null
  const { onOver } = exchange
  const release = () => {
    if (deadline !== null) clearTimeout(deadline)
    blocks.clear()
    count(-counted)
  }
  exchange.releaseBody = release
  exchange.onOver = () => {
    release()
    onOver?.()
  }
  exchange.onData((chunk, last) => {
    if (blocks.size + chunk.byteLength > limit) return closeNow(exchange, 413, ERRORS.too_large.sentence)
    const growth = blocks.growthFor(chunk.byteLength, last)
    if (budget.held + growth > budget.most) return tooMany(exchange)
    if (!announced && budget.unannounced + growth > budget.mostUnannounced) return tooMany(exchange)
    count(growth)
    blocks.push(new Uint8Array(chunk), last)
    if (!last) {
      deadline ??= setTimeout(() => closeNow(exchange, 408, 'The body did not arrive in time'), BODY_MS)
      return
    }
    if (deadline !== null) clearTimeout(deadline)
    onBody(blocks.take())
  })
}

/**
 * Bytes in blocks that are filled in turn. Blocks grow with the received bytes, not by Content-Length: a header costs
 * the sender nothing. One buffer that doubles would hold three times its bytes while it grows.
 */
class Blocks {
  size = 0
  private blocks: Buffer[] = []
  private free = 0

  /** The body is not longer than `most`. */
  constructor(private readonly most: number) {}

  /** Bytes of memory that `push` will add. */
  growthFor(bytes: number, last: boolean): number {
    const missing = bytes - this.free
    if (missing <= 0) return 0
    if (last) return missing
    const block = Math.min(Math.max(FIRST_BLOCK, this.size), LARGEST_BLOCK)
    return Math.max(missing, Math.min(block, this.most - this.size - this.free))
  }

  /** Copies the bytes: their memory is only valid during the call. */
  push(bytes: Uint8Array, last: boolean): void {
    const growth = this.growthFor(bytes.length, last)
    const current = this.blocks.at(-1)
    const fits = Math.min(bytes.length, this.free)
    if (current !== undefined && fits > 0) current.set(bytes.subarray(0, fits), current.length - this.free)
    this.free -= fits
    if (growth > 0) {
      const block = Buffer.allocUnsafeSlow(growth)
      block.set(bytes.subarray(fits))
      this.blocks.push(block)
      this.free = growth - (bytes.length - fits)
    }
    this.size += bytes.length
  }

  /** The whole, once. */
  take(): Uint8Array {
    const { blocks, size } = this
    this.clear()
    return blocks.length === 1 ? blocks[0]!.subarray(0, size) : Buffer.concat(blocks, size)
  }

  clear(): void {
    this.blocks = []
    this.free = 0
    this.size = 0
  }
}

const tooMany = (exchange: Exchange): void => closeNow(exchange, 429, 'Too many request bodies at once')

function closeNow(exchange: Exchange, status: number, detail: string): void {
  exchange.received.close = true
  exchange.error(status, detail)
}
