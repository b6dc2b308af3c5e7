/**
 * The calls of a supervisor to the resource workers under its leases. A refusal is not an outage: `fenced` is thrown at
 * once, a call without an answer is repeated until the store has been unreachable for a minute.
 */
import type { Answer } from '../../bus/answer.js'
import type { Caller } from '../../bus/call.js'
import type { Job } from '../../bus/queue.js'
import type { Claim, HeartbeatReply, Lease, Release, Released, WakeUp } from '../../schemas/calls.js'
import { WeftError } from '../../schemas/errors.js'
import { poolCall, type Sender } from '../../schemas/subjects.js'

/** An unreachable store pauses a run; after this time the run is given back. */
export const STORE_MS = 60_000
export const HEARTBEAT_MS = 5_000
/** Texts of items are embedded by code of the application, which has 30 s for it. */
const ITEMS_MS = 40_000
/** A resource worker that gives no sign for this time gets no heartbeat: another one does. */
const SILENCE_MS = 2_000

const has = (code: string) => (error: unknown) => error instanceof WeftError && error.code === code
/** A later attempt holds the run. */
export const isFenced = has('fenced')
export const isUnreachable = has('unavailable')

export interface LeaseClient {
  claim(job: Job): Promise<Answer>
  /** The run that the slot of this job is for. `none`: no run may start; `later`: ask again. */
  choose(job: Job): Promise<Pick<WakeUp, 'run_id' | 'thread_id'> | 'none' | 'later'>
  /** Reads checkpoints, or saves them under the lease. */
  checkpoints(verb: 'save' | 'get' | 'list', lease: Lease | null, body: Uint8Array): Promise<Uint8Array>
  /** Operations of the run on the item store. */
  items(lease: Lease, body: Uint8Array): Promise<Uint8Array>
  finish(lease: Lease, body: Uint8Array): Promise<unknown>
  release(lease: Lease, body: Release): Promise<Released>
  /** The stored stream of the run contains nothing from this event on. */
  streamFull(lease: Lease, until: number): Promise<unknown>
  heartbeat(leases: readonly Lease[]): Promise<HeartbeatReply>
  /** No call is repeated from now on. */
  stopRetrying(): void
}

const json = (value: unknown) => Buffer.from(JSON.stringify(value))
const parse = <T>({ body }: Answer) => JSON.parse(Buffer.from(body).toString()) as T

/** `sender`: what this worker serves. */
export function openLeaseClient(caller: Caller, worker: string, sender: Sender): LeaseClient {
  const subject = (noun: 'checkpoints' | 'items' | 'runs', verb: string) => poolCall(sender, noun, verb)
  const stopping = new AbortController()
  const untilStored = () => ({
    timeout: STORE_MS,
    patience: 5_000,
    until: performance.now() + STORE_MS,
    signal: stopping.signal,
  })
  const headOf = (lease: Lease) => ({ request_id: lease.run_id, lease: wireLease(lease) })

  return {
    claim({ run_id, thread_id }) {
      const body = json({ run_id, thread_id, worker } satisfies Claim)
      const options = { timeout: 10_000, patience: 5_000, repeat: true }
      return caller.ask(subject('runs', 'claim'), { request_id: run_id }, body, options)
    },
    async choose({ run_id, thread_id }) {
      const body = json({ run_id, thread_id } satisfies WakeUp)
      const options = { timeout: 10_000, patience: 5_000, repeat: true }
      const { head } = await caller.ask(subject('runs', 'choose'), { request_id: run_id }, body, options)
      return head.chosen ?? (head.claim === 'held' ? 'later' : 'none')
    },
    async checkpoints(verb, lease, body) {
      const head = lease === null ? { request_id: '' } : headOf(lease)
      return (await caller.askUntilAnswered(subject('checkpoints', verb), head, body, untilStored())).body
    },
    items: async (lease, body) =>
      (
        await caller.askUntilAnswered(subject('items', 'batch'), headOf(lease), body, {
          ...untilStored(),
          timeout: ITEMS_MS,
        })
      ).body,
    finish: (lease, body) => caller.askUntilAnswered(subject('runs', 'finish'), headOf(lease), body, untilStored()),
    async release(lease, release) {
      const answer = await caller.askUntilAnswered(
        subject('runs', 'release'),
        headOf(lease),
        json(release),
        untilStored(),
      )
      return parse<Released>(answer)
    },
    streamFull: (lease, kept_until) =>
      caller.askUntilAnswered(
        subject('runs', 'stream_full'),
        { ...headOf(lease), kept_until },
        undefined,
        untilStored(),
      ),
    async heartbeat(leases) {
      const body = json({ worker, runs: leases.map(({ run_id, token }) => ({ run_id, token })) })
      const head = { request_id: worker }
      // A run of which no heartbeat was stored for 12 s is taken over.
      const options = { timeout: HEARTBEAT_MS, silence: SILENCE_MS, repeat: true }
      return parse<HeartbeatReply>(await caller.ask(subject('runs', 'heartbeat'), head, body, options))
    },
    stopRetrying: () => stopping.abort(),
  }
}

/** The fields of a lease that calls carry. */
const wireLease = ({ run_id, thread_id, attempt, token }: Lease): Lease => ({ run_id, thread_id, attempt, token })
