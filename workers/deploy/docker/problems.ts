/** Members of resource_spec that an engine without a cluster does not have, one sentence each. Pure. */
import type { DeployTask } from '../../../schemas/deploy-calls.js'
import type { Container, ResourceSpec, VolumeMount } from '../../../schemas/deployments.js'
import { megabytesOf, millicoresOf } from './quantity.js'

const VOLUMES = ['configMap', 'secret', 'projected', 'downwardAPI', 'csi'] as const
const SECURITY = ['readOnlyRootFilesystem', 'runAsUser', 'runAsGroup', 'allowPrivilegeEscalation']

export function problemsOf({
  deployment,
  secret_references,
}: Pick<DeployTask, 'deployment' | 'secret_references'>): string[] {
  const { resource_spec: spec, listener_config } = deployment.source_config
  const found: string[] = []
  const refuse = (member: string) => found.push(`${member} needs a cluster, which the docker driver does not have`)
  if (secret_references.length > 0) refuse('secret_references')
  if (listener_config?.k8s_namespace) refuse('listener_config.k8s_namespace')
  if (spec?.service_account_name) refuse('resource_spec.service_account_name')
  for (const [i, volume] of (spec?.volumes ?? []).entries()) {
    const at = `resource_spec.volumes[${i}]`
    for (const source of VOLUMES) if (volume[source]) refuse(`${at}.${source}`)
    const { emptyDir, nfs, persistentVolumeClaim: claim } = volume
    if (claim && typeof claim.claimName !== 'string') found.push(`${at}.persistentVolumeClaim.claimName must be a name`)
    if (nfs && (typeof nfs.server !== 'string' || typeof nfs.path !== 'string'))
      found.push(`${at}.nfs must have server and path`)
    if (emptyDir?.medium === 'Memory' && usesInInit(spec!, volume.name))
      found.push(`${at}: an emptyDir in memory does not outlive init containers; leave out its medium`)
  }
  mountProblems(spec?.volume_mounts, 'resource_spec.volume_mounts', found)
  for (const list of ['init_containers', 'sidecars'] as const)
    for (const [i, container] of (spec?.[list] ?? []).entries())
      containerProblems(container, `resource_spec.${list}[${i}]`, found)
  return found
}

const usesInInit = ({ init_containers }: ResourceSpec, volume: string): boolean =>
  (init_containers ?? []).some(({ volumeMounts }) => volumeMounts?.some(({ name }) => name === volume))

function mountProblems(mounts: readonly VolumeMount[] | null | undefined, at: string, found: string[]): void {
  for (const [i, { subPath, subPathExpr, mountPropagation }] of (mounts ?? []).entries())
    for (const [member, value] of Object.entries({ subPath, subPathExpr, mountPropagation }))
      if (value) found.push(`${at}[${i}].${member} needs a cluster, which the docker driver does not have`)
}

function containerProblems(container: Container, at: string, found: string[]): void {
  const { env, envFrom, resources, securityContext, volumeMounts } = container
  const refuse = (member: string) =>
    found.push(`${at}.${member} needs a cluster, which the docker driver does not have`)
  if (env?.some(({ valueFrom }) => valueFrom)) refuse('env.valueFrom')
  if (envFrom && envFrom.length > 0) refuse('envFrom')
  mountProblems(volumeMounts, `${at}.volumeMounts`, found)
  for (const member of Object.keys(securityContext ?? {}))
    if (!SECURITY.includes(member)) refuse(`securityContext.${member}`)
  if (securityContext?.allowPrivilegeEscalation === true) refuse('securityContext.allowPrivilegeEscalation')
  for (const part of ['limits', 'requests'] as const)
    for (const [name, value] of Object.entries(resources?.[part] ?? {})) {
      const parsed = name === 'cpu' ? millicoresOf(value) : name === 'memory' ? megabytesOf(value) : undefined
      if (parsed === undefined) refuse(`resources.${part}.${name}`)
      else if (parsed === null) found.push(`${at}.resources.${part}.${name} must be a quantity, as 500m or 256Mi`)
    }
}
