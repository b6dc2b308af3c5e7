/** The interface of the host for its runs and calls. */
import type { CheckpointQuery } from '../../schemas/checkpoints.js'
import type { ErrorCode } from '../../schemas/errors.js'
import type { CallFailure } from '../../schemas/host.js'
import { ASK, type Frame } from '../pipe.js'
import type { Application } from './application.js'
import type { NodeGates } from './guards/node-gate.js'

const encoder = new TextEncoder()

/** The store refused the request: a later attempt holds the run. */
export class Refused extends Error {}

/** The store did not answer, or failed. */
export class Unanswered extends Error {}

export const failure = (code: ErrorCode, detail: string): CallFailure => ({ code, detail })

export interface Host {
  application: Application
  gates: NodeGates
  /** The slot whose code is running; 0 = none. */
  slot(): number
  send(frame: Partial<Frame> & { kind: number }): void
  ask(slot: number, flags: number, body: Uint8Array): Promise<Uint8Array>
  later(callback: () => void): void
  /** Null while the pipe accepts frames of this slot; else resolves when it accepts them again. */
  drained(slot: number): Promise<void> | null
}

/** Where a saver keeps checkpoints. */
export interface SaverTransport {
  save(thread_id: string, body: Uint8Array): Promise<void>
  /** Packed TuplesHead and parts. */
  get(query: CheckpointQuery): Promise<Uint8Array>
  list(query: CheckpointQuery): Promise<Uint8Array>
  /** Absent for a saver that must not delete threads: inside a run. */
  remove?(thread_id: string): Promise<void>
  /** The threads for a list that names no thread; absent inside a run, which has one thread. */
  threads?(): Promise<string[]>
}

/** Sends the requests of a saver in the frames of a slot; the supervisor adds run, attempt and token. */
export function transportOf(host: Host, slot: number): SaverTransport {
  const query = (flags: number) => (question: CheckpointQuery) =>
    host.ask(slot, flags, encoder.encode(JSON.stringify(question)))
  return {
    async save(_thread, body) {
      await host.ask(slot, ASK.save, body)
    },
    get: query(ASK.get),
    list: query(ASK.list),
  }
}
