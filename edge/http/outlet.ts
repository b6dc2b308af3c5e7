/**
 * Writing to a client at its own speed. After a refused write nothing more is written until the socket says so; a
 * client that takes nothing for a while is cut off and may resume. So one client costs at most one piece beyond what
 * the kernel holds.
 */
import type { Exchange } from './exchange.js'

const PIECE = 64 * 1024
const REARM_MS = 4_000

export class Outlet implements Stalled {
  /** False while something is still to be written: do not write, wait for `onReady`. */
  ready = true
  private rest: Uint8Array | null = null
  private at = 0
  private ending = false
  blockedAt = 0
  armedAt = 0

  constructor(
    private readonly exchange: Exchange,
    private readonly stalls: Stalls,
    private readonly onReady: () => void,
  ) {
    exchange.onWritable(() => {
      this.stalls.remove(this)
      if (this.rest === null) this.ready = true
      else exchange.cork(this.flush)
      if (this.ready) this.advance()
    })
  }

  /** Only while `ready`. */
  write(bytes: Uint8Array): void {
    if (bytes.length === 0) return
    this.rest = bytes
    this.at = 0
    this.exchange.cork(this.flush)
  }

  /** The clean end, after what is still to be written. */
  end(): void {
    this.ending = true
    if (this.rest === null) this.close()
  }

  /** Forgets what is left, because the exchange is over. */
  drop(): void {
    this.rest = null
    this.ready = false
    this.stalls.remove(this)
  }

  rearm(now: number): void {
    this.armedAt = now
    this.exchange.rearm()
  }

  cutOff(): void {
    this.exchange.destroy()
  }

  private advance(): void {
    if (this.ending) this.close()
    else this.onReady()
  }

  private close(): void {
    this.stalls.remove(this)
    this.exchange.end()
  }

  private readonly flush = (): void => {
    const bytes = this.rest!
    this.ready = false
    while (this.at < bytes.length) {
      const piece = this.at === 0 && bytes.length <= PIECE ? bytes : bytes.subarray(this.at, this.at + PIECE)
      this.at += piece.length
      if (this.exchange.write(piece)) continue
      if (this.at >= bytes.length) this.rest = null
      this.stalls.add(this)
      return
    }
    this.rest = null
    this.ready = true
  }
}

/** A connection that may be stuck: when that began, and when uWebSockets.js was last told to be patient. */
export interface Stalled {
  blockedAt: number
  armedAt: number
  rearm(now: number): void
  cutOff(): void
}

/** The connections whose client does not read at the moment. */
export interface Stalls {
  add(one: Stalled): void
  remove(one: Stalled): void
  close(): void
}

/** Cuts off whoever takes nothing for `stall_ms`. */
export function openStalls(stall_ms: number): Stalls {
  const blocked = new Set<Stalled>()
  const timer = setInterval(
    () => {
      const now = Date.now()
      for (const outlet of [...blocked]) {
        if (now - outlet.blockedAt >= stall_ms) outlet.cutOff()
        else if (now - outlet.armedAt >= REARM_MS) outlet.rearm(now)
      }
    },
    Math.min(1_000, Math.max(50, stall_ms / 5)),
  )
  timer.unref()
  return {
    add(outlet) {
      outlet.blockedAt = outlet.armedAt = Date.now()
      blocked.add(outlet)
    },
    remove: outlet => void blocked.delete(outlet),
    close: () => clearInterval(timer),
  }
}
