/** What a deploy worker says to the resource workers: `rpc.deployments.*` (schemas/deploy-calls.ts). */
import { randomUUID } from 'node:crypto'
import type { Caller } from '../../bus/call.js'
import type {
  ActiveDeployment,
  ActiveDeployments,
  Claimed,
  DeployAdvance,
  DeployLog,
  EnvOf,
  Order,
  Renewed,
} from '../../schemas/deploy-calls.js'
import type { Source } from '../../schemas/deployments.js'
import { WeftError } from '../../schemas/errors.js'
import { rpc } from '../../schemas/subjects.js'

export interface Office {
  claim(sources: readonly Source[]): Promise<Claimed>
  renew(order: Order): Promise<Renewed>
  /** Asked again until somebody answers or the lease is surely over; then throws `unavailable`, or `fenced`. */
  advance(order: Order, change: Omit<DeployAdvance, 'deployment_id' | 'revision_id' | 'epoch'>): Promise<void>
  log(batch: DeployLog): Promise<void>
  active(sources: readonly Source[]): Promise<ActiveDeployment[]>
  env(deployment_id: string, revision_id: string): Promise<EnvOf>
  /** The pool is over: its consumer and what is queued there go. */
  retire(pool: string): Promise<void>
}

const INSIST_MS = 60_000
const PAUSE_MS = 500

/** `place` is the folder of this worker: one at a time has it, so it takes over what an earlier one held. */
export function openOffice(caller: Caller, place: string): Office {
  const worker = `${place}#${randomUUID()}`
  async function ask<T>(noun: 'deployments' | 'assistants', verb: string, body: unknown): Promise<T> {
    const options = { timeout: 10_000, patience: 5_000 }
    const head = { request_id: `deployer-${verb}` }
    const answer = await caller.ask(rpc(noun, verb), head, Buffer.from(JSON.stringify(body)), options)
    return (answer.body.length === 0 ? {} : JSON.parse(Buffer.from(answer.body).toString())) as T
  }

  async function insist<T>(work: () => Promise<T>): Promise<T> {
    const until = Date.now() + INSIST_MS
    for (;;) {
      try {
        return await work()
      } catch (error) {
        if (!(error instanceof WeftError) || error.code !== 'unavailable' || Date.now() > until) throw error
        await new Promise(done => setTimeout(done, PAUSE_MS))
      }
    }
  }

  const held = ({ deployment_id, revision_id, epoch }: Order) => ({ deployment_id, revision_id, epoch })
  return {
    claim: sources => ask('deployments', 'claim', { worker, sources, takes_over: `${place}#` }),
    renew: order => ask('deployments', 'renew', held(order)),
    advance: (order, change) => insist(() => ask('deployments', 'advance', { ...held(order), ...change })),
    log: batch => ask('deployments', 'log', batch),
    async active(sources) {
      const { deployments } = await ask<ActiveDeployments>('deployments', 'active', {})
      return deployments.filter(({ source }) => sources.includes(source))
    },
    env: (deployment_id, revision_id) => ask('deployments', 'env', { deployment_id, revision_id }),
    retire: pool => insist(() => ask('assistants', 'retire', { pool })),
  }
}
