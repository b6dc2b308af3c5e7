/** What this cluster does not run, or its operator does not allow, one sentence each (API: control-plane 11.4, 14). Pure. */
import type { Config } from '../../../schemas/config.js'
import type { DeployTask } from '../../../schemas/deploy-calls.js'
import type { Container } from '../../../schemas/deployments.js'

export interface Policy {
  /** The first one is the default. */
  namespaces: readonly string[]
  service_accounts: readonly string[]
}

const listOf = (text: string) => text.split(',').flatMap(one => (one.trim() === '' ? [] : [one.trim()]))

/** Throws one sentence when no namespace is named. */
export const policyOf = ({
  kubernetes_namespaces,
  kubernetes_service_accounts,
}: Pick<Config, 'kubernetes_namespaces' | 'kubernetes_service_accounts'>): Policy => {
  const namespaces = listOf(kubernetes_namespaces)
  if (namespaces.length === 0) throw new Error('WEFT_KUBERNETES_NAMESPACES must name at least one namespace')
  return { namespaces, service_accounts: listOf(kubernetes_service_accounts) }
}

export function problemsOf({ deployment }: Pick<DeployTask, 'deployment'>, policy: Policy): string[] {
  const { resource_spec: spec, listener_config } = deployment.source_config
  const found: string[] = []
  const namespace = listener_config?.k8s_namespace
  if (namespace && !policy.namespaces.includes(namespace))
    found.push(
      `listener_config.k8s_namespace must be one of WEFT_KUBERNETES_NAMESPACES: ${policy.namespaces.join(', ')}`,
    )
  const account = spec?.service_account_name
  if (account && !policy.service_accounts.includes(account))
    found.push(`resource_spec.service_account_name must be one of WEFT_KUBERNETES_SERVICE_ACCOUNTS, not ${account}`)
  for (const [i, volume] of (spec?.volumes ?? []).entries())
    if (volume.csi) found.push(`resource_spec.volumes[${i}].csi may reach the node: it is not allowed`)
  for (const list of ['init_containers', 'sidecars'] as const)
    for (const [i, container] of (spec?.[list] ?? []).entries()) {
      const at = `resource_spec.${list}[${i}]`
      // A cluster has this member for init containers that always run, and for no other.
      if (container.restartPolicy && (list === 'init_containers' || container.restartPolicy === 'OnFailure'))
        found.push(`${at}.restartPolicy must be Always, for a sidecar, or absent`)
      found.push(...securityProblems(container, at))
    }
  return found
}

function securityProblems({ securityContext }: Container, at: string): string[] {
  const { privileged, allowPrivilegeEscalation, capabilities } = (securityContext ?? {}) as {
    privileged?: unknown
    allowPrivilegeEscalation?: unknown
    capabilities?: { add?: unknown[] } | null
  }
  return [
    ...(privileged ? ['privileged'] : []),
    ...(allowPrivilegeEscalation ? ['allowPrivilegeEscalation'] : []),
    ...(capabilities?.add?.length ? ['capabilities.add'] : []),
  ].map(member => `${at}.securityContext.${member} gives power over the node: it is not allowed`)
}
