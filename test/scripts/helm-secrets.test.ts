/** The secrets of the Helm chart: who gets which, and that an upgrade keeps those that an install made. */
import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { parseAllDocuments } from 'yaml'
import { HELM, helmOptions, kubernetesPrograms, type Manifest, renderChart, templateArgs } from './cluster-files.js'

const database = { store: { type: 'postgres', existingSecret: 'database' } }
const users = { nats: { existingSecret: 'nats-users' } }

t.test('each program has the secrets of its role alone', helmOptions, async t => {
  const rendered = (values: object) => {
    const programs = kubernetesPrograms(renderChart(values), name => `{${name}}`)
    return Object.fromEntries(programs.map(({ name, env }) => [name, JSON.stringify(env)]))
  }
  const secretsOf = (text = '') => [...new Set([...text.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!))].sort()
  const made = rendered(database)
  const roles = ['DEPLOYER', 'EDGE', 'GRAPHS', 'RESOURCES'].map(role => `NATS_${role}_PASSWORD`)
  t.same(secretsOf(made['weft-nats-2']), ['NATS_CLUSTER_PASSWORD', ...roles])
  t.same(secretsOf(made['weft-edge']), ['NATS_EDGE_PASSWORD'])
  t.same(secretsOf(made['weft-graphs-default']), ['NATS_GRAPHS_PASSWORD'])
  const keys = ['DATABASE_URI', 'NATS_RESOURCES_PASSWORD', 'WEFT_CONTROL_KEY', 'WEFT_ENCRYPTION_KEY']
  t.same(secretsOf(made['weft-resources']), keys)
  const given = rendered({ ...database, ...users })
  t.same(
    secretsOf(given['weft-nats-0']),
    ['NATS_CLUSTER_PASSWORD', ...roles.slice(0, 3), 'NATS_ISSUER', roles[3]].sort(),
  )
  t.same(secretsOf(given['weft-graphs-default']), ['NATS_POOL_DEFAULT'])
  t.same(secretsOf(given['weft-resources']), [...keys, 'WEFT_NATS_ISSUER'])
  t.match(given['weft-graphs-default'], 'nats://{NATS_POOL_DEFAULT}@weft-nats-0.weft-nats:4222,nats://weft-nats-1')
})

/** The part of an API server that `lookup` needs; answers with these Secrets. */
async function startApi(t: Test, secrets: { [name: string]: object }): Promise<string> {
  const pages: { [path: string]: object } = {
    '/version': { major: '1', minor: '33', gitVersion: 'v1.33.0' },
    '/api': { kind: 'APIVersions', versions: ['v1'] },
    '/apis': { kind: 'APIGroupList', apiVersion: 'v1', groups: [] },
    '/api/v1': {
      kind: 'APIResourceList',
      groupVersion: 'v1',
      resources: [{ name: 'secrets', singularName: 'secret', namespaced: true, kind: 'Secret', verbs: ['get'] }],
    },
  }
  for (const [name, data] of Object.entries(secrets))
    pages[`/api/v1/namespaces/weft/secrets/${name}`] = { apiVersion: 'v1', kind: 'Secret', metadata: { name }, data }
  const missing = { kind: 'Status', apiVersion: 'v1', status: 'Failure', reason: 'NotFound', code: 404 }
  const server = createServer(({ url = '' }, response) => {
    const page = pages[url.replace(/\?.*/, '')]
    response.writeHead(page ? 200 : 404, { 'content-type': 'application/json' }).end(JSON.stringify(page ?? missing))
  })
  await new Promise<void>(done => server.listen(0, '127.0.0.1', done))
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'a', cluster: { server: `http://127.0.0.1:${port}` } }],
    contexts: [{ name: 'a', context: { cluster: 'a', user: 'a' } }],
    users: [{ name: 'a', user: {} }],
    'current-context': 'a',
  }
  const file = join(t.testdir(), 'kubeconfig')
  writeFileSync(file, JSON.stringify(config))
  return file
}

t.test('an upgrade keeps the secrets that the install made', helmOptions, async t => {
  const secret = (text: string) => Buffer.from(text).toString('base64')
  const kept = {
    weft: { WEFT_CONTROL_KEY: secret('control'), WEFT_ENCRYPTION_KEY: secret('encryption') },
    'weft-nats': Object.fromEntries(
      ['EDGE', 'RESOURCES', 'GRAPHS', 'DEPLOYER', 'CLUSTER'].map(role => [`NATS_${role}_PASSWORD`, secret(role)]),
    ),
  }
  const rendered = async (secrets: { [name: string]: object }) => {
    const args = ['--dry-run=server', '--kubeconfig', await startApi(t, secrets)]
    // Not in this process' turn, which serves the API.
    const { stdout } = await promisify(execFile)(HELM, [...templateArgs('values-one-node.yaml'), ...args])
    const all = parseAllDocuments(stdout).map(document => document.toJS() as Manifest)
    return Object.fromEntries(
      all.filter(({ kind }) => kind === 'Secret').map(({ metadata, data }) => [metadata.name, data]),
    )
  }
  t.same(await rendered(kept), kept)
  const made = await rendered({})
  t.same(Object.keys(made), Object.keys(kept))
  t.not(made.weft!.WEFT_CONTROL_KEY, (await rendered({})).weft!.WEFT_CONTROL_KEY, 'each install has its own')
})
