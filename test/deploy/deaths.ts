/** How processes die in the kill matrix: a deploy worker before one of its calls, a resource worker within or after one of its. */
import { v7 } from 'uuid'
import { openLog } from '../../bus/log.js'
import type { Reply } from '../../bus/serve.js'
import type { ActiveDeployments } from '../../schemas/deploy-calls.js'
import { fail } from '../../schemas/errors.js'
import type { TaskClient } from '../../workers/deploy/task-client.js'
import type { Deps } from '../../workers/resources/context.js'
import { openRedactors } from '../../workers/resources/deployments/redact.js'
import { DEPLOYER_INBOX, deployTasks } from '../../workers/resources/deployments/tasks.js'
import { Crash, type Stepwise } from '../resources/stage.js'

const log = openLog('test', process.env.WEFT_TEST_LOG ?? 'silent')

/** `before`: a number of steps. A step is a call of the deploy worker, a write, or an answer of the resource worker. */
export type Death = { of: 'the deploy worker' | 'the resource worker' | 'an answer'; before: number }

/** The resource worker that answers; another one takes its place when it dies. */
export class Office {
  died = false
  /** The call whose answer was lost. */
  lost = ''
  private answers = 0

  constructor(
    private readonly dying: Deps,
    private readonly next: Deps,
    private readonly death: Death,
  ) {
    if (death.of === 'the resource worker') (dying.store as Stepwise).crashAfter(death.before)
  }

  get deps(): Deps {
    return this.died ? this.next : this.dying
  }

  /** Throws Crash when it has died before it could answer. */
  async answer<T>(handle: (deps: Deps) => Promise<T>, verb = ''): Promise<T> {
    try {
      const result = await handle(this.deps)
      if (!this.died && this.death.of === 'an answer' && this.answers++ === this.death.before) {
        this.lost = verb
        throw new Crash('died')
      }
      return result
    } catch (error) {
      if (error instanceof Crash) this.close()
      throw error
    }
  }

  /** Acts like a client that repeats its request when it receives no answer. */
  async request<T>(handle: (deps: Deps) => Promise<T>, verb = ''): Promise<T> {
    try {
      return await this.answer(handle, verb)
    } catch (error) {
      if (!(error instanceof Crash)) throw error
      return this.answer(handle, verb)
    }
  }

  /** Also at the end of a case, so that it dies in no later one. */
  close(): void {
    this.died = this.died || this.death.of !== 'the deploy worker'
    ;(this.dying.store as Stepwise).crashAfter(Number.POSITIVE_INFINITY)
  }
}

type Handler = { handle(value: unknown, context: object): Promise<Reply> }

/** The calls of a deploy worker to the handlers: without an answer an advance is repeated, and all others fail. */
export function clientOf(office: Office, onRetired: (pool: string) => void): TaskClient {
  const worker = `machine#${v7()}`
  const ask = <T>(verb: string, body: object, how: 'answer' | 'request' = 'answer'): Promise<T> =>
    office[how](async deps => {
      const handlers = deployTasks(deps, openRedactors(deps)) as unknown as { [verb: string]: Handler }
      const context = { head: { request_id: '' }, from: `${DEPLOYER_INBOX}x`, log }
      const { body: text } = await handlers[verb]!.handle(body, context)
      return JSON.parse(text as string) as T
    }, verb).catch(error => {
      throw error instanceof Crash ? fail('unavailable', 'the resource worker has died') : error
    })
  const leaseOf = (task: { deployment_id: string; revision_id: string; epoch: number }) => {
    const { deployment_id, revision_id, epoch } = task
    return { deployment_id, revision_id, epoch }
  }
  return {
    claim: sources => ask('claim', { worker, sources, takes_over: 'machine#' }),
    renew: task => ask('renew', leaseOf(task)),
    advance: (task, change) => ask('advance', { ...leaseOf(task), ...change }, 'request'),
    log: async () => {},
    active: async () => (await ask<ActiveDeployments>('active', {})).deployments,
    env: (deployment_id, revision_id) => ask('env', { deployment_id, revision_id }),
    uploads: { find: async () => unused(), part: async () => unused() },
    retire: async pool => onRetired(pool),
  }
}

const unused = (): never => {
  throw new Error('no revision here is an upload')
}

const KILLED = fail('fenced', 'this deploy worker was killed')

/** The life of a deploy worker: it is killed before the call number `at`. */
export class Life {
  private steps = 0
  private dead = false
  private reconciled = false
  /** The first broken promise. */
  broken: Error | null = null

  constructor(
    private at: number,
    /** Called before each step of a worker that has reconciled once; rejects when a promise is broken. */
    private readonly check: () => Promise<void>,
    private readonly onKilled: () => Promise<void> = async () => {},
  ) {}

  /** A dead worker makes no call: rejects. */
  async step(): Promise<void> {
    if (!this.dead) {
      if (this.reconciled)
        await this.check().catch(error => {
          if (!this.dead) this.broken ??= error
        })
      if (this.steps++ === this.at) {
        this.dead = true
        await this.onKilled()
      }
    }
    if (this.dead) throw KILLED
  }

  /** Its worker makes no further call. */
  end(): void {
    this.dead = true
  }

  /** The order has ended. */
  disarm(): void {
    this.at = Number.POSITIVE_INFINITY
  }

  /** `names`: the methods whose calls are steps. */
  limit<T extends object>(target: T, names: readonly (keyof T)[]): T {
    const limited = { ...target }
    for (const name of names) {
      const method = target[name] as (...values: unknown[]) => Promise<unknown>
      const call = async (...values: unknown[]) => {
        await this.step()
        const result = await method(...values)
        if (name === 'reconcile') this.reconciled = true
        // Between two calls there is one moment to die at; a call that is under way has its effect.
        if (this.dead) throw KILLED
        return result
      }
      limited[name] = call as T[keyof T]
    }
    return limited
  }
}
