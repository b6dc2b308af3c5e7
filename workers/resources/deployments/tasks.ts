/**
 * The calls of deploy workers (schemas/deploy-calls.ts). One worker at a time holds a task, by a lease in the
 * deployment's record under an epoch; calls with an older epoch are refused. When a worker dies its lease expires, and
 * the next worker continues at the stored stage.
 */
import { type Context, jsonHandler, type Reply } from '../../../bus/serve.js'
import {
  type ActiveDeployments,
  type Claimed,
  type DeployAdvance,
  type DeployClaim,
  type DeployRenew,
  type DeployTask,
  type DeployTaskKind,
  type EnvAsk,
  type EnvOf,
  LEASE_MS,
  poolOf,
  type Renewed,
  validateDeployAdvance,
  validateDeployClaim,
  validateDeployRenew,
  validateEnvAsk,
} from '../../../schemas/deploy-calls.js'
import { fail } from '../../../schemas/errors.js'
import { BUILT_IN_APP } from '../../../schemas/ids.js'
import { ensureSystemAssistants } from '../assistants/system.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import { each } from '../rows/record.js'
import { acceptBuild } from '../skew.js'
import type { Redactors } from './redact.js'
import { removeApplication } from './remove-app.js'
import {
  type DeploymentBody,
  deploymentOf,
  newRollout,
  type Parsed,
  parseRow,
  type RevisionBody,
  type Rollout,
  taskOf,
} from './row.js'
import { deploymentAfter, isOver, mayBecome } from './status.js'
import { deploymentOut, revisionOut, secretsOf } from './text.js'
import { change, outcomeSteps, removeDeployment, wakeDeployers } from './write.js'

/** Only the deployer receives messages to its inboxes: permissions of the broker (cli/nats/config.ts). */
export const DEPLOYER_INBOX = '_INBOX_deployer.'

/** A door for deploy workers alone. */
export const forDeployers = <T>(
  validate: Parameters<typeof jsonHandler<T>>[0],
  handle: (value: T, context: Context) => Promise<Reply>,
) =>
  jsonHandler<T>(validate, (value, context) => {
    if (!context.from.startsWith(DEPLOYER_INBOX)) throw fail('forbidden', 'Only deploy workers may ask this')
    return handle(value, context)
  })

export const deployTasks = (deps: Deps, redactors: Redactors) => ({
  claim: forDeployers<DeployClaim>(validateDeployClaim, async ask => {
    acceptBuild(deps.link, 'a deploy worker', ask.weft)
    return json<Claimed>({ task: await claim(deps, ask) })
  }),
  renew: forDeployers<DeployRenew>(validateDeployRenew, async ask => json<Renewed>(await renew(deps, ask))),
  advance: forDeployers<DeployAdvance>(validateDeployAdvance, async ask => {
    await advance(deps, redactors, ask)
    return { body: '{}' }
  }),
  active: jsonHandler<object>(anything, async () => json<ActiveDeployments>(await active(deps))),
  env: forDeployers<EnvAsk>(validateEnvAsk, async ask => json<EnvOf>(await envOf(deps, ask))),
})

const json = <T>(value: T): Reply => ({ body: JSON.stringify(value) })
const anything = (data: unknown) => ({ success: true as const, data: data as object })

export const BATCH = 1_000

/** Claims the oldest task without a lease; null when there is none for these sources. */
async function claim(deps: Deps, { worker, sources, takes_over }: DeployClaim): Promise<DeployTask | null> {
  // A deployment with a lease is due at its end.
  const horizon = clock.now() + (takes_over === undefined ? 0 : LEASE_MS)
  for (const row of await deps.store.records.due('deployment', horizon, BATCH)) {
    const { body } = parseRow<DeploymentBody>(row)
    if (taskOf(body) === null || (sources !== undefined && !sources.includes(body.source))) continue
    let claimed: DeployTaskKind | null = null
    const after = await change(deps, row.id, ({ body }) => {
      const now = clock.now()
      const { lease: held } = body
      const takesOver =
        takes_over !== undefined && held !== null && held.worker !== worker && held.worker.startsWith(takes_over)
      claimed = held !== null && held.until > now && !takesOver ? null : taskOf(body)
      if (claimed === null) return null
      const lease = { worker, until: now + LEASE_MS }
      const rollout = body.rollout === null ? null : { ...body.rollout, started_at: body.rollout.started_at ?? now }
      return { body: { ...body, rollout, lease, epoch: body.epoch + 1 }, visible: false }
    }).catch(ignoreNotFound)
    if (after === null || claimed === null) continue
    const task = await taskOut(deps, after, claimed)
    if (task !== null) return task
    // The resource worker died while it removed the deployment.
    await removeDeployment(deps, after)
  }
  return null
}

/** Ignores that the deployment was removed meanwhile. */
export const ignoreNotFound = (error: { code?: string }): null => {
  if (error.code === 'not_found') return null
  throw error
}

