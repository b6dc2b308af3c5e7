/** The redactors of deployments, by version of their secrets. */
import { openRedactor, type Redactor } from '../../../schemas/redact.js'
import type { Deps } from '../context.js'
import { secretsOf } from './text.js'

export interface Redactors {
  /** The redactor of a version of secrets. A version never changes, so its redactor is kept. */
  of(deployment_id: string, secrets_id: string): Promise<Redactor>
}

const MAX_REDACTORS = 100

export function openRedactors(deps: Deps): Redactors {
  const redactors = new Map<string, Redactor>()
  return {
    async of(deployment_id, secrets_id) {
      const found = redactors.get(secrets_id)
      if (found !== undefined) return found
      const redactor = openRedactor(Object.values(await secretsOf(deps, deployment_id, secrets_id)))
      if (redactors.size >= MAX_REDACTORS) redactors.delete(redactors.keys().next().value!)
      redactors.set(secrets_id, redactor)
      return redactor
    },
  }
}
