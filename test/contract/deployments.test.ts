/**
 * The tables of the contract for the deployment endpoints, row by row: the server accepts every member, answers it
 * unchanged, accepts null, and refuses a value of another type with 422 that names the member. The rows come from the
 * contract document, not from our types.
 */
import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import type { Deployment } from '../../schemas/deployments.js'
import { startRoles } from '../helpers/cluster.js'
import { github, image, KEY, openControl } from '../helpers/control.js'
import { fits, type Kind, wrong } from './fields.js'

t.setTimeout(180_000)

/** Deployment (response): name, type, required. */
const DEPLOYMENT: [string, Kind][] = [
  ['name', 'string'],
  ['source', 'github|external_docker'],
  ['source_config', 'object'],
  ['source_revision_config', 'object'],
  ['secrets', 'array'],
  ['id', 'uuid'],
  ['created_at', 'date-time'],
  ['updated_at', 'date-time'],
  ['status', 'AWAITING_DATABASE|READY|UNUSED|AWAITING_DELETE|UNKNOWN'],
  ['latest_revision_id', 'uuid?'],
  ['active_revision_id', 'uuid?'],
  ['image_version', 'string?'],
]

/** SourceConfig: member, type, a value, the source that has the member. All nullable. */
const SOURCE_CONFIG: [string, Kind, unknown, 'github' | 'external_docker'][] = [
  ['integration_id', 'uuid', randomUUID(), 'github'],
  ['repo_url', 'url', 'https://example.com/agents/two', 'github'],
  ['deployment_type', 'dev_free|dev|prod', 'prod', 'github'],
  ['build_on_push', 'boolean', true, 'github'],
  ['custom_url', 'url', 'https://agents.example.com', 'external_docker'],
  ['resource_spec', 'object', { cpu: 1 }, 'external_docker'],
  ['listener_id', 'uuid', null, 'external_docker'],
  ['listener_config', 'object', { k8s_namespace: 'agents' }, 'external_docker'],
  ['install_command', 'string', 'npm ci', 'github'],
  ['build_command', 'string', 'npm run build', 'github'],
]

/** resource_spec: numeric members, with a value within the documented ranges. */
const SIZES: [string, number][] = [
  ['min_scale', 2],
  ['max_scale', 3],
  ['cpu', 0.5],
  ['cpu_limit', 16],
  ['memory_mb', 512],
  ['memory_limit_mb', 4096],
  ['queue_min_scale', 0],
  ['queue_max_scale', 10],
  ['queue_cpu', 8],
  ['queue_cpu_limit', 8],
  ['queue_memory_mb', 256],
  ['queue_memory_limit_mb', 256],
  ['orchestrator_cpu', 0.1],
  ['orchestrator_cpu_limit', 0.1],
  ['orchestrator_memory_mb', 64],
  ['orchestrator_memory_limit_mb', 64],
  ['orchestrator_min_scale', 1],
  ['orchestrator_max_scale', 1],
  ['redis_memory_mb', 128],
  ['db_cpu', 1],
  ['db_cpu_limit', 2],
  ['db_memory_mb', 1024],
  ['db_memory_limit_mb', 2048],
  ['db_storage_gi', 20],
  ['db_max_connections', 100],
]

const VOLUME = { name: 'cache', emptyDir: { sizeLimit: '1Gi' } }
const FREE = { someKey: [{ 'another-Key': null }], snake_case: { UPPER: 1.5 } }
/** resource_spec: the other members. */
const OTHERS: [string, Kind, unknown][] = [
  ['labels', 'object', { team: 'a', 'x.y/Z': 1 }],
  ['annotations', 'object', { camelCase: 'stays', snake_case: true }],
  ['service_account_name', 'string', 'agents'],
  ['image_pull_secrets', 'array', [{ name: 'registry' }]],
  ['volumes', 'array', [VOLUME]],
  ['volume_mounts', 'array', []],
  ['init_containers', 'array', [{ name: 'init', image: 'busybox:1' }]],
  ['sidecars', 'array', [{ name: 'side', image: 'busybox:1' }]],
]

/** Volume: the free-form members. */
const VOLUMES = ['configMap', 'secret', 'emptyDir', 'persistentVolumeClaim', 'nfs', 'projected', 'downwardAPI', 'csi']

const MOUNTS: [string, Kind, unknown][] = [
  ['mountPath', 'string', '/cache'],
  ['subPath', 'string', 'a/b'],
  ['mountPropagation', 'string', 'HostToContainer'],
  ['subPathExpr', 'string', '$(POD_NAME)'],
  ['readOnly', 'boolean', true],
]

