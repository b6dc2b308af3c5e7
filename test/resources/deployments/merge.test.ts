import t from 'tap'
import type { DeploymentPatch, SourceConfigInput } from '../../../schemas/deployments.js'
import {
  initialConfig,
  initialRevisionConfig,
  type Merged,
  merge,
  same,
} from '../../../workers/resources/deployments/merge.js'

const ID = '6ba7b821-9dad-11d1-80b4-00c04fd430c8'
const URL = 'http://here/deployments/x-1'
const github = {
  source: 'github' as const,
  source_config: initialConfig(
    {
      repo_url: 'https://example.com/a/b',
      integration_id: ID,
      deployment_type: 'prod',
      resource_spec: { min_scale: 2, cpu: 1.5, db_storage_gi: 20 },
      install_command: 'npm ci',
    },
    'github',
  ),
  source_revision_config: {
    ...initialRevisionConfig({ repo_ref: 'main', graph_config_path: 'langgraph.json' }),
    repo_commit_sha: 'a'.repeat(40),
  },
}
const image = {
  source: 'external_docker' as const,
  source_config: initialConfig({ resource_spec: {}, custom_url: 'https://agents.example.com' }, 'external_docker'),
  source_revision_config: initialRevisionConfig({ image_uri: 'registry.example.com/a:1' }),
}

/** The members of source_config that the patch changes; a string when it is refused. */
const changes = (now: typeof github | typeof image, patch: DeploymentPatch) => {
  const merged = merge(now, patch, URL)
  if (typeof merged === 'string') return merged
  const before: { [name: string]: unknown } = { ...now.source_config }
  const after = Object.entries(merged.source_config).filter(([name, value]) => !same(before[name], value))
  return { ...Object.fromEntries(after), revises: merged.revises }
}
const config = (source_config: SourceConfigInput): DeploymentPatch => ({ source_config })

t.test('every row of the merge rule', async t => {
  const rows: [string, typeof github | typeof image, DeploymentPatch, unknown][] = [
    ['nothing', github, {}, { revises: false }],
    [
      'nothing but nulls',
      github,
      { source_config: null, source_revision_config: null, secrets: null, secret_references: null },
      { revises: false },
    ],
    [
      'nulls inside',
      github,
      {
        source_config: Object.fromEntries(Object.keys(github.source_config).map(name => [name, null])),
        source_revision_config: { repo_ref: null, graph_config_path: null, image_uri: null },
      },
      { revises: false },
    ],
    ['a string is replaced', github, config({ install_command: 'yarn' }), { install_command: 'yarn', revises: false }],
    ['"" clears a string', github, config({ install_command: '' }), { install_command: null, revises: false }],
    ['"" clears custom_url', image, config({ custom_url: '' }), { custom_url: null, revises: false }],
    ['a boolean is replaced', github, config({ build_on_push: true }), { build_on_push: true, revises: false }],
    [
      'resource_spec is replaced as a whole',
      github,
      config({ resource_spec: { memory_mb: 512, db_storage_gi: 20 } }),
      { resource_spec: { memory_mb: 512, db_storage_gi: 20 }, revises: false },
    ],
    ['{} is all defaults', image, config({ resource_spec: {} }), { revises: false }],
    [
      'storage never shrinks, not to the default either',
      github,
      config({ resource_spec: {} }),
      'source_config.resource_spec.db_storage_gi cannot shrink',
    ],
    [
      'an equal immutable value',
      github,
      config({ repo_url: 'https://example.com/a/b', deployment_type: 'prod' }),
      { revises: false },
    ],
    ['an equal UUID in other letters', github, config({ integration_id: ID.toUpperCase() }), { revises: false }],
    ...(
      [
        ['repo_url', 'https://example.com/c'],
        ['repo_url', ''],
        ['deployment_type', 'dev'],
        ['integration_id', 'aaaaaaaa-9dad-11d1-80b4-00c04fd430c8'],
        ['listener_id', ID],
        ['listener_config', { k8s_namespace: 'other' }],
      ] as const
    ).map(([name, value]): [string, typeof github, DeploymentPatch, unknown] => [
      `another ${name} (${JSON.stringify(value)})`,
      github,
      config({ [name]: value }),
      `source_config.${name} cannot be changed after creation`,
    ]),
    ['custom_url as it was answered', github, config({ custom_url: URL }), { revises: false }],
    [
      'another custom_url for github',
      github,
      config({ custom_url: 'https://other.example.com' }),
      'source_config.custom_url is set by the server for source github',
    ],
    ['repo_ref', github, { source_revision_config: { repo_ref: 'next' } }, { revises: true }],
    ['an equal repo_ref', github, { source_revision_config: { repo_ref: 'main' } }, { revises: true }],
    [
      'the other name of the path',
      github,
      { source_revision_config: { langgraph_config_path: 'a.json' } },
      { revises: true },
    ],
    ['image_uri', image, { source_revision_config: { image_uri: 'registry.example.com/a:2' } }, { revises: true }],
    [
      'a revision member cannot be cleared',
      github,
      { source_revision_config: { repo_ref: '' } },
      'source_revision_config.repo_ref cannot be cleared',
    ],
    ['secrets', github, { secrets: [{ name: 'A', value: 'b' }] }, { revises: true }],
    ['no secrets at all', github, { secrets: [] }, { revises: true }],
    ['references', image, { secret_references: [] }, { revises: true }],
    [
      'both parts at once',
      github,
      { ...config({ install_command: 'yarn' }), source_revision_config: { repo_ref: 'x' }, secrets: [] },
      { install_command: 'yarn', revises: true },
    ],
  ]
  for (const [title, now, patch, wanted] of rows) t.same(changes(now, patch), wanted, title)
})

