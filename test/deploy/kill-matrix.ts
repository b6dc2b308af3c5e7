/**
 * The kill matrix: each kind of order is carried out by real handlers and the real loop of a deploy worker, and one of them
 * dies before or after each of its steps, one after the other, until an order has no step left. The next one must finish
 * the order: nothing is served twice, nothing is lost, and what serves goes on serving.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { v7 } from 'uuid'
import { openFigures } from '../../bus/figures.js'
import { openLog } from '../../bus/log.js'
import { poolOf } from '../../schemas/deploy-calls.js'
import type { ResourceSpec, RevisionStatus } from '../../schemas/deployments.js'
import { WeftError } from '../../schemas/errors.js'
import { type Deployer, openDeployer } from '../../workers/deploy/deployer.js'
import type { Driver, Step } from '../../workers/deploy/driver.js'
import { Fault, Stopped } from '../../workers/deploy/fault.js'
import { openRevisionLog } from '../../workers/deploy/log.js'
import { openScaler } from '../../workers/deploy/scaler.js'
import { rangeOf, within } from '../../workers/deploy/scaling.js'
import type { Deps } from '../../workers/resources/context.js'
import { patchDeployment, redeploy } from '../../workers/resources/deployments/change.js'
import { createDeployment } from '../../workers/resources/deployments/create.js'
import { findDeployment, revisionOf, statusOf, taskOf } from '../../workers/resources/deployments/row.js'
import { deleteDeployment, interrupt } from '../../workers/resources/deployments/stop.js'
import { sweepOrphans, sweepTasks } from '../../workers/resources/deployments/sweep.js'
import { ignoreNotFound } from '../../workers/resources/deployments/tasks.js'
import { change, removeDeployment } from '../../workers/resources/deployments/write.js'
import { github, image } from '../helpers/control.js'
import { stage, stepwise } from '../resources/stage.js'
import { clientOf, type Death, Life, Office } from './deaths.js'
import { imageOf, type Machine } from './machines.js'

const log = openLog('test', process.env.WEFT_TEST_LOG ?? 'silent')
const SETTLE_MS = 10_000
/** Tasks are announced again, and running revisions compared with active ones, after this. */
const SWEEP_MS = 20
/** Runs for each replica. */
const RUNS_EACH = 10
const SCALE_DOWN_MS = 40

/** A deployment that an order is about. */
interface Subject {
  name: string
  source: Machine['source']
  id: string
  /** The revision that served before the order. */
  first: string | null
}

interface Order {
  name: string
  /** A deployment serves before the order, with this resource_spec and so many runs. */
  before: { spec?: ResourceSpec; runs?: number } | null
  /** The request; a client without an answer repeats it. */
  request?(deps: Deps, subject: Subject): Promise<unknown>
  /** Runs of its queue after the order. */
  runs?: number
  /** The event while a revision of the order is built; `stops`: the build goes on until it is stopped. */
  during?: { request(deps: Deps, subject: Subject, revision_id: string): Promise<unknown>; stops: boolean }
  /** Status of the latest revision at the end; null: the deployment is gone. */
  ends: RevisionStatus | null
}

/** A repeated request is recognized by its key, which is the name. */
const create = (deps: Deps, { name, source }: Pick<Subject, 'name' | 'source'>, resource_spec: ResourceSpec = {}) => {
  const secrets = [{ name: 'A', value: 'a-value' }]
  const request =
    source === 'github'
      ? github(name, { secrets, source_config: { repo_url: 'https://example.com/agents/one', resource_spec } })
      : image(name, {
          secrets,
          source_config: { resource_spec },
          source_revision_config: { image_uri: imageOf('main') },
        })
  return createDeployment(deps, request, name)
}
const is = (code: string) => (error: unknown) => error instanceof WeftError && error.code === code
const patch = (deps: Deps, { id }: Subject, body: object) => patchDeployment(deps, id, body, '', '')
const revise = (deps: Deps, subject: Subject, to: string) =>
  patch(deps, subject, {
    source_revision_config: subject.source === 'github' ? { repo_ref: to } : { image_uri: imageOf(to) },
  })
const next = (deps: Deps, subject: Subject) => revise(deps, subject, 'next')
const remove = (deps: Deps, { id }: Subject) => deleteDeployment(deps, id, true)

