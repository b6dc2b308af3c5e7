/** Batches that cannot be delivered yet, because the client or a replay is behind. */
import type { Batch } from '../../bus/follow.js'

const MAX_BYTES = 256 * 1024

export class Backlog {
  batches: Batch[] = []
  /**
   * Events behind these batches were dropped: a replay has to bring them. While it does, only replayed events are
   * stored here.
   */
  overflowed = false
  private bytes = 0

  /** Stores a live batch; when there is no room it drops all and sets `overflowed`. */
  push(batch: Batch): void {
    if (this.overflowed) return
    if (this.bytes + batch.bytes.length <= MAX_BYTES) return this.store(batch)
    this.clear()
    this.overflowed = true
  }

  /** Stores a replayed batch; false when there is no room. */
  pushReplayed(batch: Batch): boolean {
    if (!this.overflowed) {
      this.clear()
      this.overflowed = true
    } else if (this.bytes + batch.bytes.length > MAX_BYTES) return false
    this.store(batch)
    return true
  }

  /** Hands out batches from the front until `take` refuses one. */
  drain(take: (batch: Batch) => boolean): void {
    let taken = 0
    for (const batch of this.batches) {
      if (!take(batch)) break
      this.bytes -= batch.bytes.length
      taken++
    }
    if (taken > 0) this.batches = this.batches.slice(taken)
  }

  clear(): void {
    this.batches = []
    this.bytes = 0
  }

  /** A copy: the bytes of a message keep the whole read of the socket alive. */
  private store(batch: Batch): void {
    this.batches.push({ ...batch, bytes: Buffer.from(batch.bytes) })
    this.bytes += batch.bytes.length
  }
}
