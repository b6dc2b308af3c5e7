/**
 * The Helm chart of deploy/helm, rendered by helm for the combinations of values below. Skipped without a program helm (PATH,
 * or HELM).
 */
import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { parseAllDocuments } from 'yaml'
import { newIssuerSeed, openIssuer } from '../../bus/pool-users.js'
import { natsAuthorization } from '../../cli/commands/nats.js'
import { findNatsServer } from '../../cli/nats/server.js'
import { makeProgram } from '../../cli/program.js'
import { root } from '../../cli/root.js'
import { SETTINGS } from '../../schemas/config.js'
import { helmOptions, helmTemplate, type Manifest, manifestsOf, renderChart } from './cluster-files.js'

const chart = join(root, 'deploy/helm/weft')
const commands = makeProgram().commands.map(command => command.name())
const variables = Object.values(SETTINGS).map(({ env }) => env) as string[]

type Values = { [name: string]: unknown }
const database = { store: { type: 'postgres', existingSecret: 'database' } }
const users = { nats: { existingSecret: 'nats-users' } }
const scaled = (type: string) => ({ poolDefaults: { autoscaling: { enabled: true, type } } })
const external = (more: object = {}) => ({
  nats: {
    bundled: false,
    existingSecret: 'nats-users',
    external: { servers: ['a.example:4222', 'b.example:4333'], ...more },
  },
})

/** Values that are rendered, besides those of values.yaml; `file`: of the chart, too. */
const COMBINATIONS: { [what: string]: { file?: string; values: Values } } = {
  'one node': { file: 'values-one-node.yaml', values: {} },
  'a cluster with PostgreSQL and made secrets': { values: database },
  'MongoDB by its URL': { values: { store: { type: 'mongodb', url: 'mongodb://u:p@db/weft' } } },
  'users of pools and keys of existing Secrets': {
    values: {
      ...database,
      ...users,
      keys: { existingSecret: 'keys' },
      pools: [{ name: 'default' }, { name: 'deep_work' }],
    },
  },
  'pools with images, applications and KEDA': {
    values: {
      ...database,
      ...users,
      ...scaled('keda'),
      image: { digest: `sha256:${'a'.repeat(64)}` },
      pools: [
        { name: 'default' },
        { name: 'research', appId: 'research', app: '/srv/app', image: { repository: 'r.example/other', tag: '2' } },
      ],
    },
  },
  'pools by CPU, routes, monitoring': {
    values: {
      ...database,
      ...scaled('cpu'),
      ingress: { enabled: true, className: 'nginx', host: 'weft.example', tlsSecret: 'weft-tls' },
      httpRoute: { enabled: true, parentRefs: [{ name: 'public' }], hostnames: ['weft.example'] },
      monitoring: { serviceMonitor: true, prometheusRule: true, labels: { release: 'prometheus' } },
    },
  },
  'TLS of NATS': { values: { ...database, nats: { tls: { enabled: true, secret: 'nats-tls' } } } },
  'NATS servers of your own': {
    values: { ...database, ...external({ copies: 3, monitor: 'a.example:8222' }), ...scaled('keda') },
  },
  'backups of PostgreSQL': { values: { ...database, backup: { enabled: true, image: 'postgres:17' } } },
  'backups of MongoDB into a claim that is there': {
    values: {
      store: { type: 'mongodb', existingSecret: 'database' },
      backup: { enabled: true, image: 'mongo:7', existingClaim: 'backups' },
    },
  },
  'no NetworkPolicies, no spread, no autoscaling': {
    values: {
      ...database,
      networkPolicy: { enabled: false },
      nats: { spread: false },
      edge: { autoscaling: { enabled: false }, service: { type: 'LoadBalancer', annotations: { a: 'b' } } },
      nodeSelector: { pool: 'weft' },
      tolerations: [{ key: 'weft', operator: 'Exists' }],
      image: { pullSecrets: [{ name: 'registry' }] },
      settings: { WEFT_MAX_FILE_STORE: '8e9' },
    },
  },
}
/** Secrets, claims and the like that the values name: the chart does not make them. */
const GIVEN = ['database', 'nats-users', 'keys', 'nats-tls', 'backups']

const REFUSED: { [reason: string]: Values } = {
  'store.url or store.existingSecret must name the database': {},
  'nats.external.servers must list': { ...database, nats: { bundled: false } },
  'nats.existingSecret must name a Secret': {
    ...database,
    nats: { bundled: false, external: { servers: ['a:4222'] } },
  },
  'nats.tls.secret must name a Secret': { ...database, nats: { tls: { enabled: true } } },
  'backup.image must name an image with pg_dump': { ...database, backup: { enabled: true } },
  'httpRoute.parentRefs must name': { ...database, httpRoute: { enabled: true } },
  'nats.external.monitor must name': { ...database, ...external(), ...scaled('keda') },
  replica_count: { ...database, replica_count: 2 },
  'store.type|/store/type': { store: { type: 'mysql' } },
  'nats.replicas|/nats/replicas': { ...database, nats: { replicas: 2 } },
}