const ORDERS: readonly Order[] = [
  {
    name: 'create',
    before: null,
    // One that was half stored keeps its name and its key for a minute.
    request: async (deps, subject) => {
      const again = () => create(deps, { ...subject, name: `n${v7()}` })
      subject.id = (
        await create(deps, subject).catch(error => (is('conflict')(error) ? again() : Promise.reject(error)))
      ).id
    },
    ends: 'DEPLOYED',
  },
  { name: 'patch', before: {}, request: next, ends: 'DEPLOYED' },
  {
    name: 'patch during a rollout',
    before: {},
    request: next,
    during: { request: (deps, subject) => revise(deps, subject, 'later'), stops: false },
    ends: 'DEPLOYED',
  },
  {
    name: 'a build that fails',
    before: {},
    request: next,
    during: {
      request: async () => {
        throw new Fault('build: no luck')
      },
      stops: true,
    },
    ends: 'BUILD_FAILED',
  },
  { name: 'redeploy', before: {}, request: (deps, { id, first }) => redeploy(deps, id, first!), ends: 'DEPLOYED' },
  {
    name: 'interrupt',
    before: {},
    request: next,
    during: {
      request: (deps, { id }, revision_id) => interrupt(deps, id, revision_id),
      stops: true,
    },
    ends: 'INTERRUPTED',
  },
  { name: 'delete', before: {}, request: remove, ends: null },
  { name: 'delete during a rollout', before: {}, request: next, during: { request: remove, stops: true }, ends: null },
  {
    name: 'scale',
    before: {},
    request: (deps, subject) => patch(deps, subject, { source_config: { resource_spec: { min_scale: 3 } } }),
    ends: 'DEPLOYED',
  },
  { name: 'scale up by load', before: { spec: { max_scale: 3 } }, runs: 3 * RUNS_EACH, ends: 'DEPLOYED' },
  {
    name: 'scale down by load',
    before: { spec: { max_scale: 3 }, runs: 3 * RUNS_EACH },
    runs: 0,
    ends: 'DEPLOYED',
  },
]

/** The orders in which the death of a deploy worker differs between machines. */
export const WORKER_ORDERS = [
  'create',
  'patch',
  'interrupt',
  'delete',
  'scale',
  'scale up by load',
  'scale down by load',
]

/** Runs the orders, or all of them, with these deaths on machines of this kind. */
export async function killMatrix(
  t: Test,
  open: () => Promise<Machine>,
  deaths: readonly Death['of'][],
  names: readonly string[] = ORDERS.map(({ name }) => name),
): Promise<void> {
  const { store, all } = await stage(t, 2, store => stepwise(store), { image_driver: 'docker' })
  const [dying, deps] = [all[0]!, all[1]!]
  for (const order of ORDERS.filter(({ name }) => names.includes(name)))
    for (const of of deaths)
      await t.test(`${order.name}: ${of}`, async t => {
        let before = 0
        // Each death one step later, until the order ends before it.
        while (await carryOut({ order, machine: await open(), dying, deps, death: { of, before } })) before++
        t.pass(`before each of ${before} steps`)
        if (of === 'the deploy worker') t.ok(before > 2, 'it has steps')
        await sweepOrphans(deps, Date.now() + 120_000)
        t.equal((await store.records.due('revision', Date.now() + 120_000, 10)).length, 0, 'no record is left over')
      })
}

/** A claim whose answer was lost can be made again when its lease has ended, after 30 s: here it ends at once. */
async function expireLease(deps: Deps, id: string): Promise<void> {
  await change(deps, id, ({ body }) =>
    body.lease === null ? null : { body: { ...body, lease: { ...body.lease, until: 0 } }, visible: false },
  ).catch(ignoreNotFound)
}

interface Case {
  order: Order
  machine: Machine
  /** Settings of the resource worker that dies, and of the next one. */
  dying: Deps
  deps: Deps
  death: Death
}

