/**
 * Writes to a client at its speed. After a refused write nothing more is written until the socket drains; a client that
 * reads nothing for a while is disconnected and may resume. So one client costs at most one piece beyond the kernel's
 * buffer.
 */

import { TransientSet } from '../../schemas/transient.js'
import type { Exchange } from './exchange.js'

const PIECE = 64 * 1024
const REARM_MS = 4_000

export class Outlet implements StallEntry {
  /** False while bytes wait to be written: do not write, wait for `onReady`. */
  ready = true
  private rest: Uint8Array | null = null
  private at = 0
  private gathered: Uint8Array[] = []
  private gatheredBytes = 0
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

  /**
   * Only while `ready`, and without `write`: written together with what else is gathered in this turn of the event loop.
   * A replay so costs a few system calls instead of one for each message.
   */
  gather(bytes: Uint8Array): void {
    if (bytes.length === 0) return
    if (this.gathered.length === 0) queueMicrotask(this.release)
    this.gathered.push(bytes)
    this.gatheredBytes += bytes.length
    if (this.gatheredBytes >= PIECE) this.release()
  }

  /** The clean end, after the bytes that wait. */
  end(): void {
    this.release()
    this.ending = true
    if (this.rest === null) this.close()
  }

  /** Drops the bytes that wait, because the exchange is over. */
  drop(): void {
    this.rest = null
    this.gathered = []
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

  private readonly release = (): void => {
    const { gathered } = this
    if (gathered.length === 0) return
    this.gathered = []
    this.gatheredBytes = 0
    this.write(gathered.length === 1 ? gathered[0]! : Buffer.concat(gathered))
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

/** A connection whose client does not read: since when, and when the timeout of uWebSockets.js was last restarted. */
export interface StallEntry {
  blockedAt: number
  armedAt: number
  rearm(now: number): void
  cutOff(): void
}

/** The connections whose client does not read now. */
export interface Stalls {
  add(one: StallEntry): void
  remove(one: StallEntry): void
  size(): number
  close(): void
}

/** Disconnects a client that reads nothing for `stall_ms`, and calls `onCutOff`. */
export function openStalls(stall_ms: number, onCutOff: () => void = () => {}): Stalls {
  const blocked = new TransientSet<StallEntry>()
  const timer = setInterval(
    () => {
      const now = performance.now()
      for (const outlet of [...blocked]) {
        if (now - outlet.blockedAt >= stall_ms) {
          onCutOff()
          outlet.cutOff()
        } else if (now - outlet.armedAt >= REARM_MS) outlet.rearm(now)
      }
    },
    Math.min(1_000, Math.max(50, stall_ms / 5)),
  )
  timer.unref()
  return {
    add(outlet) {
      outlet.blockedAt = outlet.armedAt = performance.now()
      blocked.add(outlet)
    },
    remove: outlet => void blocked.delete(outlet),
    size: () => blocked.size,
    close: () => clearInterval(timer),
  }
}
