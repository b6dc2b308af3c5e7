/**
 * Bounds what one host may ask of the resource workers, at its own cost: reads wait their turn, at most so many begin in
 * a second, and none begins while the host does not read its answers. The bytes of its questions and answers that wait
 * here are limited; beyond that its pipe is not read. The saves of its runs are never delayed, but count.
 */
import PQueue from 'p-queue'
import { TransientMap } from '../../schemas/transient.js'
import type { GraphHost } from './host-process.js'

/** Reads of one host at the same time. */
const CONCURRENCY = 32
/** The rate is applied in steps of this length. */
const STEP_MS = 100
/** Memory of a question beside its body. */
const QUESTION_BYTES = 4 * 1024

export interface AskLimits {
  /** Reads that begin in one second. */
  reads_per_second: number
  /** Bytes of questions, and of answers that the host has not read. */
  bytes: number
}

/** The members of a host that the gate needs. */
export type AskingHost = Pick<GraphHost, 'pause' | 'resume' | 'drained'>

export interface AskGate {
  /** Asks in turn. A slot with few questions does not wait for another one with many. */
  read(slot: number, size: number, ask: () => Promise<void>): Promise<void>
  /** Asks at once. */
  save(size: number, ask: () => Promise<void>): Promise<void>
  /** The host has ended: what waits is dropped. */
  close(): void
}

export function openAskGate(host: AskingHost, { reads_per_second, bytes: most }: AskLimits): AskGate {
  const queue = new PQueue({
    concurrency: CONCURRENCY,
    interval: STEP_MS,
    intervalCap: Math.max(1, Math.round((reads_per_second * STEP_MS) / 1_000)),
  })
  const waiting = new TransientMap<number, number>()
  let held = 0

  /** The pipe is read again once half of the bytes are free. */
  function hold(bytes: number): void {
    held += bytes
    if (held > most) host.pause(queue)
    else if (held <= most / 2) host.resume(queue)
  }

  async function counted(size: number, ask: () => Promise<void>): Promise<void> {
    const bytes = size + QUESTION_BYTES
    hold(bytes)
    await ask().finally(() => hold(-bytes))
  }

  return {
    read(slot, size, ask) {
      const before = waiting.get(slot) ?? 0
      waiting.set(slot, before + 1)
      const leave = () => {
        const left = waiting.get(slot)! - 1
        if (left > 0) waiting.set(slot, left)
        else waiting.delete(slot)
      }
      const work = async () => {
        leave()
        await ask()
        await host.drained(most)
      }
      return counted(size, () => queue.add(work, { priority: -before }))
    },
    save: counted,
    close() {
      queue.clear()
      waiting.clear()
    },
  }
}
