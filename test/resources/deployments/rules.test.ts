import t from 'tap'
import type { DeploymentPatch, ResourceSpec, Secret, SourceConfigInput } from '../../../schemas/deployments.js'
import { parseAllowed } from '../../../workers/outbound.js'
import { initialConfig, initialRevisionConfig } from '../../../workers/resources/deployments/merge.js'
import { specProblems } from '../../../workers/resources/deployments/resource-spec.js'
import { formProblems, refusalOf, reservedRefusal } from '../../../workers/resources/deployments/rules.js'

const policy = { allowed: parseAllowed('git.inner.example'), local_sources: ['/srv/repos'] }
const GITHUB = { repo_url: 'https://example.com/a/b' }
const REVISION = { repo_ref: 'main', graph_config_path: 'langgraph.json' }
const IMAGE = { resource_spec: {} }
const IMAGE_REVISION = { image_uri: 'registry.example.com/a:1' }

const refusal = (source: 'github' | 'external_docker', config: SourceConfigInput, revision: object): string | null =>
  refusalOf(
    { source, source_config: initialConfig(config, source), source_revision_config: initialRevisionConfig(revision) },
    policy,
  )

t.test('which source owns a field: a sentence that names it', async t => {
  t.equal(refusal('github', GITHUB, REVISION), null)
  t.equal(refusal('external_docker', IMAGE, IMAGE_REVISION), null)
  const id = '6ba7b821-9dad-11d1-80b4-00c04fd430c8'
  const rows: ['github' | 'external_docker', object, object, RegExp][] = [
    ['github', {}, REVISION, /source_config\.repo_url is required/],
    ['github', GITHUB, { graph_config_path: 'a.json' }, /repo_ref is required/],
    ['github', GITHUB, { repo_ref: 'main' }, /graph_config_path is required/],
    ['github', GITHUB, { ...REVISION, image_uri: 'a:1' }, /image_uri must be null/],
    ['github', { ...GITHUB, listener_id: id }, REVISION, /listener_id must be null/],
    ['github', { ...GITHUB, listener_config: {} }, REVISION, /listener_config must be null/],
    ['github', { ...GITHUB, build_on_push: true }, { ...REVISION, repo_ref: 'refs/tags/v1' }, /build_on_push/],
    ...['volumes', 'volume_mounts', 'init_containers', 'sidecars', 'image_pull_secrets'].map(
      (name): ['github', object, object, RegExp] => [
        'github',
        { ...GITHUB, resource_spec: { [name]: [{ name: 'a' }] } },
        REVISION,
        new RegExp(`resource_spec\\.${name} is not available`),
      ],
    ),
    ['github', { ...GITHUB, resource_spec: { service_account_name: 'a' } }, REVISION, /service_account_name/],
    ['github', { ...GITHUB, resource_spec: { min_scale: 0, max_scale: 0 } }, REVISION, /at least 1/],
    ['github', { ...GITHUB, resource_spec: { queue_max_scale: 0 } }, REVISION, /at least 1/],
    ['external_docker', {}, IMAGE_REVISION, /resource_spec is required/],
    ['external_docker', IMAGE, {}, /image_uri is required/],
    ['external_docker', { ...IMAGE, repo_url: 'https://example.com/a' }, IMAGE_REVISION, /repo_url must be null/],
    ['external_docker', { ...IMAGE, integration_id: id }, IMAGE_REVISION, /integration_id must be null/],
    ['external_docker', { ...IMAGE, deployment_type: 'dev' }, IMAGE_REVISION, /deployment_type must be null/],
    ['external_docker', { ...IMAGE, build_on_push: true }, IMAGE_REVISION, /build_on_push must be null/],
    ['external_docker', { ...IMAGE, install_command: 'a' }, IMAGE_REVISION, /install_command must be null/],
    ['external_docker', { ...IMAGE, build_command: 'a' }, IMAGE_REVISION, /build_command must be null/],
    ['external_docker', { ...IMAGE, listener_id: id }, IMAGE_REVISION, /listener_id names no listener/],
    ['external_docker', IMAGE, { ...IMAGE_REVISION, repo_ref: 'main' }, /repo_ref must be null/],
    ['external_docker', IMAGE, { ...IMAGE_REVISION, graph_config_path: 'a' }, /graph_config_path must be null/],
  ]
  for (const [source, config, revision, sentence] of rows)
    t.match(refusal(source, config, revision) ?? 'accepted', sentence, `${sentence}`)
  t.equal(refusal('external_docker', { ...IMAGE, build_on_push: false }, IMAGE_REVISION), null)
})

