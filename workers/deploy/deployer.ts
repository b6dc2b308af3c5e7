/**
 * The loop of a deploy worker: claims tasks, executes them stage by stage and reports their progress. A lost wake-up
 * delays a task by one sweep period at most. A task whose lease is lost, or was not renewed in time, stops here before
 * another worker can claim it, without a further call.
 */
import { randomUUID } from 'node:crypto'
import { type Figures, sample } from '../../bus/figures.js'
import type { Log } from '../../bus/log.js'
import { type DeployTask, LEASE_MS } from '../../schemas/deploy-calls.js'
import type { RevisionStatus } from '../../schemas/deployments.js'
import { WeftError } from '../../schemas/errors.js'
import type { Driver, Step } from './driver.js'
import { Fault, Stopped } from './fault.js'
import { openLimit } from './limit.js'
import type { RevisionLog } from './log.js'
import type { Scaler } from './scaler.js'
import type { TaskClient } from './task-client.js'

/** Tasks held at the same time: most of their time is waiting. */
const MAX_TASKS = 16
/** Builds at the same time: each one loads the whole machine. Deletes and interrupts do not wait for them. */
const MAX_BUILDS = 2
const SWEEP_MS = 30_000

export interface Deployer {
  /** Looks for tasks, and compares the running revisions with the active ones. */
  check(): void
  /** A wake-up of this deployment: its running task asks whether to stop. */
  wake(deployment_id: string | null): void
  quiet(): void
  stop(ms: number): Promise<void>
}

interface DeployerOptions {
  client: TaskClient
  driver: Driver
  logOf(ids: { deployment_id: string; revision_id: string }): RevisionLog
  log: Log
  figures: Figures
  /** Resource workers of a version too far away answer. */
  onRefused?: (error: WeftError) => void
  /** Null when the driver does not scale. */
  scaler?: Pick<Scaler, 'update' | 'stop'> | null
  /** The lease of a task: LEASE_MS. */
  lease_ms?: number
}

interface ActiveTask {
  task: DeployTask
  stop: AbortController
  renew(): Promise<void>
  done: Promise<void>
}

/** How an execution of a task ended: the status it stored, or why it stored none. */
type Outcome = RevisionStatus | 'DELETED' | 'lost' | 'left' | 'failed'

/** Reasons for which a task stops. */
const INTERRUPTED = 'interrupted'
const LOST = 'lost'
const LEAVING = 'leaving'

