/** Deployments and revisions: the handlers of clients (docs/spec/control-plane.md#routes). */
import { bytesHandler, fieldsHandler, type Reply } from '../../../bus/serve.js'
import type { CallHead } from '../../../schemas/calls.js'
import {
  type DeploymentCreate,
  type DeploymentPatch,
  validateDeploymentCreate,
  validateDeploymentPatch,
} from '../../../schemas/deployments.js'
import { InvalidFields, WeftError } from '../../../schemas/errors.js'
import type { Deps } from '../context.js'
import { openQuery, pathIds } from '../query.js'
import { createRevision, etagOf, patchDeployment, redeploy } from './change.js'
import { createDeployment, refuseOtherSources } from './create.js'
import { listeners } from './listeners.js'
import { logQueries } from './log-query.js'
import { logWriter } from './logs.js'
import { pushes } from './push.js'
import { openRedactors } from './redact.js'
import { type DeploymentBody, deploymentOf, type Parsed, parseRow, type RevisionBody, revisionOf } from './row.js'
import { searchDeployments, searchRevisions } from './search.js'
import { deleteDeployment, interrupt } from './stop.js'
import { deployTasks } from './tasks.js'
import { deploymentOut, revisionOut, secretsOf } from './text.js'
import { uploads } from './uploads.js'

export const deployments = (deps: Deps) => {
  const redactors = openRedactors(deps)
  return {
    create: fieldsHandler<DeploymentCreate>(
      body => {
        refuseOtherSources(body)
        return validateDeploymentCreate(body)
      },
      async (body, { head }) => answer(deps, head, await createDeployment(deps, body, head.idempotency_key), 201),
    ),
    get: bytesHandler(async (_, { head }) => answer(deps, head, await deploymentOf(deps.store, idOf(head)))),
    search: bytesHandler((_, { head }) => search(deps, head)),
    update: fieldsHandler<DeploymentPatch>(validateDeploymentPatch, async (body, { head }) =>
      answer(deps, head, await patchDeployment(deps, idOf(head), body, originOf(head), head.if_match ?? '')),
    ),
    delete: bytesHandler(async (_, { head }) => {
      const query = openQuery(head.query)
      const whole = query.flag('delete_tracing_project') ?? false
      query.done()
      await deleteDeployment(deps, idOf(head), whole)
      return { head: { status: 204 } }
    }),
    delete_all: bytesHandler((_, { head }) => deleteAll(deps, head)),
    ...logQueries(deps),
    ...logWriter(deps, redactors),
    ...deployTasks(deps, redactors),
    ...pushes(deps),
    ...uploads(deps),
    ...listeners,
  }
}

export const revisions = (deps: Deps) => ({
  search: bytesHandler(async (_, { head }) => {
    const deployment = await deploymentOf(deps.store, idOf(head))
    const { rows, offset } = await searchRevisions(deps.store, deployment, head.query)
    const resources = rows.map(row => revisionOut(parseRow<RevisionBody>(row), deployment))
    return { body: JSON.stringify({ resources, offset }) }
  }),
  get: bytesHandler(async (_, { head }) => {
    const [id, revision_id] = pathIds(head.params, 'deployment_id', 'revision_id')
    return revisionAnswer(deps, await deploymentOf(deps.store, id!), revision_id!)
  }),
  create: fieldsHandler<DeploymentPatch>(validateDeploymentPatch, async (body, { head }) => {
    const after = await createRevision(deps, idOf(head), body)
    return revisionAnswer(deps, after, after.body.latest!, 201)
  }),
  redeploy: bytesHandler(async (_, { head }) => {
    const [id, revision_id] = pathIds(head.params, 'deployment_id', 'revision_id')
    return answer(deps, head, await redeploy(deps, id!, revision_id!))
  }),
  interrupt: bytesHandler(async (_, { head }) => {
    const [id, revision_id] = pathIds(head.params, 'deployment_id', 'revision_id')
    await interrupt(deps, id!, revision_id!)
    return revisionAnswer(deps, await deploymentOf(deps.store, id!), revision_id!)
  }),
})

const idOf = ({ params }: CallHead): string => pathIds(params, 'deployment_id')[0]!
const originOf = ({ origin }: CallHead): string => origin ?? ''

async function revisionAnswer(
  deps: Deps,
  deployment: Parsed<DeploymentBody>,
  id: string,
  status = 200,
): Promise<Reply> {
  const row = await revisionOf(deps.store, deployment, id)
  return { body: JSON.stringify(revisionOut(row, deployment)), head: { status } }
}

async function answer(deps: Deps, head: CallHead, row: Parsed<DeploymentBody>, status = 200): Promise<Reply> {
  return {
    body: JSON.stringify(await showDeployment(deps, head, row)),
    head: { status, headers: { ETag: etagOf(row) } },
  }
}

/** The answer; values of secrets only with WEFT_SECRETS_READ (docs/spec/control-plane.md#secrets). */
async function showDeployment(deps: Deps, head: CallHead, row: Parsed<DeploymentBody>) {
  const { tenant_id } = deps.workspace
  const secrets = deps.config.secrets_read ? await secretsOf(deps, row.id, row.body.secrets) : null
  return deploymentOut(row, { tenant_id, origin: originOf(head), secrets })
}

async function search(deps: Deps, head: CallHead): Promise<Reply> {
  const { rows, offset } = await searchDeployments(deps.store, head.query)
  const resources = await Promise.all(rows.map(row => showDeployment(deps, head, parseRow<DeploymentBody>(row))))
  return { body: JSON.stringify({ resources, offset }) }
}

/** 200 when all are deleted, else 207 with one result each (docs/spec/control-plane.md#delete). */
async function deleteAll(deps: Deps, head: CallHead): Promise<Reply> {
  const query = openQuery(head.query)
  const ids = query.ids('deployment_ids')
  const whole = query.flag('delete_tracing_project') ?? false
  query.done()
  if (ids === null)
    throw new InvalidFields([{ loc: ['query', 'deployment_ids'], msg: 'expected UUIDs, got nothing', type: 'missing' }])
  const results: { deployment_id: string; status: number; detail: string | null }[] = []
  for (const id of new Set(ids)) {
    const error = await deleteDeployment(deps, id, whole).then(
      () => null,
      (error: Error) => {
        if (error instanceof WeftError) return error
        throw error
      },
    )
    results.push({ deployment_id: id, status: error?.status ?? 204, detail: error?.message ?? null })
  }
  const status = results.every(one => one.status === 204) ? 200 : 207
  return { body: JSON.stringify({ results }), head: { status } }
}