t.test('commands are plain words joined by &&', async t => {
  for (const good of ['npm ci', 'npm ci && npm run build', "echo 'a b'", 'yarn --frozen-lockfile', ''])
    t.equal(refusal('github', { ...GITHUB, install_command: good, build_command: good }, REVISION), null, good)
  for (const char of ['"', '`', '\\', '\n', '\r', '\0', '\t', '|', ';', '$', '>', '<', '&'])
    for (const name of ['install_command', 'build_command'])
      t.match(refusal('github', { ...GITHUB, [name]: `a ${char} b` }, REVISION), new RegExp(name), JSON.stringify(char))
  t.match(refusal('github', { ...GITHUB, install_command: 'a &&& b' }, REVISION), /install_command/)
})

t.test('the addresses that builds may read from', async t => {
  const rows: [string, RegExp | null][] = [
    ['https://example.com/a/b.git', null],
    ['ssh://git@example.com/a', null],
    ['git@example.com:a/b.git', null],
    ['/srv/repos/a', null],
    ['file:///srv/repos/a', null],
    ['http://git.inner.example/a', null],
    ['https://127.0.0.1/a', /WEFT_ALLOW_HOSTS/],
    ['https://169.254.169.254/a', /WEFT_ALLOW_HOSTS/],
    ['http://example.com/a', /must be https/],
    ['/srv/repositories', /WEFT_LOCAL_SOURCES/],
    ['/srv/repos/../../etc', /WEFT_LOCAL_SOURCES/],
    ['file:///srv/repos/%2e%2e/%2e%2e/etc', /WEFT_LOCAL_SOURCES/],
    ['/etc', /WEFT_LOCAL_SOURCES/],
  ]
  for (const [repo_url, wanted] of rows) {
    const why = refusal('github', { repo_url }, REVISION)
    if (wanted === null) t.equal(why, null, repo_url)
    else t.match(why ?? 'accepted', wanted, repo_url)
  }
})

const locs = (body: DeploymentPatch): string[] => formProblems(body).map(({ loc }) => loc.join('.'))

t.test('members with a format', async t => {
  const bad: { [name: string]: string[] } = {
    repo_url: [
      'example.com/a',
      'ftp://a/b',
      'ext::sh',
      '-u',
      'https://u:p@a/b',
      'https://token@a/b',
      'ssh://u:p@a/b',
      'a b',
      './x',
    ],
    custom_url: ['example.com', 'ftp://a', 'https://u:p@a', '/x'],
    repo_ref: [
      '-x',
      'a..b',
      'a b',
      'a~1',
      'a^',
      'a:b',
      'a?',
      'a*',
      'a[',
      'a\\b',
      '/a',
      'a/',
      'a.',
      'a.lock',
      'a@{1}',
      'a//b',
      'a/.b',
      'a\x7f',
    ],
    graph_config_path: ['/a', '../a', 'a/../b', '-a', 'a\\b', 'a\nb', 'a\0'],
    image_uri: ['Upper/Case:1 ', 'a b', 'https://a/b', 'a:', 'a@sha256:1', '-a', 'a/B', 'u:p@h/a'],
  }
  for (const [name, values] of Object.entries(bad)) {
    const part = name.endsWith('_url') ? 'source_config' : 'source_revision_config'
    for (const value of values)
      t.same(locs({ [part]: { [name]: value } }), [`body.${part}.${name}`], `${name} ${value}`)
  }
  const good: { [name: string]: string[] } = {
    repo_url: ['https://a.example/b', 'git@h:p', 'ssh://git@h:22/p', '/a', 'file:///a'],
    custom_url: ['https://a.example', 'http://a:1/x'],
    repo_ref: ['main', 'refs/tags/v1.0', 'refs/heads/feature/x', 'a'.repeat(40), 'fix-#1', 'ü'],
    graph_config_path: ['langgraph.json', 'apps/a', './a.json', '..a/b'],
    image_uri: ['a', 'a:1', 'host:5000/a/b:v1.0_x', `a@sha256:${'0'.repeat(64)}`, 'ghcr.io/o/n-x__y:1'],
  }
  for (const [name, values] of Object.entries(good)) {
    const part = name.endsWith('_url') ? 'source_config' : 'source_revision_config'
    for (const value of values) t.same(locs({ [part]: { [name]: value } }), [], `${name} ${value}`)
  }
  const both = { graph_config_path: 'a', langgraph_config_path: 'b' }
  t.same(locs({ source_revision_config: both }), ['body.source_revision_config.langgraph_config_path'])
  t.same(locs({ source_revision_config: { graph_config_path: 'a', langgraph_config_path: 'a' } }), [])
})