/** Resolves to whether somebody died. Throws when a promise is broken. */
async function carryOut({ order, machine, dying, deps, death }: Case): Promise<boolean> {
  const what = `${order.name}: ${death.of} before step ${death.before}`
  const subject: Subject = { name: `n${v7()}`, source: machine.source, id: '', first: null }
  const retired = new Set<string>()
  const seen = new Set<string>()
  const deployers: Deployer[] = []
  let runs = order.before?.runs ?? 0
  let office = new Office(deps, deps, { of: 'an answer', before: Number.POSITIVE_INFINITY })
  let done = false

  const instances = () => {
    const found = machine.instances()
    for (const { revision_id } of found) seen.add(poolOf(revision_id))
    return found
  }
  /** The revision that serves runs, whenever the deploy worker has compared it once. */
  const check = async () => {
    const serving = async () => {
      const body = (await findDeployment(deps.store, subject.id))?.body
      return body === undefined || body.status === 'AWAITING_DELETE' ? null : (body.serving?.revision_id ?? null)
    }
    const revision_id = await serving()
    const isMissing = revision_id !== null && !instances().some(one => one.revision_id === revision_id)
    // It may have changed between the two looks.
    if (isMissing && (await serving()) === revision_id) throw new Error(`${what}: nothing serves`)
  }
  const start = async (life: Life): Promise<void> => {
    const client = life.limit(
      clientOf(office, pool => retired.add(pool)),
      ['claim', 'renew', 'advance', 'active', 'env', 'retire'],
    )
    const driver = await machine.open(client, () => life.step())
    const scaling = life.limit(driver.scaling!, ['scale'])
    const built: Driver = {
      ...driver,
      scaling,
      async build(step, onCommit) {
        const result = await driver.build(step, onCommit)
        await during(step)
        return result
      },
    }
    const scaler = openScaler({
      scaling,
      rules: { runs_each: RUNS_EACH, down_ms: SCALE_DOWN_MS },
      runs: async () => runs,
      listen: () => () => {},
      log,
    })
    deployers.push(
      openDeployer({
        client,
        driver: life.limit(built, ['build', 'has', 'deploy', 'undo', 'reconcile', 'destroy']),
        logOf: ids => openRevisionLog(ids, async () => {}, log),
        log,
        figures: openFigures(),
        scaler,
      }),
    )
  }
  const during = async ({ task, signal }: Step): Promise<void> => {
    if (order.during === undefined || subject.first === null || done) return
    const { request, stops } = order.during
    await office
      .request(deps => request(deps, subject, task.revision_id))
      .catch(error => {
        // A repeated one may be refused.
        if (!(error instanceof WeftError)) throw error
      })
    done = !stops
    if (!stops) return
    // The wake-up that a dead resource worker could not send comes with its sweep: here it comes sooner.
    for (; !signal.aborted; await sleep(SWEEP_MS)) deployers.at(-1)!.wake(subject.id)
    throw new Stopped('the task was stopped')
  }
  /** Resolves when the deployment has no task, and the machine runs what serves. */
  const settle = async (): Promise<void> => {
    const until = Date.now() + SETTLE_MS
    for (let sweep = Date.now() + SWEEP_MS; ; await sleep(3)) {
      const body = (await findDeployment(deps.store, subject.id))?.body ?? null
      const serving = body?.serving ?? null
      const range = rangeOf(body?.source_config.resource_spec ?? null)
      const wanted =
        serving === null
          ? []
          : [
              {
                deployment_id: subject.id,
                revision_id: serving.revision_id,
                replicas: within(range, Math.ceil(runs / RUNS_EACH)),
              },
            ]
      const running = instances()
      const isIdle = body === null || (taskOf(body) === null && body.lease === null && body.queued === null)
      const left = [...seen].filter(pool => !retired.has(pool) && pool !== (serving && poolOf(serving.revision_id)))
      if (isIdle && JSON.stringify(running) === JSON.stringify(wanted) && left.length === 0) return
      if (Date.now() > until)
        throw new Error(`${what}: it does not end: ${JSON.stringify({ body, running, wanted, left })}`)
      if (Date.now() < sweep) continue
      sweep = Date.now() + SWEEP_MS
      if (office.lost === 'claim') await expireLease(deps, subject.id)
      office.lost = ''
      await sweepTasks(deps)
      deployers.at(-1)!.check()
    }
  }
  const end = async () => {
    for (const one of deployers) one.quiet()
    await Promise.all(deployers.map(one => one.stop(0)))
  }

  try {
    const calm = () => new Life(Number.POSITIVE_INFINITY, check)
    const lives = [calm()]
    await start(lives[0]!)
    if (order.before !== null) {
      subject.id = (await create(deps, subject, order.before.spec)).id
      await settle()
      subject.first = (await findDeployment(deps.store, subject.id))!.body.serving!.revision_id
    }
    // The worker of the order continues what this one has left.
    deployers[0]!.quiet()
    lives[0]!.end()
    await machine.kill()

    let died = false
    office = new Office(dying, deps, death)
    const life =
      death.of !== 'the deploy worker'
        ? calm()
        : new Life(death.before, check, async () => {
            died = true
            await machine.kill()
            lives.push(calm())
            await start(lives.at(-1)!)
          })
    lives.push(life)
    await office.request(async deps => order.request?.(deps, subject))
    runs = order.runs ?? runs
    await start(life)
    await settle()
    life.disarm()
    died ||= office.died
    office.close()
    for (const { broken } of lives) if (broken !== null) throw broken

    const found = await findDeployment(deps.store, subject.id)
    if (order.ends === null) {
      if (found !== null) throw new Error(`${what}: the deployment is still there`)
    } else {
      const { body } = found!
      const status = statusOf(await revisionOf(deps.store, found!, body.latest!), body)
      // An image is not built: its revision fails while it is deployed.
      const ends = order.ends === 'BUILD_FAILED' && machine.source !== 'github' ? 'DEPLOY_FAILED' : order.ends
      if (status !== ends) throw new Error(`${what}: the latest revision is ${status}`)
      if (body.serving?.revision_id !== (ends === 'DEPLOYED' ? body.latest : subject.first))
        throw new Error(`${what}: another revision serves`)
      await remove(deps, subject)
      await settle()
    }
    return died
  } finally {
    office.close()
    await end()
    await machine.close()
    // After a failure: the next case has the store for itself.
    const left = await findDeployment(deps.store, subject.id)
    if (left !== null) await removeDeployment(deps, left)
  }
}
