/** Members of resource_spec that an engine without a cluster does not have, or must not be given, one sentence each. Pure. */
import type { ResourceSpec } from '../../../schemas/deployments.js'
import {
  flag,
  image,
  type LabelPolicy,
  labelProblems,
  list,
  matching,
  members,
  NFS_HOST,
  oneOf,
  type Refusal,
  refusedIn,
  sentencesOf,
  text,
  whole,
} from '../images/allowed.js'
import type { Asked } from '../images/asked.js'
import { megabytesOf, millicoresOf } from './quantity.js'

const UNKNOWN = 'needs a cluster, which the docker driver does not have'

export function problemsOf({ spec, namespace, secret_references }: Asked, labels: LabelPolicy): string[] {
  const found: string[] = []
  const refuse = (member: string) => found.push(`${member} ${UNKNOWN}`)
  if (secret_references.length > 0) refuse('secret_references')
  if (namespace) refuse('listener_config.k8s_namespace')
  if (spec?.service_account_name) refuse('resource_spec.service_account_name')
  const refused = refusedIn(spec, { volumes, volume_mounts: mounts, init_containers: containers, sidecars: containers })
  return [...found, ...labelProblems(spec, labels), ...sentencesOf([...refused, ...contradictions(spec)], UNKNOWN)]
}

/** The name of a volume: the engine takes it as a part of a name. */
const NAME = /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/
/** The engine separates the options of a mount by commas. */
const NFS_PATH = /^\/[^,\x00-\x1f\x7f]*$/

const quantity = (parse: (value: unknown) => number | null, example: string) => (value: unknown, at: string) =>
  parse(value) === null ? [{ at, must: `a quantity, as ${example}` }] : []
const cpu = quantity(millicoresOf, '500m')
const memory = quantity(megabytesOf, '256Mi')
const amounts = members({ cpu, memory })
const mounts = list(members({ name: text, mountPath: text, readOnly: flag }))

const containers = list(
  members({
    name: text,
    image,
    imagePullPolicy: text,
    command: list(text),
    args: list(text),
    workingDir: text,
    env: list(members({ name: text, value: text })),
    resources: members({ limits: amounts, requests: amounts }),
    volumeMounts: mounts,
    securityContext: members({
      readOnlyRootFilesystem: flag,
      runAsUser: whole,
      runAsGroup: whole,
      allowPrivilegeEscalation: oneOf(false),
    }),
    restartPolicy: text,
  }),
)

const volumes = list(
  members({
    name: text,
    emptyDir: members({ medium: text, sizeLimit: memory }),
    persistentVolumeClaim: members({ claimName: matching(NAME, 'a name'), readOnly: flag }),
    nfs: members({ server: matching(NFS_HOST, 'a host'), path: matching(NFS_PATH, 'a path'), readOnly: flag }),
  }),
)

/** Values that are missing, or do not fit together. */
function contradictions(spec: ResourceSpec | null): Refusal[] {
  const found: Refusal[] = []
  const say = (at: string, must: string) => found.push({ at, must })
  for (const [i, { name, emptyDir, nfs, persistentVolumeClaim: claim }] of (spec?.volumes ?? []).entries()) {
    const at = `resource_spec.volumes[${i}]`
    if (claim && (claim.claimName ?? null) === null) say(`${at}.persistentVolumeClaim.claimName`, 'a name')
    for (const member of nfs ? ['server', 'path'] : [])
      if ((nfs![member] ?? null) === null) say(`${at}.nfs.${member}`, 'given')
    if (emptyDir?.medium === 'Memory' && usesInInit(spec!, name))
      say(`${at}.emptyDir.medium`, 'left out: an emptyDir in memory does not outlive init containers')
  }
  for (const part of ['init_containers', 'sidecars'] as const)
    for (const [i, { securityContext: security }] of (spec?.[part] ?? []).entries())
      if (typeof security?.runAsGroup === 'number' && typeof security.runAsUser !== 'number')
        say(`resource_spec.${part}[${i}].securityContext.runAsUser`, 'given with runAsGroup')
  return found
}

const usesInInit = ({ init_containers }: ResourceSpec, volume: string): boolean =>
  (init_containers ?? []).some(({ volumeMounts }) => volumeMounts?.some(({ name }) => name === volume))
