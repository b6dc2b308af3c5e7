/**
 * The members that deployments may give a cluster (docs/deployments.md): nothing that reaches the node, another container, or rights of the
 * cluster. Pure.
 */
import {
  type Allowed,
  flag,
  image,
  list,
  matching,
  members,
  NFS_HOST,
  oneOf,
  text,
  textOrNumber,
  whole,
} from '../images/allowed.js'

const named = { name: text, optional: flag }
const keyOf = members({ ...named, key: text })
const fieldRef = members({ fieldPath: text, apiVersion: text })
const resourceFieldRef = members({ containerName: text, resource: text, divisor: textOrNumber })
const items = list(members({ key: text, path: text, mode: whole }))
const files = list(members({ path: text, fieldRef, resourceFieldRef, mode: whole }))

/** Processor, memory and disk space of the node, and the plugins of graphics cards. */
const amounts = members(
  Object.fromEntries(
    ['cpu', 'memory', 'ephemeral-storage', 'nvidia.com/gpu', 'amd.com/gpu'].map(name => [name, textOrNumber]),
  ),
)

export const volumeMounts = list(
  members({
    name: text,
    mountPath: text,
    subPath: text,
    subPathExpr: text,
    readOnly: flag,
    // The mounts of a container stay its own.
    mountPropagation: oneOf('None', 'HostToContainer'),
  }),
)

// A probe of the container itself: without `host`.
const httpGet = members({
  path: text,
  port: textOrNumber,
  scheme: text,
  httpHeaders: list(members({ name: text, value: text })),
})
const exec = members({ command: list(text) })
const times = ['initialDelaySeconds', 'timeoutSeconds', 'periodSeconds', 'successThreshold', 'failureThreshold']
const probe = members({
  exec,
  httpGet,
  tcpSocket: members({ port: textOrNumber }),
  grpc: members({ port: whole, service: text }),
  ...Object.fromEntries(times.map(name => [name, whole])),
})
const handler = members({ exec, httpGet, sleep: members({ seconds: whole }) })

const securityContext = members({
  runAsUser: whole,
  runAsGroup: whole,
  runAsNonRoot: flag,
  readOnlyRootFilesystem: flag,
  privileged: oneOf(false),
  allowPrivilegeEscalation: oneOf(false),
  capabilities: members({ drop: list(text) }),
  seccompProfile: members({ type: oneOf('RuntimeDefault') }),
})

/** `isInit`: an init container runs once; a sidecar may be one that stays. */
export const containers = (isInit: boolean): Allowed =>
  list(
    members({
      name: text,
      image,
      imagePullPolicy: text,
      command: list(text),
      args: list(text),
      workingDir: text,
      env: list(
        members({
          name: text,
          value: text,
          valueFrom: members({ fieldRef, resourceFieldRef, configMapKeyRef: keyOf, secretKeyRef: keyOf }),
        }),
      ),
      envFrom: list(members({ prefix: text, configMapRef: members(named), secretRef: members(named) })),
      ports: list(members({ name: text, containerPort: whole, protocol: text })),
      resources: members({ limits: amounts, requests: amounts }),
      volumeMounts,
      securityContext,
      // A cluster restarts no other container by itself: `Always` makes a sidecar.
      ...(isInit ? {} : { restartPolicy: oneOf('Always') }),
      startupProbe: probe,
      readinessProbe: probe,
      livenessProbe: probe,
      lifecycle: members({ postStart: handler, preStop: handler }),
    }),
  )

/** `hasAccount`: the operator allows the service account of the deployment. */
export const volumes = (hasAccount: boolean): Allowed => {
  const sources = {
    configMap: members({ ...named, items }),
    secret: members({ ...named, items }),
    downwardAPI: members({ items: files }),
    // A token of the cluster.
    ...(hasAccount ? { serviceAccountToken: members({ path: text, expirationSeconds: whole, audience: text }) } : {}),
  }
  return list(
    members({
      name: text,
      configMap: members({ ...named, items, defaultMode: whole }),
      secret: members({ secretName: text, optional: flag, items, defaultMode: whole }),
      downwardAPI: members({ items: files, defaultMode: whole }),
      projected: members({ sources: list(members(sources)), defaultMode: whole }),
      emptyDir: members({ medium: text, sizeLimit: textOrNumber }),
      persistentVolumeClaim: members({ claimName: text, readOnly: flag }),
      nfs: members({ server: matching(NFS_HOST, 'a host'), path: text, readOnly: flag }),
    }),
  )
}
