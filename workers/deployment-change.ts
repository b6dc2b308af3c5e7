/**
 * What clients do to a deployment (API: control-plane 6): create, patch, a new revision, redeploy, interrupt, delete.
 * Each ends in one compare-and-set of the deployment; revision and secrets are inserted before it, unreferenced.
 */
import { resolve } from 'node:path'
import { v7 } from 'uuid'
import type {
  DeploymentCreate,
  DeploymentPatch,
  Secret,
  SecretReference,
  SourceRevisionConfig,
} from '../schemas/deployments.js'
import { fail, InvalidFields } from '../schemas/errors.js'
import type { Step } from '../store/port.js'
import type { Tools } from './context.js'
import { newRecord } from './control.js'
import { MASK, secretsOf, urlOf } from './deployment-answers.js'
import { createdConfig, createdRevision, merge } from './deployment-merge.js'
import { onceRecord, recallDeployment } from './deployment-once.js'
import { promote } from './deployment-orders.js'
import {
  announce,
  type Change,
  change,
  claimed,
  type DeploymentBody,
  dueAt,
  type Flight,
  flightOf,
  type Known,
  keysOfDeployment,
  known,
  ORPHAN_MS,
  orderOf,
  overStep,
  type RevisionBody,
  removeDeployment,
  revisionOf,
  secretsPlace,
  settled,
  slugOf,
  standingOf,
  wakeDeployers,
} from './deployment-rows.js'
import { formProblems, type Policy, refusalOf, reservedRefusal } from './deployment-rules.js'
import { deploymentAfter, isOver } from './deployment-status.js'

/** Checks all of it, then stores it; nothing is left of a create that is refused. `key`: the Idempotency-Key, if any. */
export async function createDeployment(
  tools: Tools,
  body: DeploymentCreate,
  key?: string,
): Promise<Known<DeploymentBody>> {
  checkForm(body)
  const { name, source } = body
  if (source !== 'github' && source !== 'external_docker')
    throw fail('bad_request', `source ${source} is not available: give github or external_docker`)
  const source_config = createdConfig(body.source_config, source)
  const source_revision_config = createdRevision(body.source_revision_config)
  if (source === 'github' && source_config.custom_url !== null)
    throw fail('bad_request', 'source_config.custom_url is set by the server for source github')
  refuse(refusalOf({ source, source_config, source_revision_config }, policyOf(tools)))
  const references = body.secret_references ?? []
  checkVariables(source, body.secrets ?? [], references)
  if (body.secrets?.some(({ value }) => value === MASK))
    throw fail('bad_request', `a secret has the value ${MASK}, which stands for one that is stored already`)

  const id = v7()
  const once = key === undefined ? null : onceRecord(tools, key, body, id)
  const before = once === null ? null : await recallDeployment(tools, once, body)
  if (before !== null) return before
  const secrets = sealed(tools, id, body.secrets ?? [])
  const made = newRevision(id, {
    seq: 1,
    source,
    source_revision_config,
    install_command: source_config.install_command,
    build_command: source_config.build_command,
    secrets: secrets.id,
    secret_names: secrets.names,
    secret_references: references,
  })
  // Rows carry the deployment they belong to, so there is no database to wait for (API: control-plane 10.3).
  const value: DeploymentBody = {
    slug: slugOf(name, id),
    source,
    source_config,
    status: deploymentAfter('AWAITING_DATABASE', 'provisioned'),
    generation: 1,
    seq: 1,
    latest: made.id,
    source_revision_config,
    secrets: secrets.id,
    secret_names: secrets.names,
    secret_references: references,
    serving: null,
    flight: flightOf(made.id, made.body),
    queued: null,
    epoch: 0,
    lease: null,
    image_version: null,
    delete_project: false,
  }
  const now = Date.now()
  const project = newRecord('project', id, { name, body: '{}', due_at: now + ORPHAN_MS })
  const row = newRecord('deployment', id, {
    name,
    body: JSON.stringify(value),
    keys: keysOfDeployment(value),
    due_at: dueAt(value, now),
  })
  const steps: Step[] = [
    ...(once === null ? [] : [{ step: 'records.insert', row: once } as const]),
    { step: 'records.insert', row: project },
    ...secrets.insert,
    made.insert,
    { step: 'records.insert', row },
    claimed('project', id),
    ...secrets.claimed,
    made.claimed,
  ]
  const failed = await tools.store.apply(steps)
  if (failed !== -1 && failed <= steps.findIndex(step => step.step === 'records.insert' && step.row === row)) {
    await undo(tools, steps.slice(0, failed))
    // Two with the same key at once: the other one was faster.
    if (once !== null && failed === 0) return createDeployment(tools, body, key)
    throw fail('conflict', `A deployment or tracing project named ${name} exists already.`)
  }
  announce(tools, id)
  wakeDeployers(tools, 'deploy', id, made.id)
  return { ...row, body: value }
}

