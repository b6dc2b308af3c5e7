/**
 * What a supervisor asks of the resource workers under its leases. Refused is not unreachable: `fenced` is thrown at
 * once, what nobody answered is asked again until the store has been away for a minute.
 */
import type { Answer, Caller } from '../../bus/call.js'
import type { Job } from '../../bus/queue.js'
import type { Beaten, Lease, Release, Released } from '../../schemas/calls.js'
import { WeftError } from '../../schemas/errors.js'
import { rpc } from '../../schemas/subjects.js'

/** An unreachable store pauses a run; after so long it is given back. */
export const STORE_MS = 60_000
export const BEAT_MS = 5_000
const AGAIN_MS = 250

const is = (code: string) => (error: unknown) => error instanceof WeftError && error.code === code
/** A later attempt holds the run. */
export const isFenced = is('fenced')
export const isUnreachable = is('unavailable')

export interface Authority {
  claim(job: Job, hb?: number): Promise<Answer>
  /** Asks for checkpoints, or saves them under the lease. */
  checkpoints(verb: 'save' | 'get' | 'list', lease: Lease | null, body: Uint8Array): Promise<Uint8Array>
  finish(lease: Lease, body: Uint8Array): Promise<unknown>
  release(lease: Lease, body: Release): Promise<Released>
  /** The stored stream of the run keeps nothing from this event on. */
  kept(lease: Lease, until: number): Promise<unknown>
  beat(leases: readonly Lease[]): Promise<Beaten>
  /** From now on nothing is asked twice. */
  hurry(): void
}

const json = (value: unknown) => Buffer.from(JSON.stringify(value))

export function openAuthority(caller: Caller, worker: string): Authority {
  const calm = { timeout: 15_000, patience: 5_000 }
  let hurried = false

  async function persist<T>(work: () => Promise<T>): Promise<T> {
    const until = Date.now() + STORE_MS
    for (;;) {
      try {
        return await work()
      } catch (error) {
        if (!isUnreachable(error) || Date.now() > until || hurried) throw error
        await new Promise(done => setTimeout(done, AGAIN_MS))
      }
    }
  }

  return {
    claim({ run_id, thread_id }, hb) {
      const body = json({ run_id, thread_id, worker, ...(hb === undefined ? {} : { hb }) })
      return caller.ask(rpc('runs', 'claim'), { request_id: run_id }, body, { timeout: 10_000, patience: 5_000 })
    },
    async checkpoints(verb, lease, body) {
      const head = lease === null ? { request_id: '' } : { request_id: lease.run_id, lease: leaseOf(lease) }
      return (await persist(() => caller.ask(rpc('checkpoints', verb), head, body, calm))).body
    },
    finish: (lease, body) =>
      persist(() => caller.ask(rpc('runs', 'finish'), { request_id: lease.run_id, lease: leaseOf(lease) }, body, calm)),
    async release(lease, release) {
      const head = { request_id: lease.run_id, lease: leaseOf(lease) }
      const { body } = await persist(() => caller.ask(rpc('runs', 'release'), head, json(release), calm))
      return JSON.parse(Buffer.from(body).toString()) as Released
    },
    kept: (lease, kept_until) =>
      persist(() => caller.ask(rpc('runs', 'kept'), { request_id: lease.run_id, lease: leaseOf(lease), kept_until })),
    async beat(leases) {
      const body = json({ worker, runs: leases.map(({ run_id, token }) => ({ run_id, token })) })
      const answer = await caller.ask(rpc('runs', 'heartbeat'), { request_id: worker }, body, { timeout: BEAT_MS })
      return JSON.parse(Buffer.from(answer.body).toString()) as Beaten
    },
    hurry() {
      hurried = true
    },
  }
}

/** What travels of a lease. */
const leaseOf = ({ run_id, thread_id, attempt, token }: Lease): Lease => ({ run_id, thread_id, attempt, token })