t.test('the parts of a revision', async t => {
  const merged = merge(github, { source_revision_config: { repo_ref: 'next' } }, URL) as Merged
  t.same(merged.source_revision_config, {
    repo_ref: 'next',
    graph_config_path: 'langgraph.json',
    image_uri: null,
    repo_commit_sha: null,
  })
  t.same(
    (merge(github, { secrets: [] }, URL) as Merged).source_revision_config.repo_ref,
    'main',
    'the rest is the latest one',
  )
})

t.test('the members that a create stores', async t => {
  const members = Object.keys(github.source_config).length
  t.equal(members, 10, 'every member is there')
  const empty = initialConfig({ repo_url: '', install_command: '' }, 'github')
  t.match(empty, { repo_url: null, install_command: null, deployment_type: 'dev', build_on_push: false })
  t.match(initialConfig({}, 'external_docker'), { deployment_type: null, build_on_push: null })
  const spec = { cpu: 0.25, min_scale: null, executor_cpu: 3, core_cpu: 1, labels: { a: 1, __proto__: 2 } }
  t.same(initialConfig({ resource_spec: spec as never }, 'github').resource_spec, { cpu: 0.3, labels: { a: 1 } })
  const free = JSON.parse('{"labels":{"__proto__":{"x":1},"A-b":["C"]}}')
  t.equal(
    JSON.stringify(initialConfig({ resource_spec: free }, 'github').resource_spec),
    '{"labels":{"__proto__":{"x":1},"A-b":["C"]}}',
    'what is free in form stays as it is',
  )
})

t.test('sources that are equal in meaning', async t => {
  t.ok(same({ a: [1, { b: null }], c: 2 }, { c: 2, a: [1, { b: null }] }))
  const different: [unknown, unknown][] = [
    [{ a: 1 }, { a: 2 }],
    [{ a: 1 }, { a: 1, b: null }],
    [
      [1, 2],
      [2, 1],
    ],
    [{ 0: 1 }, [1]],
    [null, {}],
    [{ a: undefined }, { b: undefined }],
  ]
  for (const [a, b] of different) t.notOk(same(a, b), `${JSON.stringify(a)} ${JSON.stringify(b)}`)
})