async function undo({ store }: Tools, steps: readonly Step[]): Promise<void> {
  for (const step of steps)
    if (step.step === 'records.insert')
      await store.apply([{ step: 'records.remove', kind: step.row.kind, id: step.row.id, where: {} }])
}

/** API: control-plane 6.4. `version`: the ETag the client has seen, or ''. */
export async function patchDeployment(
  tools: Tools,
  id: string,
  body: DeploymentPatch,
  origin: string,
  version: string,
): Promise<Known<DeploymentBody>> {
  checkForm(body)
  const after = await change(tools, id, async now => {
    checkVersion(now, version)
    if (now.body.status === 'AWAITING_DELETE') throw fail('bad_request', 'The deployment is being deleted')
    const merged = merge(now.body, body, urlOf(origin, now.body.slug))
    if (typeof merged === 'string') throw fail('bad_request', merged)
    if (!merged.configured && !merged.revises) return null
    const { source } = now.body
    const { source_config, source_revision_config } = merged
    refuse(refusalOf({ source, source_config, source_revision_config }, policyOf(tools)))
    const next: DeploymentBody = {
      ...now.body,
      source_config,
      status: deploymentAfter(now.body.status, 'work'),
      generation: now.body.generation + (merged.resized ? 1 : 0),
    }
    if (!merged.revises) return { body: next, visible: true }
    return revise(tools, { ...now, body: next }, { source_revision_config, given: body })
  })
  wakeFor(tools, after)
  return after
}

/** A new revision from what is given and, for the rest, the latest one (API: control-plane 6.5). */
export async function createRevision(tools: Tools, id: string, body: DeploymentPatch): Promise<Known<DeploymentBody>> {
  checkForm(body)
  const { source_revision_config, secrets, secret_references } = body
  const given: DeploymentPatch = { source_revision_config, secrets, secret_references }
  const after = await change(tools, id, async now => {
    if (now.body.status === 'AWAITING_DELETE') throw fail('bad_request', 'The deployment is being deleted')
    const merged = merge(now.body, given, '')
    if (typeof merged === 'string') throw fail('bad_request', merged)
    refuse(refusalOf({ source: now.body.source, ...merged }, policyOf(tools)))
    return revise(tools, now, { source_revision_config: merged.source_revision_config, given })
  })
  wakeFor(tools, after)
  return after
}

/** A new revision that repeats an older one: its configuration, commit, commands, secrets, and artefact if there is one. */
export async function redeploy(tools: Tools, id: string, revision_id: string): Promise<Known<DeploymentBody>> {
  const after = await change(tools, id, async now => {
    if (now.body.status === 'AWAITING_DELETE') throw fail('bad_request', 'The deployment is being deleted')
    const old = await revisionOf(tools.store, now, revision_id)
    const { flight } = now.body
    const mine = flight?.revision_id === old.id
    const status = standingOf(old, now.body)
    if (!isOver(status)) throw fail('bad_request', `The revision is ${status}: it cannot be redeployed yet`)
    if (status === 'SKIPPED') throw fail('bad_request', 'The revision was skipped: it cannot be redeployed')
    const commit = (mine ? flight.repo_commit_sha : null) ?? old.body.source_revision_config.repo_commit_sha
    return revise(tools, now, {
      source_revision_config: { ...old.body.source_revision_config, repo_commit_sha: commit },
      given: {},
      old: { ...old.body, artefact: (mine ? flight.artefact : null) ?? old.body.artefact },
      redeploy_of: old.id,
    })
  })
  wakeFor(tools, after)
  return after
}

