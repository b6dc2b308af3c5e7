/**
 * Holds the writes of a run that are not stored yet. The durability decides when they are sent: `sync` waits for the
 * answer of every put, `async` sends once per event-loop turn with at most one save in flight, `exit` sends nothing
 * before the end. The rest travels in the finish frame (`take`).
 *
 * A part that is too large closes the outbox, as a failed save does: no later part may refer to a part that was never
 * stored.
 */
import type { BlobEntry, CheckpointEntry, SaveHead, WriteEntry } from '../../../schemas/checkpoints.js'
import { pack } from '../../../schemas/packed.js'
import type { Durability } from '../../../schemas/runs.js'
import { LARGEST_STATE, StateTooLarge } from '../limits.js'

export interface Part {
  checkpoint?: { entry: CheckpointEntry; value: Uint8Array; metadata: Uint8Array }
  blobs?: { entry: BlobEntry; value: Uint8Array }[]
  writes?: { entry: WriteEntry; value: Uint8Array }[]
}

export interface Outbox {
  /** Resolves when the durability's condition for the part is met; rejects when a save failed. */
  add(thread_id: string, part: Part): Promise<void>
  /** Resolves when all added parts are stored. */
  flush(): Promise<void>
  /** Ends the outbox: waits for the save in flight and returns the parts that were never sent (empty = nothing). */
  take(): Promise<Uint8Array>
  /** Rejects further parts with this error; parts that were added before are still sent. */
  close(error: unknown): void
  /** True if the outbox is closed or a save failed: later writes of the run are not stored. */
  isBroken(): boolean
}

export interface OutboxOptions {
  durability: Durability
  save(thread_id: string, body: Uint8Array): Promise<void>
  /** Reports that a save failed: the run must stop. Called once. */
  failed(error: unknown): void
}

const NOTHING = new Uint8Array(0)

export function outbox({ durability, save, failed }: OutboxOptions): Outbox {
  let parts: Part[] = []
  let thread: string | null = null
  let flight: Promise<void> | null = null
  let due: NodeJS.Immediate | null = null
  let broken: { error: unknown } | null = null
  let ended = false

  const close = (error: unknown) => {
    if (broken === null) failed(error)
    broken ??= { error }
  }
  /** Sends a limited number of bytes: a save has a size limit, the queue of steps has no limit. */
  const send = (): Promise<void> => {
    let count = 0
    for (let size = 0; count < parts.length; count++) {
      size += sizeOf(parts[count]!)
      if (count > 0 && size > LARGEST_STATE) break
    }
    const body = packParts(parts.splice(0, count))
    const sent = save(thread!, body)
    flight = sent
      .catch(error => {
        parts = []
        close(error)
      })
      .finally(() => {
        flight = null
        if (parts.length > 0 && durability !== 'exit') soon()
      })
    return flight
  }
  const soon = () => {
    due ??= setImmediate(() => {
      due = null
      if (!ended && parts.length > 0 && flight === null) send()
    })
  }
  const flush = async () => {
    while (parts.length > 0 || flight !== null) {
      await (flight ?? send())
      if (broken !== null) throw broken.error
    }
  }
  return {
    async add(thread_id, part) {
      if (ended) return
      if (broken !== null) throw broken.error
      if (thread !== null && thread !== thread_id) await flush()
      thread = thread_id
      const size = sizeOf(part)
      if (size > LARGEST_STATE) {
        const error = new StateTooLarge('The values to be saved', size)
        close(error)
        throw error
      }
      parts.push(part)
      if (durability === 'exit') return
      if (durability === 'async') return soon()
      // Sent at the end of the turn, so that the writes of a step and its checkpoint travel together.
      await new Promise(resolve => setImmediate(resolve))
      await flush()
    },
    flush,
    async take() {
      ended = true
      if (due !== null) clearImmediate(due)
      await flight
      // `exit` saves everything or nothing.
      if (broken !== null && durability === 'exit') parts = []
      const most = broken === null ? LARGEST_STATE : 0
      while (parts.reduce((all, part) => all + sizeOf(part), 0) > most) await send()
      const rest = parts.length > 0 ? packParts(parts) : NOTHING
      parts = []
      return rest
    },
    close,
    isBroken: () => broken !== null,
  }
}

function sizeOf({ checkpoint, blobs = [], writes = [] }: Part): number {
  let size = checkpoint === undefined ? 0 : checkpoint.value.length + checkpoint.metadata.length
  for (const { value } of blobs) size += value.length
  for (const { value } of writes) size += value.length
  return size
}

function packParts(parts: readonly Part[]): Uint8Array {
  const head: SaveHead = { checkpoints: [], blobs: [], writes: [] }
  const first: Uint8Array[] = []
  const second: Uint8Array[] = []
  const third: Uint8Array[] = []
  for (const { checkpoint, blobs = [], writes = [] } of parts) {
    if (checkpoint !== undefined) {
      head.checkpoints.push(checkpoint.entry)
      first.push(checkpoint.value, checkpoint.metadata)
    }
    for (const { entry, value } of blobs) {
      head.blobs.push(entry)
      second.push(value)
    }
    for (const { entry, value } of writes) {
      head.writes.push(entry)
      third.push(value)
    }
  }
  return pack(head, [...first, ...second, ...third])
}
