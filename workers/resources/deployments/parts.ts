/** What a deployment and its revisions are made of, and the checks that all of it goes through. */
import { resolve } from 'node:path'
import { v7 } from 'uuid'
import type { DeploymentPatch, Secret, SecretReference } from '../../../schemas/deployments.js'
import { fail, InvalidFields } from '../../../schemas/errors.js'
import type { Step } from '../../../store/port.js'
import type { Deps } from '../context.js'
import { secretsPlace } from '../keys/ring.js'
import { newRecord } from '../rows/record.js'
import { type DeploymentBody, ORPHAN_MS, type Parsed, type RevisionBody } from './row.js'
import { formProblems, type Policy, reservedRefusal } from './rules.js'
import { MASK, secretsOf } from './text.js'
import { commit } from './write.js'

/** Throws InvalidFields with everything that is out of form. */
export function checkForm(body: DeploymentPatch): void {
  const problems = formProblems(body)
  if (problems.length > 0) throw new InvalidFields(problems)
}

/** Throws the sentence as bad_request, if there is one. */
export function refuse(sentence: string | null): void {
  if (sentence !== null) throw fail('bad_request', sentence)
}

/** What the operator's settings say of where builds may read from. */
export const policyOf = ({ allowed, config }: Deps): Policy => ({
  allowed,
  local_sources: config.local_sources
    .split(',')
    .flatMap(folder => (folder.trim() === '' ? [] : resolve(folder.trim()))),
})

/** `all`: the names of the secrets that the revision will have, given ones or not. */
export function checkVariables(
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

export interface Secrets {
  id: string
  names: string[]
  insert: Step[]
  commit: Step[]
}

/** A version of secrets, sealed for the deployment. */
export function sealed({ ring }: Deps, deployment_id: string, secrets: readonly Secret[]): Secrets {
  const id = v7()
  const text = JSON.stringify(Object.fromEntries(secrets.map(({ name, value }) => [name, value])))
  const body = JSON.stringify({ sealed: ring.seal(text, secretsPlace(deployment_id, id)) })
  const row = newRecord('secrets', id, { parent: deployment_id, body, due_at: Date.now() + ORPHAN_MS })
  const insert: Step[] = [{ step: 'records.insert', row }]
  return { id, names: secrets.map(({ name }) => name), insert, commit: [commit('secrets', id)] }
}

/** The version that the next revision has: the older revision's, a new one of what is given, or the latest as it is. */
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
      `the secret ${unknown.name} has the value ${MASK}, but none is stored that it could stand for`,
    )
  const stored = masked.length === 0 ? {} : await secretsOf(deps, id, body.secrets)
  return sealed(
    deps,
    id,
    given.map(({ name, value }) => ({ name, value: value === MASK ? stored[name]! : value })),
  )
}

/** A revision, to be inserted before the deployment refers to it. */
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
    due_at: Date.now() + ORPHAN_MS,
  })
  const insert: Step = { step: 'records.insert', row }
  return { id, body, insert, commit: commit('revision', id) }
}