interface Revising {
  source_revision_config: SourceRevisionConfig
  given: DeploymentPatch
  old?: RevisionBody
  redeploy_of?: string
}

/** The change that adds a revision: it flies when nothing does, else it is the one that comes next. */
async function revise(tools: Tools, now: Known<DeploymentBody>, wanted: Revising): Promise<Change> {
  const { body } = now
  const { given, old, source_revision_config } = wanted
  const references = old?.secret_references ?? given.secret_references ?? body.secret_references
  const secrets = await nextSecrets(tools, now, given.secrets ?? null, old)
  checkVariables(body.source, given.secrets ?? [], references, secrets.names)
  const made = newRevision(now.id, {
    seq: body.seq + 1,
    source: body.source,
    source_revision_config,
    install_command: old === undefined ? body.source_config.install_command : old.install_command,
    build_command: old === undefined ? body.source_config.build_command : old.build_command,
    secrets: secrets.id,
    secret_names: secrets.names,
    secret_references: references,
    artefact: old?.artefact ?? null,
    redeploy_of: wanted.redeploy_of ?? null,
  })
  const flies = body.flight === null || isOver(body.flight.status)
  return {
    visible: true,
    before: [
      // Whoever was the latest is somebody's for good before another one takes its place.
      claimed('revision', body.latest),
      claimed('secrets', body.secrets),
      ...(flies && body.flight !== null ? await settled(tools.store, body.flight) : []),
      ...secrets.insert,
      made.insert,
    ],
    body: {
      ...body,
      seq: body.seq + 1,
      latest: made.id,
      source_revision_config,
      secrets: secrets.id,
      secret_names: secrets.names,
      secret_references: references,
      flight: flies ? flightOf(made.id, made.body) : body.flight,
      // What waited is skipped: only the newest goes on (T6).
      queued: flies ? null : made.id,
    },
    after: [made.claimed, ...secrets.claimed],
  }
}

/** Stops a revision that is not over yet: at once when nobody works on it, else whoever does is told. */
export async function interrupt(tools: Tools, id: string, revision_id: string): Promise<Known<DeploymentBody>> {
  const after = await change(tools, id, async now => {
    const row = await revisionOf(tools.store, now, revision_id)
    const status = standingOf(row, now.body)
    if (isOver(status)) throw fail('bad_request', `The revision is ${status}: there is nothing to interrupt`)
    if (now.body.queued === row.id)
      return { body: { ...now.body, queued: null }, after: [overStep(row, 'INTERRUPTED')], visible: true }
    return { body: { ...now.body, flight: stopped(now.body) }, visible: true }
  })
  wakeFor(tools, after)
  await promote(tools, id)
  return after
}

/** The flight, told to stop; INTERRUPTED already when it had not begun. */
function stopped({ flight, lease }: DeploymentBody): Flight | null {
  if (flight === null || isOver(flight.status)) return flight
  const begun = lease !== null || !['CREATING', 'QUEUED', 'AWAITING_BUILD', 'AWAITING_DEPLOY'].includes(flight.status)
  return begun ? { ...flight, interrupt: true } : { ...flight, status: 'INTERRUPTED', since: Date.now() }
}

/** Answers at once: deploy workers tear down what there is, and the deployment is gone after that (7.1). */
export async function deleteDeployment(tools: Tools, id: string, delete_project: boolean): Promise<void> {
  const after = await change(tools, id, async ({ body }) => {
    if (body.status === 'AWAITING_DELETE') return null
    const waiting = body.queued === null ? null : await tools.store.records.get('revision', body.queued)
    const status = deploymentAfter(body.status, 'delete')
    return {
      body: { ...body, status, delete_project, flight: stopped(body), queued: null },
      after: waiting === null ? [] : [overStep(known(waiting), 'INTERRUPTED')],
      visible: true,
    }
  })
  // No deploy worker ever had it: there is nothing to tear down.
  if (after.body.epoch === 0) await removeDeployment(tools, after)
  else wakeFor(tools, after)
}

const wakeFor = (tools: Tools, { id, body }: Known<DeploymentBody>): void => {
  const order = orderOf(body)
  if (order !== null) wakeDeployers(tools, order, id, body.latest)
}