/** The task for a deploy worker; null when its revisions are removed already. */
async function taskOut(deps: Deps, row: Parsed<DeploymentBody>, kind: DeployTaskKind): Promise<DeployTask | null> {
  const { body } = row
  const revision_id = kind === 'delete' ? body.latest : body.rollout!.revision_id
  const stored = revision_id === null ? null : await deps.store.records.get('revision', revision_id)
  if (revision_id === null || stored === null) return null
  const revision = parseRow<RevisionBody>(stored)
  const { install_command, build_command, seq, secret_references } = revision.body
  const shown = revisionOut(revision, row)
  const none = { tenant_id: deps.workspace.tenant_id, origin: '', secrets: null }
  return {
    deployment_id: row.id,
    slug: body.slug,
    revision_id,
    epoch: body.epoch,
    kind,
    stage: shown.status,
    seq,
    generation: body.generation,
    pool: poolOf(revision_id),
    deployment: { ...deploymentOut(row, none), secrets: [] },
    revision: { ...shown, install_command, build_command },
    previous_revision_id: body.serving?.revision_id ?? null,
    env: kind === 'deploy' ? await secretsOf(deps, row.id, revision.body.secrets) : {},
    pool_user: poolUserOf(deps, row.id, revision_id),
    secret_references,
    artefact: body.rollout?.revision_id === revision_id ? body.rollout.artefact : revision.body.artefact,
    repo_commit_sha: shown.source_revision_config.repo_commit_sha,
  }
}

/** Throws fenced when the caller does not hold the lease. */
export function checkHeld({ body }: Parsed<DeploymentBody>, { revision_id, epoch }: DeployRenew): void {
  const isCurrent = body.rollout?.revision_id === revision_id || body.latest === revision_id
  if (body.epoch !== epoch || !isCurrent) throw fail('fenced', 'Another deploy worker has this task')
}

async function renew(deps: Deps, ask: DeployRenew): Promise<Renewed> {
  const after = await change(deps, ask.deployment_id, now => {
    checkHeld(now, ask)
    const { lease } = now.body
    if (lease === null || taskOf(now.body) === null) throw fail('fenced', 'This task is over')
    return { body: { ...now.body, lease: { ...lease, until: clock.now() + LEASE_MS } }, visible: false }
  })
  return { interrupt: after.body.rollout?.revision_id === ask.revision_id && after.body.rollout.interrupt }
}

async function advance(deps: Deps, redactors: Redactors, ask: DeployAdvance): Promise<void> {
  const now = await deploymentOf(deps.store, ask.deployment_id).catch(ignoreNotFound)
  if (ask.status === 'DELETED') {
    if (now === null) return
    checkHeld(now, ask)
    if (taskOf(now.body) !== 'delete') throw fail('conflict', 'The deployment is not to be deleted')
    await removeApplication(deps, now.id)
    return removeDeployment(deps, now)
  }
  if (now === null) throw fail('not_found', `Deployment ID ${ask.deployment_id} not found.`)
  // Its answer was lost: another revision may be the rollout by now, but this one serves.
  const { serving } = now.body
  if (ask.status === 'DEPLOYED' && serving?.revision_id === ask.revision_id && serving.epoch === ask.epoch)
    return void (await promote(deps, now.id))
  // Harmless when the cutover then fails: a graph that no active revision has is not run.
  if (ask.status === 'DEPLOYED') {
    checkHeld(now, ask)
    await ensureSystemAssistants(deps.store, now.id, ask.graphs ?? [])
  }
  const message = ask.message ? await redactMessage(redactors, now, ask.message) : null
  await change(deps, now.id, async now => {
    checkHeld(now, ask)
    const body = advanceRollout(now.body, ask, message)
    return {
      body,
      after: isOver(body.rollout!.status) ? await outcomeSteps(deps.store, body.rollout!) : [],
      visible: true,
    }
  })
  await promote(deps, now.id)
}

const MAX_MESSAGE = 1_000

async function redactMessage(
  redactors: Redactors,
  { id, body }: Parsed<DeploymentBody>,
  message: string,
): Promise<string> {
  const { redact } = await redactors.of(id, body.rollout?.secrets ?? body.secrets)
  return redact(message.replace(/\s+/g, ' ').trim()).slice(0, MAX_MESSAGE)
}