/** Groups whose objects no package of schemas describes: a part that their controllers read. */
const OTHERS: { [kind: string]: object } = {
  ServiceMonitor: { selector: { matchLabels: { app: 'weft-edge' } }, endpoints: [{ port: 'http', path: '/metrics' }] },
  PrometheusRule: { groups: [{ name: 'weft' }] },
  HTTPRoute: { rules: [{ timeouts: { request: '0s' }, backendRefs: [{ name: 'weft', port: 80 }] }] },
}

async function checkObject(t: Test, manifest: Manifest): Promise<void> {
  const { apiVersion, kind, metadata, spec } = manifest
  const what = `${kind} ${metadata.name}`
  if (kind in OTHERS) return void t.match(spec, OTHERS[kind]!, what)
  const library = apiVersion.startsWith('keda.sh') ? '@kubernetes-models/keda' : 'kubernetes-models'
  const models = (await import(`${library}/${apiVersion}/${kind}`)) as {
    [kind: string]: new (manifest: Manifest) => { validate(): void }
  }
  t.doesNotThrow(() => new models[kind]!(manifest).validate(), what)
}

interface PodSpec {
  terminationGracePeriodSeconds?: number
  volumes: { [kind: string]: { [name: string]: string } }[]
  containers: { image: string; args: string[]; volumeMounts: { name: string }[]; readinessProbe?: object }[]
}

function checkPod(t: Test, what: string, pod: PodSpec, manifests: readonly Manifest[], claims: string[]): void {
  const names = new Set([...manifests.map(({ kind, metadata }) => `${kind} ${metadata.name}`)])
  for (const given of GIVEN) for (const kind of ['Secret', 'PersistentVolumeClaim']) names.add(`${kind} ${given}`)
  const text = JSON.stringify(pod)
  for (const [, secret] of text.matchAll(/"(?:secretKeyRef|secretRef)":\{[^}]*"name":"([^"]*)"/g))
    t.ok(names.has(`Secret ${secret}`), `${what}: Secret ${secret}`)
  for (const { configMap, secret, persistentVolumeClaim } of pod.volumes) {
    if (configMap) t.ok(names.has(`ConfigMap ${configMap.name}`), `${what}: ConfigMap ${configMap.name}`)
    if (secret) t.ok(names.has(`Secret ${secret.secretName}`), `${what}: Secret ${secret.secretName}`)
    if (persistentVolumeClaim)
      t.ok(
        names.has(`PersistentVolumeClaim ${persistentVolumeClaim.claimName}`),
        `${what}: ${persistentVolumeClaim.claimName}`,
      )
  }
  const volumes = [...pod.volumes.map(({ name }) => name as unknown as string), ...claims]
  for (const { image, volumeMounts, securityContext } of pod.containers as (PodSpec['containers'][0] & {
    securityContext: object
  })[]) {
    for (const { name } of volumeMounts) t.ok(volumes.includes(name), `${what}: volume ${name}`)
    t.match(securityContext, { readOnlyRootFilesystem: true, allowPrivilegeEscalation: false }, what)
    t.match(image, /^[a-z0-9./-]+(:[\w.-]+)?(@sha256:[0-9a-f]{64})?$/, what)
  }
}

for (const [what, { file, values }] of Object.entries(COMBINATIONS))
  t.test(`the chart with ${what}`, helmOptions, async t => {
    const manifests = renderChart(values, file)
    const keys = manifests.map(({ kind, metadata }) => `${kind} ${metadata.name}`)
    t.same([...new Set(keys)].length, keys.length, 'each object once')
    for (const manifest of manifests) {
      await checkObject(t, manifest)
      const { kind, metadata, spec, data } = manifest
      const name = `${kind} ${metadata.name}`
      if (metadata.name === 'weft-settings') for (const one of Object.keys(data!)) t.ok(variables.includes(one), one)
      const target = spec?.scaleTargetRef
      if (target) {
        const scales = manifests.find(one => one.kind === 'Deployment' && one.metadata.name === target.name)
        t.notOk(scales === undefined || 'replicas' in scales.spec, `${name}: the autoscaler decides alone`)
      }
      const template = spec?.jobTemplate?.spec.template ?? spec?.template
      if (template === undefined) continue
      if (spec.selector) t.match(template.metadata.labels, spec.selector.matchLabels, name)
      const claims = (spec.volumeClaimTemplates ?? []).map((one: Manifest) => one.metadata.name)
      checkPod(t, name, template.spec, manifests, claims)
      if (kind !== 'Deployment') continue
      t.ok(keys.includes(`PodDisruptionBudget ${metadata.name}`), `${name} may be moved`)
      t.ok(commands.includes(template.spec.containers[0].args[0]), name)
      const settings = manifests.find(one => one.metadata.name === 'weft-settings')!.data!
      const stop = Number(settings.WEFT_STOP_MS) + Number(settings.WEFT_EDGE_DRAIN_MS)
      t.ok(template.spec.terminationGracePeriodSeconds * 1_000 > stop, `${name} may stop in order`)
    }
  })

