/** The calls of a deploy worker to the resource workers: `rpc.deployments.*` (schemas/deploy-calls.ts). */
import { randomUUID } from 'node:crypto'
import type { Caller } from '../../bus/call.js'
import type {
  ActiveDeployment,
  ActiveDeployments,
  Claimed,
  DeployAdvance,
  DeployLog,
  DeployTask,
  EnvOf,
  Renewed,
  SourceOf,
} from '../../schemas/deploy-calls.js'
import type { Source } from '../../schemas/deployments.js'
import type { Build } from '../../schemas/protocol.js'
import { rpc } from '../../schemas/subjects.js'

export interface TaskClient {
  claim(sources: readonly Source[]): Promise<Claimed>
  renew(task: DeployTask): Promise<Renewed>
  /** Repeated until a worker answers or the lease has expired; then throws `unavailable` or `fenced`. */
  advance(task: DeployTask, change: Omit<DeployAdvance, 'deployment_id' | 'revision_id' | 'epoch'>): Promise<void>
  log(batch: DeployLog): Promise<void>
  active(sources: readonly Source[]): Promise<ActiveDeployment[]>
  env(deployment_id: string, revision_id: string): Promise<EnvOf>
  uploads: {
    find(task: DeployTask): Promise<SourceOf>
    part(task: DeployTask, part: number): Promise<Uint8Array>
  }
  /** Removes the consumer of an unused pool and the wake-ups queued there. */
  retire(pool: string): Promise<void>
}

const CALL = { timeout: 10_000, patience: 5_000 }
const RETRY_MS = 60_000
const PAUSE_MS = 500

/** `folder` identifies this worker: it has one worker at a time, which takes over the tasks of earlier ones. */
export function openTaskClient(caller: Caller, folder: string, build: Build): TaskClient {
  const worker = `${folder}#${randomUUID()}`

  async function askBytes(
    noun: 'deployments' | 'assistants',
    verb: string,
    body: unknown,
    { repeat } = { repeat: false },
  ): Promise<Uint8Array> {
    const subject = rpc(noun, verb)
    const head = { request_id: `deployer-${verb}` }
    const bytes = Buffer.from(JSON.stringify(body))
    const answer = repeat
      ? await caller.askUntilAnswered(subject, head, bytes, {
          ...CALL,
          until: performance.now() + RETRY_MS,
          pause: PAUSE_MS,
        })
      : await caller.ask(subject, head, bytes, CALL)
    return answer.body
  }

  async function ask<T>(...given: Parameters<typeof askBytes>): Promise<T> {
    const body = await askBytes(...given)
    return (body.length === 0 ? {} : JSON.parse(Buffer.from(body).toString())) as T
  }

  const leaseOf = ({ deployment_id, revision_id, epoch }: DeployTask) => ({ deployment_id, revision_id, epoch })
  return {
    claim: sources => ask('deployments', 'claim', { worker, sources, takes_over: `${folder}#`, weft: build }),
    renew: task => ask('deployments', 'renew', leaseOf(task)),
    advance: (task, change) => ask('deployments', 'advance', { ...leaseOf(task), ...change }, { repeat: true }),
    log: batch => ask('deployments', 'log', batch),
    async active(sources) {
      const { deployments } = await ask<ActiveDeployments>('deployments', 'active', {})
      return deployments.filter(({ source }) => sources.includes(source))
    },
    env: (deployment_id, revision_id) => ask('deployments', 'env', { deployment_id, revision_id }),
    uploads: {
      find: task => ask('deployments', 'source', leaseOf(task)),
      part: (task, part) => askBytes('deployments', 'source_part', { ...leaseOf(task), part }),
    },
    retire: pool => ask('assistants', 'retire', { pool }, { repeat: true }),
  }
}
