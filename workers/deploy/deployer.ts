/**
 * The loop of a deploy worker: hears of orders, claims them, carries them out stage by stage and says how far it came.
 * A wake-up that was lost costs a sweep's period; an order whose lease is lost stops here without another word.
 */
import type { Log } from '../../bus/log.js'
import { LEASE_MS, type Order } from '../../schemas/deploy-calls.js'
import type { RevisionStatus } from '../../schemas/deployments.js'
import { WeftError } from '../../schemas/errors.js'
import type { Driver, Step } from './driver.js'
import { Fault, Stopped } from './fault.js'
import { openLimit } from './limit.js'
import type { RevisionLog } from './log.js'
import type { Office } from './task-client.js'

/** Orders held at the same time: most of what they do is waiting. */
const MAX_ORDERS = 16
/** Builds at the same time: each wants a machine to itself. Deletes and interrupts do not wait for them. */
const MAX_BUILDS = 2
const SWEEP_MS = 30_000
const RENEW_MS = LEASE_MS / 3

export interface Deployer {
  /** There may be an order, or what serves has changed. */
  look(): void
  /** Something is to be done for this deployment: who works on it asks whether to stop. */
  wake(deployment_id: string | null): void
  quiet(): void
  stop(ms: number): Promise<void>
}

export interface DeployerOptions {
  office: Office
  driver: Driver
  logOf(ids: { deployment_id: string; revision_id: string }): RevisionLog
  log: Log
}

interface Working {
  order: Order
  stop: AbortController
  renew(): Promise<void>
  over: Promise<void>
}

/** Why an order stops. */
const INTERRUPTED = 'interrupted'
const LOST = 'lost'
const LEAVING = 'leaving'

export function openDeployer({ office, driver, logOf, log }: DeployerOptions): Deployer {
  const working = new Set<Working>()
  const builds = openLimit(MAX_BUILDS)
  let open = true
  let looking = false
  let again = false

  async function lookOnce(): Promise<void> {
    while (open && working.size < MAX_ORDERS) {
      const { order } = await office.claim(driver.sources)
      if (order === null) break
      begin(order)
    }
    if (open) await driver.settle(await office.active(driver.sources))
  }

  function look(): void {
    if (looking) {
      again = true
      return
    }
    looking = true
    void lookOnce()
      .catch(error => log.warn({ err: error }, 'deployments could not be looked through; trying again later'))
      .finally(() => {
        looking = false
        if (!again || !open) return
        again = false
        look()
      })
  }

  function begin(order: Order): void {
    const stop = new AbortController()
    let held = Date.now() + LEASE_MS
    const one: Working = {
      order,
      stop,
      async renew() {
        try {
          const { interrupt } = await office.renew(order)
          held = Date.now() + LEASE_MS
          if (interrupt && order.kind === 'deploy') stop.abort(INTERRUPTED)
        } catch (error) {
          if (isFenced(error) || Date.now() > held) stop.abort(LOST)
          else log.warn({ err: error, deployment_id: order.deployment_id }, 'a lease was not renewed')
        }
      },
      over: Promise.resolve(),
    }
    const timer = setInterval(() => void one.renew(), RENEW_MS)
    working.add(one)
    one.over = carryOut(order, stop.signal).finally(() => {
      clearInterval(timer)
      working.delete(one)
      look()
    })
  }

  async function carryOut(order: Order, signal: AbortSignal): Promise<void> {
    const { kind, deployment_id, revision_id, stage, epoch } = order
    const lines = logOf(order)
    log.info({ kind, deployment_id, revision_id, stage, epoch }, 'an order begins')
    try {
      if (kind === 'deploy') await deploy({ order, signal, log: lines.of }, lines)
      else if (kind === 'interrupt') await interrupt(order)
      else {
        await driver.destroy(order)
        await office.advance(order, { status: 'DELETED' })
      }
      log.info({ kind, deployment_id, revision_id }, 'an order is done')
    } catch (error) {
      if (isFenced(error) || signal.reason === LOST)
        log.warn({ deployment_id, revision_id }, 'an order was lost to another')
      else log.error({ err: error, deployment_id, revision_id }, 'an order has to be done again')
      // Whoever holds it now begins by looking at what is there; what we started is not theirs to find.
      if (kind === 'deploy') await driver.undo(order).catch(() => {})
    } finally {
      await lines.flush()
    }
  }

  async function interrupt(order: Order): Promise<void> {
    await driver.undo(order)
    await office.advance(order, { status: 'INTERRUPTED', message: 'interrupted' })
  }

  async function deploy(step: Step, lines: RevisionLog): Promise<void> {
    const { order, signal } = step
    let failed: RevisionStatus = 'BUILD_FAILED'
    try {
      const problems = driver.problems(order)
      if (problems.length > 0) throw new Fault(problems.join('; '))
      const artefact = await built(step)
      failed = 'DEPLOY_FAILED'
      if (order.stage !== 'DEPLOYING') await office.advance(order, { status: 'DEPLOYING' })
      const ready = await driver.deploy(step, artefact)
      await lines.flush()
      await office.advance(order, { status: 'DEPLOYED', message: null, ...ready })
    } catch (error) {
      if (signal.reason === LOST || isFenced(error) || isUnreachable(error)) throw error
      if (signal.reason === LEAVING) return driver.undo(order)
      // Refused because it is to be interrupted, which we had not heard of yet.
      const asked = is('conflict')(error) && (await office.renew(order)).interrupt
      if (error instanceof Stopped || asked) return interrupt(order)
      if (!(error instanceof Fault)) log.error({ err: error, revision_id: order.revision_id }, 'a revision failed')
      const message =
        error instanceof Fault ? error.message : `${failed}: something failed in the deploy worker; see its log`
      step.log(failed === 'BUILD_FAILED' ? 'build' : 'deploy')('ERROR', message)
      await lines.flush()
      await driver.undo(order)
      await office.advance(order, { status: failed, message: message.slice(0, 1_000) })
    }
  }

  /** The artefact, which a crash or a redeploy may have left already. */
  async function built(step: Step): Promise<string> {
    const { order } = step
    const done = order.stage === 'AWAITING_DEPLOY' || order.stage === 'DEPLOYING'
    if (done && order.artefact !== null && (await driver.has(order.artefact))) return order.artefact
    const onCommit = async (repo_commit_sha: string) => {
      if (!done) await office.advance(order, { status: 'BUILDING', repo_commit_sha })
    }
    const { artefact } = await builds(async () => {
      if (!done && order.stage !== 'BUILDING') await office.advance(order, { status: 'BUILDING' })
      return driver.build(step, onCommit)
    }, step.signal)
    if (!done) await office.advance(order, { status: 'AWAITING_DEPLOY', artefact })
    return artefact
  }

  const sweep = setInterval(look, SWEEP_MS)
  look()
  return {
    look,
    wake(deployment_id) {
      for (const one of working) if (one.order.deployment_id === deployment_id) void one.renew()
      look()
    },
    quiet() {
      open = false
      clearInterval(sweep)
    },
    /** Orders are left where they stand: the lease ends, and the next worker goes on. */
    async stop(ms) {
      for (const one of working) one.stop.abort(LEAVING)
      await Promise.all([...[...working].map(one => one.over), driver.stop(ms)])
    },
  }
}

const is = (code: string) => (error: unknown) => error instanceof WeftError && error.code === code
const isFenced = is('fenced')
const isUnreachable = is('unavailable')
