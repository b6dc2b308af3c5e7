/**
 * Values that this cluster does not run, or its operator does not allow, one sentence each
 * (docs/spec/control-plane.md#kubernetes-driver). Pure.
 */
import type { Config } from '../../../schemas/config.js'
import { type LabelPolicy, labelPolicy, labelProblems, refusedIn, sentencesOf } from '../images/allowed.js'
import type { Asked } from '../images/asked.js'
import { containers, volumeMounts, volumes } from './allowed.js'

export interface Policy {
  /** The first one is the default. */
  namespaces: readonly string[]
  service_accounts: readonly string[]
  labels: LabelPolicy
}

const listOf = (text: string) => text.split(',').flatMap(one => (one.trim() === '' ? [] : [one.trim()]))

/** Throws one sentence when no namespace is named. */
export const policyOf = ({
  kubernetes_namespaces,
  kubernetes_service_accounts,
  image_labels,
}: Pick<Config, 'kubernetes_namespaces' | 'kubernetes_service_accounts' | 'image_labels'>): Policy => {
  const namespaces = listOf(kubernetes_namespaces)
  if (namespaces.length === 0) throw new Error('WEFT_KUBERNETES_NAMESPACES must name at least one namespace')
  return { namespaces, service_accounts: listOf(kubernetes_service_accounts), labels: labelPolicy({ image_labels }) }
}

export function problemsOf({ spec, namespace }: Asked, policy: Policy): string[] {
  const found: string[] = []
  if (namespace && !policy.namespaces.includes(namespace))
    found.push(
      `listener_config.k8s_namespace must be one of WEFT_KUBERNETES_NAMESPACES: ${policy.namespaces.join(', ')}`,
    )
  const account = spec?.service_account_name
  if (account && !policy.service_accounts.includes(account))
    found.push(`resource_spec.service_account_name must be one of WEFT_KUBERNETES_SERVICE_ACCOUNTS, not ${account}`)
  return [
    ...found,
    ...labelProblems(spec, policy.labels),
    ...sentencesOf(
      refusedIn(spec, {
        volumes: volumes(Boolean(account)),
        volume_mounts: volumeMounts,
        init_containers: containers(true),
        sidecars: containers(false),
      }),
      'is not allowed in a cluster; docs/deployments.md lists what is',
    ),
  ]
}