export function openDeployer(options: DeployerOptions): Deployer {
  const { client, driver, logOf, log, figures, onRefused = () => {}, scaler = null, lease_ms = LEASE_MS } = options
  const active = new Set<ActiveTask>()
  const limitBuilds = openLimit(MAX_BUILDS)
  let open = true
  let checking = false
  let again = false

  async function checkOnce(): Promise<void> {
    while (open && active.size < MAX_TASKS) {
      const claimed_at = performance.now()
      const { task } = await client.claim(driver.sources)
      if (task === null) break
      begin(task, claimed_at)
    }
    if (!open) return
    // Before the question: a task that ends meanwhile may have changed what is active.
    const held = new Set([...active].map(({ task }) => task.revision_id))
    const revisions = await client.active(driver.sources)
    await driver.reconcile(revisions, held)
    if (open) scaler?.update(revisions)
  }

  function check(): void {
    if (checking) {
      again = true
      return
    }
    checking = true
    void checkOnce()
      .catch(error => {
        if (error instanceof WeftError && error.code === 'incompatible') onRefused(error)
        else log.warn({ err: error }, 'deploy tasks could not be checked; trying again later')
      })
      .finally(() => {
        checking = false
        if (!again || !open) return
        again = false
        check()
      })
  }

  function begin(task: DeployTask, claimed_at: number): void {
    const stop = new AbortController()
    let renewed_at = claimed_at
    let expiry: NodeJS.Timeout | undefined
    /** The lease counts from when a call was sent: its answer may be late, and later than that of a newer call. */
    const hold = (sent_at: number) => {
      renewed_at = Math.max(renewed_at, sent_at)
      clearTimeout(expiry)
      expiry = setTimeout(() => stop.abort(LOST), renewed_at + lease_ms - performance.now())
    }
    hold(claimed_at)
    const one: ActiveTask = {
      task,
      stop,
      async renew() {
        const sent_at = performance.now()
        try {
          const { interrupt } = await client.renew(task)
          hold(sent_at)
          if (interrupt && task.kind === 'deploy') stop.abort(INTERRUPTED)
        } catch (error) {
          if (isFenced(error)) stop.abort(LOST)
          else log.warn({ err: error, deployment_id: task.deployment_id }, 'a lease was not renewed')
        }
      },
      done: Promise.resolve(),
    }
    const timer = setInterval(() => void one.renew(), lease_ms / 3)
    // After a pause its own lease may have expired, and the task comes again: what the first execution undoes is not to be
    // what the second one has started.
    const before = [...active].filter(other => other.task.deployment_id === task.deployment_id)
    for (const other of before) other.stop.abort(LOST)
    active.add(one)
    const execution =
      before.length === 0 ? execute(task, stop.signal) : afterAll(before).then(() => execute(task, stop.signal))
    one.done = execution.finally(() => {
      clearInterval(timer)
      clearTimeout(expiry)
      active.delete(one)
      check()
    })
  }

  const afterAll = (others: readonly ActiveTask[]) => Promise.allSettled(others.map(({ done }) => done))

  async function execute(task: DeployTask, signal: AbortSignal): Promise<void> {
    const { kind, deployment_id, revision_id, stage, epoch } = task
    const lines = logOf(task)
    const request_id = randomUUID()
    const started = performance.now()
    let outcome: Outcome = 'failed'
    log.info({ kind, deployment_id, revision_id, stage, epoch, request_id }, 'deploy task started')
    try {
      if (kind === 'deploy') outcome = await deploy({ task, signal, log: lines.of }, lines, request_id)
      else if (kind === 'interrupt') outcome = await interrupt(task)
      else {
        await driver.destroy(task)
        await client.advance(task, { status: 'DELETED' })
        outcome = 'DELETED'
      }
      log.info({ kind, deployment_id, revision_id }, 'deploy task finished')
    } catch (error) {
      if (isFenced(error) || signal.reason === LOST) {
        outcome = 'lost'
        log.warn({ deployment_id, revision_id }, 'deploy task lost to another worker')
      } else log.error({ err: error, deployment_id, revision_id }, 'deploy task failed; it will be repeated')
      // The next holder begins with what is stored; the processes of this worker are not visible to it.
      if (kind === 'deploy') await driver.undo(task).catch(() => {})
    } finally {
      figures.count('weft_deploy_tasks_total', { kind, outcome })
      figures.histogram('weft_deploy_task_seconds', { kind }).observe((performance.now() - started) / 1_000)
      await lines.flush()
    }
  }

  async function interrupt(task: DeployTask): Promise<Outcome> {
    await driver.undo(task)
    await client.advance(task, { status: 'INTERRUPTED', message: 'interrupted' })
    return 'INTERRUPTED'
  }

  async function deploy(step: Step, lines: RevisionLog, request_id: string): Promise<Outcome> {
    const { task, signal } = step
    // An image, or an artefact that was lost: the revision has no stage of building any more.
    let failed: RevisionStatus = isBuilt(task) ? 'DEPLOY_FAILED' : 'BUILD_FAILED'
    try {
      const problems = driver.problems(task)
      if (problems.length > 0) throw new Fault(problems.join('; '))
      const artefact = await findOrBuild(step)
      failed = 'DEPLOY_FAILED'
      if (task.stage !== 'DEPLOYING') await client.advance(task, { status: 'DEPLOYING' })
      const ready = await driver.deploy(step, artefact)
      await lines.flush()
      await client.advance(task, { status: 'DEPLOYED', message: null, ...ready })
      return 'DEPLOYED'
    } catch (error) {
      if (signal.reason === LOST || isFenced(error) || isUnreachable(error)) throw error
      if (signal.reason === LEAVING) {
        await driver.undo(task)
        return 'left'
      }
      // A conflict may be an interrupt whose wake-up has not arrived yet.
      const interrupted = is('conflict')(error) && (await client.renew(task)).interrupt
      if (error instanceof Stopped || interrupted) return interrupt(task)
      if (!(error instanceof Fault))
        log.error({ err: error, revision_id: task.revision_id, request_id }, 'unexpected error in a deploy task')
      const message = error instanceof Fault ? error.message : unexpected(error, failed, request_id)
      step.log(failed === 'BUILD_FAILED' ? 'build' : 'deploy')('ERROR', message)
      await lines.flush()
      await driver.undo(task)
      await client.advance(task, { status: failed, message: message.slice(0, 1_000) })
      return failed
    }
  }

  /** The artefact of an earlier attempt or of the redeployed revision, else a new one. */
  async function findOrBuild(step: Step): Promise<string> {
    const { task } = step
    const done = isBuilt(task)
    if (done && task.artefact !== null && (await driver.has(task.artefact, task))) return task.artefact
    const onCommit = async (repo_commit_sha: string) => {
      if (!done) await client.advance(task, { status: 'BUILDING', repo_commit_sha })
    }
    const { artefact } = await limitBuilds(async () => {
      if (!done && task.stage !== 'BUILDING') await client.advance(task, { status: 'BUILDING' })
      return driver.build(step, onCommit)
    }, step.signal)
    // An image has no stage of building, but a digest that is kept.
    await client.advance(task, { status: task.stage === 'DEPLOYING' ? 'DEPLOYING' : 'AWAITING_DEPLOY', artefact })
    return artefact
  }

  figures.onRead(() =>
    (['deploy', 'interrupt', 'delete'] as const).map(kind =>
      sample('weft_deploy_tasks', [...active].filter(({ task }) => task.kind === kind).length, { kind }),
    ),
  )
  const sweep = setInterval(check, SWEEP_MS)
  check()
  return {
    check,
    wake(deployment_id) {
      for (const one of active) if (one.task.deployment_id === deployment_id) void one.renew()
      check()
    },
    quiet() {
      open = false
      clearInterval(sweep)
      scaler?.stop()
    },
    /** Tasks keep their stage: the lease expires, and the next worker continues from there. */
    async stop(ms) {
      for (const one of active) one.stop.abort(LEAVING)
      await Promise.all([...[...active].map(one => one.done), driver.stop(ms)])
    },
  }
}

const isBuilt = ({ stage }: DeployTask): boolean => stage === 'AWAITING_DEPLOY' || stage === 'DEPLOYING'

/** Status message of an error that is not a Fault: its reason, and the request id under which the log has its stack. */
function unexpected(error: unknown, failed: RevisionStatus, request_id: string): string {
  const stage = failed === 'BUILD_FAILED' ? 'build' : 'deploy'
  const reason = error instanceof Error ? error.message : String(error)
  return `${stage}: unexpected error in the deploy worker: ${reason} (request ${request_id}; its log has the stack)`
}

const is = (code: string) => (error: unknown) => error instanceof WeftError && error.code === code
const isFenced = is('fenced')
const isUnreachable = is('unavailable')
