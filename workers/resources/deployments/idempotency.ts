/**
 * Idempotency-Key on the creation of a deployment (docs/spec/control-plane.md#create): for 24 hours the same key with
 * the same body answers the deployment that it created, and another body is 409. The record holds a keyed digest of
 * the body, because the body holds secrets.
 */
import { hash } from 'node:crypto'
import { fail } from '../../../schemas/errors.js'
import type { RecordRow } from '../../../store/rows/records.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import { newRecord } from '../rows/record.js'
import { KIND, UNDER_WAY } from '../runs/idempotency.js'
import { type DeploymentBody, findDeployment, ORPHAN_MS, type Parsed } from './row.js'

const KEEP_MS = 24 * 3_600_000

interface Made {
  fingerprint: string
  deployment_id: string
}

/** The record that binds the key to the deployment. */
export function idempotencyRecord({ ring }: Deps, key: string, body: unknown, deployment_id: string): RecordRow {
  const made: Made = { fingerprint: ring.prints(JSON.stringify(body))[0]!, deployment_id }
  const id = hash('sha256', `deployments ${key}`)
  return newRecord(KIND, id, { body: JSON.stringify(made), due_at: clock.now() + KEEP_MS })
}

/** The deployment of an earlier request; null for a new key. Throws conflict for another body or a pending request. */
export async function findByKey(deps: Deps, record: RecordRow, body: unknown): Promise<Parsed<DeploymentBody> | null> {
  const { store, ring } = deps
  const found = await store.records.get(KIND, record.id)
  if (found === null) return null
  const made = JSON.parse(found.body) as Made
  const isExpired = found.due_at !== null && found.due_at <= clock.now()
  if (!isExpired && !ring.prints(JSON.stringify(body)).includes(made.fingerprint))
    throw fail('conflict', 'Idempotency-Key was used for another request within the last 24 hours')
  const deployment = isExpired ? null : await findDeployment(store, made.deployment_id)
  if (deployment !== null) return deployment
  if (!isExpired && found.created_at > clock.now() - ORPHAN_MS) throw fail('conflict', UNDER_WAY)
  await store.apply([{ step: 'records.remove', kind: KIND, id: found.id, where: { rev: found.rev } }])
  return null
}