function checkForm(body: DeploymentPatch): void {
  const problems = formProblems(body)
  if (problems.length > 0) throw new InvalidFields(problems)
}

function refuse(sentence: string | null): void {
  if (sentence !== null) throw fail('bad_request', sentence)
}

const policyOf = ({ allowed, config }: Tools): Policy => ({
  allowed,
  local_sources: config.local_sources
    .split(',')
    .flatMap(folder => (folder.trim() === '' ? [] : resolve(folder.trim()))),
})

/** If-Match (API: control-plane 6.4); throws precondition_failed. */
function checkVersion(now: Known<DeploymentBody>, version: string): void {
  if (version === '' || version === '*') return
  if (!version.split(',').some(one => one.trim() === etagOf(now)))
    throw fail('precondition_failed', 'The deployment was changed since it was read')
}

/** Tells one state of a deployment from another. */
export const etagOf = ({ updated_at }: Pick<Known<DeploymentBody>, 'updated_at'>): string => `"${updated_at}"`

/** `all`: the names of the secrets that the revision will have, given ones or not. */
function checkVariables(
  source: DeploymentBody['source'],
  given: readonly Secret[],
  references: readonly SecretReference[],
  all: readonly string[] = given.map(({ name }) => name),
): void {
  refuse(reservedRefusal([...given, ...references].map(({ name }) => name)))
  if (source === 'github' && references.length > 0)
    throw fail('bad_request', 'secret_references must be empty for source github')
  const twice = references.find(({ name }) => all.includes(name))
  if (twice !== undefined) throw fail('bad_request', `${twice.name} is a secret and a reference: give it once`)
}

interface Secrets {
  id: string
  names: string[]
  insert: Step[]
  claimed: Step[]
}

/** A version of secrets, sealed for the deployment. */
function sealed({ ring }: Tools, deployment_id: string, secrets: readonly Secret[]): Secrets {
  const id = v7()
  const text = JSON.stringify(Object.fromEntries(secrets.map(({ name, value }) => [name, value])))
  const body = JSON.stringify({ sealed: ring.seal(text, secretsPlace(deployment_id, id)) })
  const row = newRecord('secrets', id, { parent: deployment_id, body, due_at: Date.now() + ORPHAN_MS })
  const insert: Step[] = [{ step: 'records.insert', row }]
  return { id, names: secrets.map(({ name }) => name), insert, claimed: [claimed('secrets', id)] }
}

/** The version that the next revision has: the older revision's, a new one of what is given, or the latest as it is. */
async function nextSecrets(
  tools: Tools,
  { id, body }: Known<DeploymentBody>,
  given: readonly Secret[] | null,
  old: RevisionBody | undefined,
): Promise<Secrets> {
  const from = old ?? body
  if (given === null || old !== undefined)
    return { id: from.secrets, names: from.secret_names, insert: [], claimed: [] }
  const masked = given.filter(({ value }) => value === MASK)
  const unknown = masked.find(({ name }) => !body.secret_names.includes(name))
  if (unknown !== undefined)
    throw fail(
      'bad_request',
      `the secret ${unknown.name} has the value ${MASK}, but none is stored that it could stand for`,
    )
  const stored = masked.length === 0 ? {} : await secretsOf(tools, id, body.secrets)
  return sealed(
    tools,
    id,
    given.map(({ name, value }) => ({ name, value: value === MASK ? stored[name]! : value })),
  )
}

/** A revision, to be inserted before the deployment refers to it. */
function newRevision(
  deployment_id: string,
  given: Omit<RevisionBody, 'status' | 'status_message' | 'artefact' | 'redeploy_of' | 'started_at' | 'finished_at'> & {
    artefact?: string | null
    redeploy_of?: string | null
  },
) {
  const body: RevisionBody = {
    status: 'CREATING',
    status_message: null,
    artefact: null,
    redeploy_of: null,
    started_at: null,
    finished_at: null,
    ...given,
  }
  const id = v7()
  const row = newRecord('revision', id, {
    parent: deployment_id,
    body: JSON.stringify(body),
    due_at: Date.now() + ORPHAN_MS,
  })
  const insert: Step = { step: 'records.insert', row }
  return { id, body, insert, claimed: claimed('revision', id) }
}
