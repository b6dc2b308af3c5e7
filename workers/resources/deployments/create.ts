/**
 * Creation of a deployment (docs/spec/control-plane.md#create): its first revision, its secrets and its project, then
 * itself.
 */
import { v7 } from 'uuid'
import {
  type DeploymentCreate,
  SCALE_TO_ZERO,
  type SecretReference,
  type Source,
  type SourceConfig,
  type SourceRevisionConfig,
} from '../../../schemas/deployments.js'
import { fail, InvalidFields } from '../../../schemas/errors.js'
import { isObject } from '../../../schemas/json.js'
import type { RecordRow } from '../../../store/rows/records.js'
import type { Step } from '../../../store/steps.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import { newRecord } from '../rows/record.js'
import { findByKey, idempotencyRecord } from './idempotency.js'
import { initialConfig, initialRevisionConfig } from './merge.js'
import { newRevision, sealSecrets } from './revision.js'
import { type DeploymentBody, dueAt, keysOfDeployment, newRollout, ORPHAN_MS, type Parsed, slugOf } from './row.js'
import { checkForm, checkValues, checkVariables } from './rules.js'
import { deploymentAfter } from './status.js'
import { MASK } from './text.js'
import { announce, commit, removeInserted, wakeDeployers } from './write.js'

/** Each step adds to the creation; a step that returns a deployment ends it. */
const steps = [checkRequest, findEarlier, buildRecords, store, announceCreation] as const

interface Creation {
  deps: Deps
  request: DeploymentCreate
  id: string
  /** The record of the Idempotency-Key, if any. */
  idempotency: RecordRow | null
  values: Values
  records: Records
}

interface Values {
  source: Source
  source_config: SourceConfig
  source_revision_config: SourceRevisionConfig
  references: SecretReference[]
}

interface Records {
  row: RecordRow
  body: DeploymentBody
  steps: Step[]
}

/** Nothing of a refused create is stored. `key`: the Idempotency-Key, if any. */
export async function createDeployment(
  deps: Deps,
  request: DeploymentCreate,
  key?: string,
): Promise<Parsed<DeploymentBody>> {
  const id = v7()
  const idempotency = key === undefined ? null : idempotencyRecord(deps, key, request, id)
  const creation = { deps, request, id, idempotency } as Creation
  for (const step of steps) {
    const done = await step(creation)
    if (done === RACE_LOST) return createDeployment(deps, request, key)
    if (done) return done
  }
  const { row, body } = creation.records
  return { ...row, body }
}

/** Sources that need a registry or templates of the server. */
const OTHER_SOURCES: readonly unknown[] = ['internal_docker', 'internal_template']

/** Throws bad_request, before the members are checked. */
export function refuseOtherSources(body: unknown): void {
  const source = isObject(body) ? body.source : null
  if (OTHER_SOURCES.includes(source))
    throw fail(
      'bad_request',
      `source ${source} is not available, because this server has no registry: langgraph deploy --remote uploads the source and builds it here, and --image-uri takes an image of a registry`,
    )
}

/** Two requests with the same key ran at once, and the other one was stored first. */
const RACE_LOST = 'race lost'

function checkRequest(creation: Creation): void {
  const { deps, request } = creation
  checkForm(request)
  const { source } = request
  if (request.source_config.deployment_type === SCALE_TO_ZERO && source !== 'internal_source')
    throw new InvalidFields([
      { loc: ['body', 'source_config', 'deployment_type'], msg: 'expected dev_free, dev or prod', type: 'enum' },
    ])
  const source_config = initialConfig(request.source_config, source)
  const source_revision_config = initialRevisionConfig(request.source_revision_config)
  if (source !== 'external_docker' && source_config.custom_url !== null)
    throw fail('bad_request', `source_config.custom_url is set by the server for source ${source}`)
  if (source_revision_config.source_tarball_path)
    throw fail(
      'bad_request',
      'source_revision_config.source_tarball_path must be null when a deployment is created: it has no uploads yet',
    )
  checkValues({ source, source_config, source_revision_config }, deps)
  const references = request.secret_references ?? []
  checkVariables(source, request.secrets ?? [], references)
  if (request.secrets?.some(({ value }) => value === MASK))
    throw fail('bad_request', `a secret has the value ${MASK}, which means a stored value`)
  creation.values = { source, source_config, source_revision_config, references }
}

async function findEarlier({ deps, request, idempotency }: Creation): Promise<Parsed<DeploymentBody> | null> {
  return idempotency === null ? null : findByKey(deps, idempotency, request)
}

function buildRecords(creation: Creation): void {
  const { deps, request, id, idempotency, values } = creation
  const { source, source_config, source_revision_config, references } = values
  const secrets = sealSecrets(deps, id, request.secrets ?? [])
  // Its first revision is made of the first upload.
  const revision =
    source === 'internal_source'
      ? null
      : newRevision(id, {
          seq: 1,
          source,
          source_revision_config,
          install_command: source_config.install_command,
          build_command: source_config.build_command,
          secrets: secrets.id,
          secret_names: secrets.names,
          secret_references: references,
        })
  const body: DeploymentBody = {
    slug: slugOf(request.name, id),
    source,
    source_config,
    // Rows carry the id of their deployment, so there is no database to provision (docs/spec/control-plane.md#reconciling).
    status: deploymentAfter('AWAITING_DATABASE', 'provisioned'),
    generation: 1,
    seq: revision === null ? 0 : 1,
    latest: revision?.id ?? null,
    source_revision_config,
    secrets: secrets.id,
    secret_names: secrets.names,
    secret_references: references,
    serving: null,
    rollout: revision === null ? null : newRollout(revision.id, revision.body),
    queued: null,
    epoch: 0,
    lease: null,
    image_version: null,
    delete_project: false,
  }
  const now = clock.now()
  const { name } = request
  const project = newRecord('project', id, { name, body: '{}', due_at: now + ORPHAN_MS })
  const row = newRecord('deployment', id, {
    name,
    body: JSON.stringify(body),
    keys: keysOfDeployment(body),
    due_at: dueAt(body, now),
  })
  const insert = (row: RecordRow): Step => ({ step: 'records.insert', row })
  const steps = [
    ...(idempotency === null ? [] : [insert(idempotency)]),
    insert(project),
    ...secrets.insert,
    ...(revision === null ? [] : [revision.insert]),
    insert(row),
    commit('project', id),
    ...secrets.commit,
    ...(revision === null ? [] : [revision.commit]),
  ]
  creation.records = { row, body, steps }
}

async function store({ deps, request, idempotency, records }: Creation): Promise<typeof RACE_LOST | undefined> {
  const { row, steps } = records
  const failed = await deps.store.apply(steps)
  const own = steps.findIndex(step => step.step === 'records.insert' && step.row === row)
  if (failed === -1 || failed > own) return undefined
  await removeInserted(deps.store, steps.slice(0, failed))
  if (idempotency !== null && failed === 0) return RACE_LOST
  throw fail('conflict', `A deployment or tracing project named ${request.name} exists already.`)
}

function announceCreation({ deps, id, records }: Creation): void {
  announce(deps, id)
  if (records.body.latest !== null) wakeDeployers(deps, 'deploy', id, records.body.latest)
}