t.test('values that go together with nothing are refused with a sentence', helmOptions, async t => {
  for (const [reason, values] of Object.entries(REFUSED)) {
    const { status, stderr } = helmTemplate(values)
    t.not(status, 0, reason)
    t.match(stderr, new RegExp(reason.replaceAll('.', '\\.')), reason)
  }
})

t.test('NATS accepts its configuration', helmOptions, async t => {
  const server = await findNatsServer()
  const certificates = t.testdir()
  const files = ['-keyout', 'tls.key', '-out', 'tls.crt', '-subj', '/CN=weft-nats', '-days', '2']
  const made = spawnSync(
    'openssl',
    ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', ...files],
    {
      cwd: certificates,
      encoding: 'utf8',
    },
  )
  t.equal(made.status, 0, made.stderr)
  copyFileSync(join(certificates, 'tls.crt'), join(certificates, 'ca.crt'))
  const env = Object.fromEntries(
    ['EDGE', 'RESOURCES', 'GRAPHS', 'DEPLOYER', 'CLUSTER'].map(role => [`NATS_${role}_PASSWORD`, `p${role}`]),
  )
  const more = {
    NATS_NAME: 'a',
    NATS_MONITOR: '127.0.0.1:0',
    NATS_ROUTES: '[]',
    NATS_ISSUER: openIssuer(newIssuerSeed()).publicKey,
  }
  for (const [what, { file, values }] of Object.entries({
    'one server': { file: 'values-one-node.yaml', values: {} },
    three: { file: undefined, values: database },
    'with users of pools': { file: undefined, values: { ...database, ...users } },
    'three with TLS': { file: undefined, values: COMBINATIONS['TLS of NATS']!.values },
  })) {
    const manifests = renderChart(values, file)
    const { data } = manifests.find(({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === 'weft-nats')!
    const folder = join(certificates, what.replaceAll(' ', '-'))
    mkdirSync(folder)
    for (const [name, text] of Object.entries(data!))
      writeFileSync(join(folder, name), text.replaceAll('/etc/nats-tls/', `${certificates}/`))
    const checked = spawnSync(server, ['-t', '-c', join(folder, 'nats.conf')], {
      env: { ...process.env, ...env, ...more },
      encoding: 'utf8',
    })
    t.equal(checked.status, 0, `${what}: ${checked.stderr}`)
    const hasIssuer = what === 'with users of pools'
    t.equal(data!['users.conf']!.includes('auth_callout'), hasIssuer, what)
    if (hasIssuer) t.equal(data!['users.conf']!.trim(), natsAuthorization().trim())
    t.match(data!['server.conf'], /sync_interval: 1s/)
  }
})

t.test('NetworkPolicies are those of deploy/kubernetes', helmOptions, async t => {
  const own = renderChart(database).filter(({ kind }) => kind === 'NetworkPolicy')
  const policies = (manifests: readonly Manifest[], change: (text: string) => string) =>
    Object.fromEntries(
      manifests.map(({ metadata, spec }) => [
        metadata.name.replace(/^weft-nats$/, 'nats'),
        JSON.parse(change(JSON.stringify(spec))) as object,
      ]),
    )
  const others = manifestsOf('deploy/kubernetes').filter(({ kind }) => kind === 'NetworkPolicy')
  const asManifests = policies(own, text =>
    text
      .replaceAll('weft-nats', 'nats')
      .replaceAll(/"app.kubernetes.io\/instance":"weft",?|,?"app.kubernetes.io\/instance":"weft"/g, ''),
  )
  const wanted = policies(others, text =>
    text
      .replace(',"weft-deployer"', '')
      .replace(
        /"matchExpressions":\[\{"key":"weft","operator":"In","values":\["role"\]\},/g,
        '"matchLabels":{"weft":"role"},"matchExpressions":[',
      ),
  )
  t.same(asManifests, wanted)
})

t.test('the chart has the version of the package', async t => {
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }
  const [about] = parseAllDocuments(readFileSync(join(chart, 'Chart.yaml'), 'utf8'))
  t.match(about!.toJS(), { version, appVersion: version })
})