t.test('secrets', async t => {
  const secret = (name: string, value = 'x'): Secret => ({ name, value })
  t.same(locs({ secrets: [secret('A'), secret('B'), secret('A')] }), ['body.secrets.2.name'])
  t.same(locs({ secrets: [secret('A', 'x'.repeat(32 * 1024))] }), [])
  t.same(locs({ secrets: [secret('A', 'ü'.repeat(16 * 1024 + 1))] }), ['body.secrets.0.value'])
  t.same(locs({ secrets: [secret('A', 'a\0b')] }), ['body.secrets.0.value'])
  const many = Array.from({ length: 17 }, (_, i) => secret(`A${i}`, 'x'.repeat(32 * 1024)))
  t.same(locs({ secrets: many }), ['body.secrets'])
  t.same(locs({ secrets: [secret('A')], secret_references: [{ name: 'A', secret_name: 's', secret_key: 'k' }] }), [
    'body.secret_references.0.name',
  ])
  for (const name of ['PATH', 'PORT', 'WEFT_CONTROL_KEY', 'NATS_URL', 'LANGSMITH_DEPLOYMENT_NAME'])
    t.match(reservedRefusal(['A', name]), new RegExp(name))
  for (const name of ['LANGSMITH_API_KEY', 'OPENAI_API_KEY', 'PATHS', '__proto__'])
    t.equal(reservedRefusal([name]), null)
})

t.test('resource_spec: members that contradict each other', async t => {
  const at = (spec: ResourceSpec) => specProblems(spec).map(({ loc }) => loc.join('.'))
  for (const part of ['', 'queue_', 'orchestrator_']) {
    t.same(at({ [`${part}min_scale`]: 3, [`${part}max_scale`]: 2 }), [`${part}max_scale`])
    t.same(at({ [`${part}min_scale`]: 2, [`${part}max_scale`]: 2 }), [])
  }
  for (const part of ['', 'queue_', 'orchestrator_', 'redis_', 'db_']) {
    t.same(at({ [`${part}cpu`]: 2, [`${part}cpu_limit`]: 1 }), [`${part}cpu_limit`])
    t.same(at({ [`${part}memory_mb`]: 200, [`${part}memory_limit_mb`]: 100 }), [`${part}memory_limit_mb`])
  }
  const volumes = [{ name: 'v', emptyDir: {} }]
  t.same(at({ volumes, volume_mounts: [{ name: 'v', mountPath: '/x' }] }), [])
  t.same(at({ volumes: [{ name: 'v' }] }), ['volumes.0'])
  t.same(at({ volumes: [{ name: 'v', emptyDir: {}, secret: {} }] }), ['volumes.0'])
  t.same(at({ volumes: [...volumes, ...volumes] }), ['volumes.1.name'])
  t.same(at({ volume_mounts: [{ name: 'w', mountPath: '/x' }] }), ['volume_mounts.0.name'])
  t.same(at({ volumes, volume_mounts: [{ name: 'v' }] }), ['volume_mounts.0.mountPath'])
  const twice = { name: 'v', mountPath: '/x', subPath: 'a', subPathExpr: 'b' }
  t.same(at({ volumes, volume_mounts: [twice] }), ['volume_mounts.0'])
  const env = [{ name: 'A', value: '', valueFrom: {} }]
  for (const list of ['init_containers', 'sidecars'] as const) {
    t.same(at({ [list]: [{ name: 'a', image: 'b', env }] }), [`${list}.0.env.0`])
    t.same(at({ [list]: [{ name: 'a', image: 'b', volumeMounts: [{ name: 'w', mountPath: '/' }] }] }), [
      `${list}.0.volumeMounts.0.name`,
    ])
  }
  const one = [{ name: 'a', image: 'b' }]
  t.same(at({ init_containers: one, sidecars: one }), ['sidecars.0.name'])
})
