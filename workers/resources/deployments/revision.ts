/** New revisions and new versions of secrets: records that are inserted before the deployment refers to them. */
import { v7 } from 'uuid'
import type { Secret } from '../../../schemas/deployments.js'
import { fail } from '../../../schemas/errors.js'
import type { Step } from '../../../store/steps.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import { secretsPlace } from '../keys/ring.js'
import { newRecord } from '../rows/record.js'
import { type DeploymentBody, ORPHAN_MS, type Parsed, type RevisionBody } from './row.js'
import { MASK, secretsOf } from './text.js'
import { commit } from './write.js'

export interface Secrets {
  id: string
  names: string[]
  insert: Step[]
  commit: Step[]
}

/** A new version of secrets, encrypted for the deployment. */
export function sealSecrets({ ring }: Deps, deployment_id: string, secrets: readonly Secret[]): Secrets {
  const id = v7()
  const text = JSON.stringify(Object.fromEntries(secrets.map(({ name, value }) => [name, value])))
  const body = JSON.stringify({ sealed: ring.seal(text, secretsPlace(deployment_id, id)) })
  const row = newRecord('secrets', id, { parent: deployment_id, body, due_at: clock.now() + ORPHAN_MS })
  const insert: Step[] = [{ step: 'records.insert', row }]
  return { id, names: secrets.map(({ name }) => name), insert, commit: [commit('secrets', id)] }
}

/** The secrets of the next revision: those of `old` (a redeploy), a new version of the given ones, or the latest version. */
export async function nextSecrets(
  deps: Deps,
  { id, body }: Parsed<DeploymentBody>,
  given: readonly Secret[] | null,
  old: RevisionBody | undefined,
): Promise<Secrets> {
  const from = old ?? body
  if (given === null || old !== undefined) return { id: from.secrets, names: from.secret_names, insert: [], commit: [] }
  const masked = given.filter(({ value }) => value === MASK)
  const unknown = masked.find(({ name }) => !body.secret_names.includes(name))
  if (unknown !== undefined)
    throw fail(
      'bad_request',
      `the secret ${unknown.name} has the value ${MASK}, which means a stored value, but none is stored`,
    )
  const stored = masked.length === 0 ? {} : await secretsOf(deps, id, body.secrets)
  return sealSecrets(
    deps,
    id,
    given.map(({ name, value }) => ({ name, value: value === MASK ? stored[name]! : value })),
  )
}

/** A new revision, to be inserted before the deployment refers to it. */
export function newRevision(
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
    due_at: clock.now() + ORPHAN_MS,
  })
  const insert: Step = { step: 'records.insert', row }
  return { id, body, insert, commit: commit('revision', id) }
}
