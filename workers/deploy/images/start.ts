/** The values that a driver needs to start a revision of an image, from a task or while the revision is active. */
import type { ActiveDeployment, DeployTask, EnvOf, PoolUser } from '../../../schemas/deploy-calls.js'
import { type Asked, askedByActive, askedByTask } from './asked.js'

export interface ImageRevision {
  deployment_id: string
  slug: string
  revision_id: string
  pool: string
  /** Name of the deployment. */
  name: string
  seq: number
  generation: number
  /** Epoch of the task that starts it; `active` when an active revision is completed. */
  epoch: number | 'active'
  image: string
}

export interface ImageStart extends Asked {
  revision: ImageRevision
  secrets: { [name: string]: string }
  pool_user: PoolUser | null
}

export const startByTask = (task: DeployTask, artefact: string): ImageStart => ({
  ...askedByTask(task),
  revision: revisionOf({ ...task, name: task.deployment.name, image: artefact }),
  secrets: task.env,
  pool_user: task.pool_user,
})

export const startByActive = (active: ActiveDeployment, { env, pool_user }: EnvOf): ImageStart => ({
  ...askedByActive(active),
  revision: revisionOf({ ...active, epoch: 'active', image: active.artefact ?? active.image_uri! }),
  secrets: env,
  pool_user,
})

/** Leaves out what else the task or the deployment has. */
const revisionOf = (given: ImageRevision): ImageRevision => {
  const { deployment_id, slug, revision_id, pool, name, seq, generation, epoch, image } = given
  return { deployment_id, slug, revision_id, pool, name, seq, generation, epoch, image }
}