/** The deployment after the call of a worker. Throws conflict for a transition outside the state machine. */
function advanceRollout(body: DeploymentBody, ask: DeployAdvance, message: string | null): DeploymentBody {
  const status = ask.status as Rollout['status']
  const rollout = body.rollout!
  if (rollout.revision_id !== ask.revision_id) throw fail('fenced', 'This task is over')
  if (rollout.status !== status && !mayBecome(rollout.status, status))
    throw fail('conflict', `A revision that is ${rollout.status} cannot become ${status}`)
  const stopping = rollout.interrupt || body.status === 'AWAITING_DELETE'
  if (stopping && status === 'DEPLOYED' && rollout.status !== status)
    throw fail('conflict', 'The revision is to be interrupted: it cannot be deployed')
  if (status === 'INTERRUPTED' && !stopping && rollout.status !== status)
    throw fail('conflict', 'No interrupt of this revision was requested')
  const next: Rollout = {
    ...rollout,
    status,
    message: message ?? (rollout.status === status ? rollout.message : null),
    since: rollout.status === status ? rollout.since : clock.now(),
    artefact: ask.artefact ?? rollout.artefact,
    repo_commit_sha: ask.repo_commit_sha ?? rollout.repo_commit_sha,
  }
  const commit =
    body.latest === rollout.revision_id ? next.repo_commit_sha : body.source_revision_config.repo_commit_sha
  const after: DeploymentBody = {
    ...body,
    rollout: next,
    source_revision_config: { ...body.source_revision_config, repo_commit_sha: commit },
    lease: isOver(status) ? null : body.lease === null ? null : { ...body.lease, until: clock.now() + LEASE_MS },
  }
  return status === 'DEPLOYED' ? cutOver(after, next, ask) : after
}

/** docs/spec/control-plane.md#revision-status, T13. The only place that changes the active revision. */
const cutOver = (
  body: DeploymentBody,
  rollout: Rollout,
  { graphs, image_version, epoch }: DeployAdvance,
): DeploymentBody => ({
  ...body,
  status: deploymentAfter(body.status, 'found'),
  image_version: image_version ?? tagOf(rollout.image_uri),
  serving: {
    revision_id: rollout.revision_id,
    artefact: rollout.artefact,
    image_uri: rollout.image_uri,
    secrets: rollout.secrets,
    graphs: graphs ?? (body.serving?.revision_id === rollout.revision_id ? body.serving.graphs : []),
    epoch,
  },
})

/** The tag of an image reference (docs/spec/control-plane.md#image-version). */
const tagOf = (image: string | null): string | null =>
  /:([\w][\w.-]*)(@|$)/.exec(image?.split('/').at(-1) ?? '')?.[1] ?? null

/** Starts the queued revision when the rollout is over (T4, T5). Repeatable. */
export async function promote(deps: Deps, id: string): Promise<void> {
  const after = await change(deps, id, async ({ body }) => {
    const { rollout, queued } = body
    if (queued === null || (rollout !== null && !isOver(rollout.status))) return null
    const row = await deps.store.records.get('revision', queued)
    const before = rollout === null ? [] : await outcomeSteps(deps.store, rollout)
    const next = row === null ? rollout : newRollout(queued, parseRow<RevisionBody>(row).body)
    return { before, body: { ...body, rollout: next, queued: null }, visible: true }
  }).catch(ignoreNotFound)
  if (after === null) return
  const task = taskOf(after.body)
  if (task !== null && after.body.lease === null) wakeDeployers(deps, task, id, after.body.latest)
}

async function active({ store }: Deps): Promise<ActiveDeployments> {
  const deployments: ActiveDeployments['deployments'] = []
  for await (const row of each(store, { kind: 'deployment', app: BUILT_IN_APP })) {
    const { body } = parseRow<DeploymentBody>(row)
    const { serving, rollout } = body
    if (serving === null || body.status === 'AWAITING_DELETE') continue
    const stored = await store.records.get('revision', serving.revision_id)
    if (stored === null) continue
    const { seq, secret_references } = parseRow<RevisionBody>(stored).body
    deployments.push({
      deployment_id: row.id,
      slug: body.slug,
      revision_id: serving.revision_id,
      deploying_revision_id: rollout !== null && !isOver(rollout.status) ? rollout.revision_id : null,
      source: body.source,
      artefact: serving.artefact,
      image_uri: serving.image_uri,
      env_version: serving.secrets,
      graphs: serving.graphs,
      resource_spec: body.source_config.resource_spec,
      generation: body.generation,
      pool: poolOf(serving.revision_id),
      name: row.name ?? '',
      seq,
      secret_references,
      namespace: body.source_config.listener_config?.k8s_namespace ?? null,
    })
  }
  return { deployments }
}

async function envOf(deps: Deps, { deployment_id, revision_id }: EnvAsk): Promise<EnvOf> {
  const { id, body } = await deploymentOf(deps.store, deployment_id)
  const found = [body.serving, body.rollout].find(one => one?.revision_id === revision_id)
  if (!found) throw fail('not_found', `Revision ID ${revision_id} is neither active nor being deployed.`)
  return {
    env: await secretsOf(deps, id, found.secrets),
    env_version: found.secrets,
    pool_user: poolUserOf(deps, id, revision_id),
  }
}

const poolUserOf = ({ issuer }: Deps, app: string, revision_id: string) =>
  issuer?.userOf({ app, pool: poolOf(revision_id) }) ?? null
