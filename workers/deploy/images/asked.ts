/** The requirements of a deployment of an image for its engine, in a task and while it is active. */
import type { ActiveDeployment, DeployTask } from '../../../schemas/deploy-calls.js'
import type { ResourceSpec, SecretReference } from '../../../schemas/deployments.js'

export interface Asked {
  spec: ResourceSpec | null
  /** `listener_config.k8s_namespace`. */
  namespace: string | null
  secret_references: readonly SecretReference[]
}

export const askedByTask = ({
  deployment,
  secret_references,
}: Pick<DeployTask, 'deployment' | 'secret_references'>): Asked => ({
  spec: deployment.source_config.resource_spec,
  namespace: deployment.source_config.listener_config?.k8s_namespace ?? null,
  secret_references,
})

export const askedByActive = ({ resource_spec, namespace, secret_references }: ActiveDeployment): Asked => ({
  spec: resource_spec,
  namespace,
  secret_references,
})
