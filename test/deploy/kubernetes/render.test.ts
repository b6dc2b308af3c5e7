/**
 * The objects of revisions, compared with files, each valid by the published schemas of Kubernetes and KEDA.
 * WEFT_TEST_GOLDEN=write writes the files anew.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parseAllDocuments, stringify } from 'yaml'
import { root } from '../../../cli/root.js'
import type { ResourceSpec } from '../../../schemas/deployments.js'
import { imageSizeOf } from '../../../workers/deploy/images/size.js'
import { type Manifest, renderManifests, type Workload } from '../../../workers/deploy/kubernetes/render.js'

const folder = join(root, 'test/deploy/kubernetes/golden')

const workloadOf = (spec: ResourceSpec | null, more: Partial<Workload> = {}): Workload => ({
  revision: {
    deployment_id: '0198f2a5-0000-7000-8000-000000000000',
    slug: 'support-1a2b3c4d',
    revision_id: '0198f2a5-0000-7000-8000-000000000001',
    pool: 'rev_0198f2a5-0000-7000-8000-000000000001',
    name: 'support',
    seq: 3,
    generation: 2,
    epoch: 7,
    namespace: 'apps',
    image: 'registry.test/team/app:1',
  },
  spec,
  size: imageSizeOf(spec),
  env: { WEFT_REVISION: '0198f2a5-0000-7000-8000-000000000001' },
  secrets: { NATS_URL: 'nats://graphs:password@broker.test:4222', TOKEN: 'a secret value' },
  secret_references: [],
  grace_seconds: 312,
  scaling: { runs_each: 10, down_ms: 1_800_000, keda: '' },
  ...more,
})

const keda = { scaling: { runs_each: 10, down_ms: 7_200_000, keda: 'nats.weft:8222' } }

const CASES: { [name: string]: Workload } = {
  minimal: workloadOf({}),
  'min-is-max': workloadOf({ min_scale: 3, max_scale: 3, cpu: 0.5, memory_mb: 512 }, keda),
  'queue-off': workloadOf({ min_scale: 2, max_scale: 4, cpu: 2, queue_max_scale: 0, queue_cpu: 8 }),
  scaled: workloadOf({ queue_min_scale: 0, queue_max_scale: 20, queue_cpu: 1.5, queue_memory_limit_mb: 3_000 }, keda),
  sidecars: workloadOf({
    init_containers: [{ name: 'models', image: 'fetch:1', args: ['get'], restartPolicy: null }],
    sidecars: [
      { name: 'proxy', image: 'proxy:1', restartPolicy: 'Always', env: [{ name: 'A', value: 'b', valueFrom: null }] },
      { name: 'metrics', image: 'metrics:1', resources: { limits: { memory: '64Mi' }, requests: null } },
    ],
  }),
  everything: workloadOf(
    {
      min_scale: 2,
      max_scale: 5,
      cpu: 1.5,
      cpu_limit: 2,
      memory_mb: 1_000,
      memory_limit_mb: 1_500,
      labels: { team: 'support', 'weft.dev/revision': 'ours counts', cost: 12 },
      annotations: { note: { by: 'team' } },
      service_account_name: 'models',
      image_pull_secrets: [{ name: 'registry' }],
      volumes: [
        { name: 'work', emptyDir: { sizeLimit: '1Gi' } },
        { name: 'settings', configMap: { name: 'settings' }, secret: null },
        { name: 'keys', secret: { secretName: 'keys', defaultMode: 256 } },
        { name: 'data', persistentVolumeClaim: { claimName: 'data' } },
        { name: 'share', nfs: { server: '10.0.0.1', path: '/export' } },
        { name: 'all', projected: { sources: [{ configMap: { name: 'settings' } }] } },
        { name: 'about', downwardAPI: { items: [{ path: 'labels', fieldRef: { fieldPath: 'metadata.labels' } }] } },
      ],
      volume_mounts: [
        { name: 'data', mountPath: '/data', subPath: 'a', readOnly: true },
        { name: 'work', mountPath: '/work', subPath: null, readOnly: null },
      ],
      init_containers: [
        {
          name: 'init',
          image: 'init:1',
          imagePullPolicy: 'Always',
          command: ['sh'],
          args: ['-c', 'true'],
          workingDir: '/work',
          env: [{ name: 'KEY', valueFrom: { secretKeyRef: { name: 'keys', key: 'a' } } }],
          envFrom: [{ configMapRef: { name: 'settings' } }],
          resources: { limits: { cpu: '1' }, requests: { cpu: '100m' } },
          volumeMounts: [{ name: 'work', mountPath: '/work' }],
          securityContext: { runAsUser: 1000 },
        },
      ],
    },
    { ...keda, secret_references: [{ name: 'PASSWORD', secret_name: 'keys', secret_key: 'password' }] },
  ),
}

const write = process.env.WEFT_TEST_GOLDEN === 'write'
const textOf = (manifests: readonly Manifest[]) => manifests.map(one => stringify(one)).join('---\n')

t.test('each case is as its file', async t => {
  for (const [name, workload] of Object.entries(CASES)) {
    const path = join(folder, `${name}.yaml`)
    const manifests = renderManifests(workload)
    if (write) writeFileSync(path, textOf(manifests))
    const expected = parseAllDocuments(readFileSync(path, 'utf8')).map(document => document.toJS() as Manifest)
    t.strictSame(JSON.parse(JSON.stringify(manifests)), expected, name)
  }
  t.same(
    readdirSync(folder).sort(),
    Object.keys(CASES)
      .map(name => `${name}.yaml`)
      .sort(),
  )
})

t.test('each object is valid by its schema', async t => {
  for (const [name, workload] of Object.entries(CASES))
    for (const manifest of renderManifests(workload)) {
      const { apiVersion, kind } = manifest
      const library = apiVersion.startsWith('keda.sh') ? '@kubernetes-models/keda' : 'kubernetes-models'
      const models = (await import(`${library}/${apiVersion}/${kind}`)) as {
        [kind: string]: new (manifest: Manifest) => { validate(): void }
      }
      t.doesNotThrow(() => new models[kind]!(manifest).validate(), `${name}: ${kind}`)
    }
})

t.test('secrets are in the Secret only, under a name that changes with them', async t => {
  const [config, secret, ...others] = renderManifests(CASES.everything!)
  t.notMatch(JSON.stringify([config, ...others]), /password@|a secret value/)
  t.equal(Buffer.from((secret!.data as { TOKEN: string }).TOKEN, 'base64').toString(), 'a secret value')
  const changed = renderManifests({ ...CASES.everything!, secrets: { TOKEN: 'another' } })
  t.not(changed[1]!.metadata.name, secret!.metadata.name)
  t.equal(changed[0]!.metadata.name, config!.metadata.name)
  t.match(JSON.stringify(changed[2]), changed[1]!.metadata.name, 'so the pods change')
})