const CONTAINERS: [string, Kind, unknown][] = [
  ['imagePullPolicy', 'Always|Never|IfNotPresent', 'Always'],
  ['command', 'array', ['sh', '-c']],
  ['args', 'array', ['true']],
  ['workingDir', 'string', '/work'],
  [
    'env',
    'array',
    [
      { name: 'A', value: 'b' },
      { name: 'C', valueFrom: FREE },
    ],
  ],
  ['envFrom', 'array', [FREE]],
  ['resources', 'object', { limits: FREE, requests: { cpu: '1' } }],
  ['volumeMounts', 'array', [{ name: 'cache', mountPath: '/cache' }]],
  ['securityContext', 'object', FREE],
  ['restartPolicy', 'Always|OnFailure', 'Always'],
]

/** SourceRevisionConfig in requests. */
const REVISION: [string, Kind, unknown, 'github' | 'external_docker'][] = [
  ['repo_ref', 'string', 'refs/tags/v1', 'github'],
  ['graph_config_path', 'string', 'apps/a/langgraph.json', 'github'],
  ['image_uri', 'string', 'registry.example.com/agents/two:2', 'external_docker'],
]

t.test('deployment endpoints', async t => {
  const roles = await startRoles({ graphs: 0, env: { WEFT_CONTROL_KEY: KEY } })
  t.teardown(() => roles.stop())
  const call = openControl(roles.urls[0]!)
  let n = 0
  const name = () => `row-${++n}`
  const post = (body: object) => call<Deployment>('POST', '/v2/deployments', body)
  const total = async () => (await call<{ resources: [] }>('GET', '/v2/deployments?limit=100')).body.resources.length

  const base = {
    github: (await post(github('base-github'))).body,
    external_docker: (await post(image('base-image'))).body,
  }
  const bodyFor = (source: 'github' | 'external_docker') => (source === 'github' ? github(name()) : image(name()))

  /** POST and PATCH refuse each value with a 422 that names this member. */
  async function refused(
    t: Test,
    source: 'github' | 'external_docker',
    loc: (string | number)[],
    kind: Kind,
    over: (value: unknown) => object,
  ) {
    for (const value of wrong(kind)) {
      const wanted = { status: 422, body: { detail: [{ loc: ['body', ...loc], msg: /^expected /, type: String }] } }
      t.match(await post({ ...bodyFor(source), ...over(value) }), wanted, `POST ${JSON.stringify(value)}`)
      const patched = await call('PATCH', `/v2/deployments/${base[source].id}`, over(value))
      t.match(patched, wanted, `PATCH ${JSON.stringify(value)}`)
    }
  }

  await t.test('Deployment (response)', async t => {
    const answers = [
      await post(github(name())),
      await call<Deployment>('GET', `/v2/deployments/${base.github.id}`),
      await call<Deployment>('PATCH', `/v2/deployments/${base.external_docker.id}`, {
        secrets: [{ name: 'A', value: 'b' }],
      }),
    ].map(({ body }) => body as never as { [name: string]: unknown })
    answers.push(...(await call<{ resources: typeof answers }>('GET', '/v2/deployments')).body.resources)
    for (const [field, kind] of DEPLOYMENT)
      await t.test(field, async t => {
        for (const answer of answers) t.ok(fits(kind, answer[field]), `${JSON.stringify(answer[field])} is ${kind}`)
      })
  })

  await t.test('Secret', async t => {
    const secrets = (value: unknown) => ({ secrets: value })
    await refused(t, 'github', ['secrets'], 'array', secrets)
    await refused(t, 'github', ['secrets', 0], 'object', value => secrets([value]))
    await refused(t, 'github', ['secrets', 0, 'name'], 'string', value => secrets([{ name: value, value: 'x' }]))
    await refused(t, 'github', ['secrets', 0, 'value'], 'string', value => secrets([{ name: 'A', value }]))
    for (const member of ['name', 'value'])
      t.match(await post({ ...github(name()), secrets: [{ name: 'A', value: 'x', [member]: undefined }] }), {
        status: 422,
      })
    for (const bad of ['1A', 'A-B', 'A B', '', 'ä'])
      t.match(await post({ ...github(name()), secrets: [{ name: bad, value: 'x' }] }), { status: 422 }, bad)
  })

  await t.test('SourceConfig', async t => {
    t.same(
      Object.keys(base.github.source_config).sort(),
      SOURCE_CONFIG.map(([field]) => field).sort(),
      'every member is answered',
    )
    for (const [field, kind, value, source] of SOURCE_CONFIG)
      await t.test(field, async t => {
        const good = bodyFor(source)
        const made = await post({ ...good, source_config: { ...good.source_config, [field]: value } })
        t.equal(made.status, 201, made.text)
        t.same(made.body.source_config[field as 'repo_url'], value, 'answered unchanged')
        // A member that one source requires may be null for the other.
        const required = field === 'repo_url' || field === 'resource_spec'
        const whose = bodyFor(required === (source === 'github') ? 'external_docker' : 'github')
        const nulled = await post({ ...whose, source_config: { ...whose.source_config, [field]: null } })
        t.equal(nulled.status, 201, `null: ${nulled.text}`)
        await refused(t, source, ['source_config', field], kind, value => ({
          source_config: { ...good.source_config, [field]: value },
        }))
      })
    const k8s = (value: unknown) => ({
      source_config: { resource_spec: {}, listener_config: { k8s_namespace: value } },
    })
    await refused(t, 'external_docker', ['source_config', 'listener_config', 'k8s_namespace'], 'string', k8s)
  })

  /** Sends a member of resource_spec, or of an object in it, and compares the answer. */
  async function spec(t: Test, value: object): Promise<void> {
    const made = await post(image(name(), { source_config: { resource_spec: value } }))
    t.equal(made.status, 201, made.text)
    t.same(made.body.source_config.resource_spec, value, 'answered unchanged')
    const read = await call<Deployment>('GET', `/v2/deployments/${made.body.id}`)
    t.same(read.body.source_config.resource_spec, value, 'and kept')
  }
  const within = (value: object) => ({ source_config: { resource_spec: value } })
  const place = ['source_config', 'resource_spec']

  await t.test('resource_spec: sizes', async t => {
    for (const [field, value] of SIZES)
      await t.test(field, async t => {
        await spec(t, { [field]: value })
        t.equal((await post(image(name(), within({ [field]: null }) as never))).status, 201, 'null')
        await refused(t, 'external_docker', [...place, field], 'number', value => within({ [field]: value }))
        const beyond = /scale$/.test(field)
          ? [-1, 1.5, 101]
          : /cpu/.test(field)
            ? [0, -1, 0.05, 17]
            : /_mb$/.test(field)
              ? [0, 63, 1.5, 1_048_577]
              : [0, -1, 1.5]
        for (const value of beyond)
          t.match(
            await post(image(name(), within({ [field]: value }))),
            { status: 422, body: { detail: [{ loc: ['body', ...place, field] }] } },
            `${value}`,
          )
      })
    await spec(t, Object.fromEntries(SIZES))
  })

  await t.test('resource_spec: other members', async t => {
    for (const [field, kind, value] of OTHERS)
      await t.test(field, async t => {
        await spec(t, { [field]: value })
        t.equal((await post(image(name(), within({ [field]: null }) as never))).status, 201, 'null')
        await refused(t, 'external_docker', [...place, field], kind, value => within({ [field]: value }))
      })
    const pull = (value: unknown) => within({ image_pull_secrets: [{ name: value }] })
    await refused(t, 'external_docker', [...place, 'image_pull_secrets', 0, 'name'], 'string', pull)
  })

  await t.test('Volume', async t => {
    for (const member of VOLUMES)
      await t.test(member, async t => {
        await spec(t, { volumes: [{ name: 'v', [member]: FREE }] })
        await refused(t, 'external_docker', [...place, 'volumes', 0, member], 'object', value =>
          within({ volumes: [{ name: 'v', [member]: value }] }),
        )
      })
    await refused(t, 'external_docker', [...place, 'volumes', 0, 'name'], 'string', value =>
      within({ volumes: [{ name: value, emptyDir: {} }] }),
    )
  })

  await t.test('Volume mount', async t => {
    const mount = { name: 'cache', mountPath: '/x' }
    for (const [member, kind, value] of MOUNTS)
      await t.test(member, async t => {
        await spec(t, { volumes: [VOLUME], volume_mounts: [{ ...mount, [member]: value }] })
        await refused(t, 'external_docker', [...place, 'volume_mounts', 0, member], kind, value =>
          within({ volumes: [VOLUME], volume_mounts: [{ ...mount, [member]: value }] }),
        )
      })
    await refused(t, 'external_docker', [...place, 'volume_mounts', 0, 'name'], 'string', value =>
      within({ volumes: [VOLUME], volume_mounts: [{ ...mount, name: value }] }),
    )
  })

  for (const list of ['init_containers', 'sidecars'])
    await t.test(`Container of ${list}`, async t => {
      const one = { name: 'box', image: 'busybox:1' }
      for (const [member, kind, value] of CONTAINERS)
        await t.test(member, async t => {
          const volumes = { volumes: [VOLUME] }
          await spec(t, { ...volumes, [list]: [{ ...one, [member]: value }] })
          await refused(t, 'external_docker', [...place, list, 0, member], kind, value =>
            within({ ...volumes, [list]: [{ ...one, [member]: value }] }),
          )
        })
      for (const member of ['name', 'image'])
        await refused(t, 'external_docker', [...place, list, 0, member], 'string', value =>
          within({ [list]: [{ ...one, [member]: value }] }),
        )
      const inner: [string, Kind, (value: unknown) => object][] = [
        ['command.0', 'string', value => ({ command: [value] })],
        ['args.0', 'string', value => ({ args: [value] })],
        ['env.0.name', 'string', value => ({ env: [{ name: value }] })],
        ['env.0.value', 'string', value => ({ env: [{ name: 'A', value }] })],
        ['env.0.valueFrom', 'object', value => ({ env: [{ name: 'A', valueFrom: value }] })],
        ['envFrom.0', 'object', value => ({ envFrom: [value] })],
        ['resources.limits', 'object', value => ({ resources: { limits: value } })],
        ['resources.requests', 'object', value => ({ resources: { requests: value } })],
      ]
      for (const [path, kind, over] of inner) {
        const loc = path.split('.').map(part => (/^\d+$/.test(part) ? Number(part) : part))
        await refused(t, 'external_docker', [...place, list, 0, ...loc], kind, value =>
          within({ [list]: [{ ...one, ...over(value) }] }),
        )
      }
    })

  await t.test('SourceRevisionConfig', async t => {
    for (const [field, kind, value, source] of REVISION)
      await t.test(field, async t => {
        const good = bodyFor(source)
        const config = { ...good.source_revision_config, [field]: value }
        const made = await post({ ...good, source_revision_config: config })
        t.equal(made.body.source_revision_config[field as 'repo_ref'], value)
        await refused(t, source, ['source_revision_config', field], kind, value => ({
          source_revision_config: { ...config, [field]: value },
        }))
      })
    await t.test('repo_commit_sha', async t => {
      const made = await post({
        ...github(name()),
        source_revision_config: { repo_ref: 'main', graph_config_path: 'a', repo_commit_sha: 'f'.repeat(40) },
      })
      t.equal(made.status, 201, 'ignored in a request')
      t.equal(made.body.source_revision_config.repo_commit_sha, null, 'a member of the answer only')
    })
  })

  await t.test('POST: required members', async t => {
    const before = await total()
    for (const [field, kind] of [
      ['name', 'string'],
      ['source', 'github|external_docker'],
      ['source_config', 'object'],
      ['source_revision_config', 'object'],
    ] as const) {
      const { [field]: _, ...without } = github(name())
      t.match(
        await post(without),
        { status: 422, body: { detail: [{ loc: ['body', field], type: 'missing' }] } },
        `without ${field}`,
      )
      t.match(
        await post({ ...github(name()), [field]: null }),
        { status: 422, body: { detail: [{ loc: ['body', field] }] } },
        `${field} null`,
      )
      for (const value of wrong(kind))
        t.match(
          await post({ ...github(name()), [field]: value }),
          { status: field === 'name' && value === 'other' ? 201 : 422 },
          `${field} ${JSON.stringify(value)}`,
        )
    }
    for (const bad of ['', '-a', '_a', 'a b', 'ä', 'a'.repeat(64), 'a/b', 'a.b'])
      t.match(await post(github(bad)), { status: 422 }, `name ${bad}`)
    t.equal(await total(), before, 'nothing is half-written')
  })

  await t.test('PATCH: members are optional and nullable', async t => {
    const before = (await call<Deployment>('GET', `/v2/deployments/${base.github.id}`)).body
    for (const field of ['source_config', 'source_revision_config', 'secrets']) {
      const { status, body } = await call<Deployment>('PATCH', `/v2/deployments/${base.github.id}`, { [field]: null })
      t.equal(status, 200)
      t.same(body, before, field)
    }
    for (const field of ['source_config', 'source_revision_config'])
      await refused(t, 'github', [field], 'object', value => ({ [field]: value }))
    t.same((await call<Deployment>('GET', `/v2/deployments/${base.github.id}`)).body, before, 'nothing is half-written')
  })

  await t.test('GET: limits', async t => {
    for (const [query, status] of [
      ['limit=1', 200],
      ['limit=100', 200],
      ['limit=0', 422],
      ['limit=101', 422],
      ['offset=0', 200],
      ['offset=-1', 422],
    ] as const)
      t.equal((await call('GET', `/v2/deployments?${query}`)).status, status, query)
    const { body } = await call<{ resources: unknown[]; offset: number }>('GET', '/v2/deployments?limit=7')
    t.same([body.resources.length, body.offset], [7, 7])
    for (const status of ['AWAITING_DATABASE', 'READY', 'UNUSED', 'AWAITING_DELETE', 'UNKNOWN'])
      t.equal((await call('GET', `/v2/deployments?status=${status}`)).status, 200, status)
    for (const type of ['dev_free', 'dev', 'prod'])
      t.equal((await call('GET', `/v2/deployments?deployment_type=${type}`)).status, 200, type)
  })
})
