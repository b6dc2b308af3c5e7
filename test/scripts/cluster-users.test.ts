/**
 * Users, passwords, networks and the configuration of the broker in the shipped cluster files. That a cluster starts with
 * them, test/deploy/cluster-files.test.ts shows.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { natsAuthorization } from '../../cli/commands/nats.js'
import { root } from '../../cli/root.js'
import { SETTINGS } from '../../schemas/config.js'
import { composePrograms, kubernetesPrograms, manifestsOf, type Program } from './cluster-files.js'

const variables = Object.values(SETTINGS).map(({ env }) => env) as string[]
const read = (path: string): string => readFileSync(join(root, path), 'utf8')

/** A secret shows where it stands. */
const marked = (name: string) => `{${name}}`
const secretsIn = ({ env }: Program): string[] =>
  [...new Set(Object.values(env).flatMap(text => [...text.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!)))].sort()

const SERVERS = ['NATS_EDGE_PASSWORD', 'NATS_RESOURCES_PASSWORD', 'NATS_GRAPHS_PASSWORD', 'NATS_DEPLOYER_PASSWORD']
const NATS = [...SERVERS, 'NATS_CLUSTER_PASSWORD', 'NATS_ISSUER'].sort()

/** For each program its secrets and the user and secret in NATS_URL. */
function table(programs: readonly Program[]) {
  return Object.fromEntries(
    programs.map(program => {
      const at = program.env.NATS_URL?.split(',')
      const user = at === undefined ? {} : { user: /^nats:\/\/(.*)@/.exec(at[0]!)?.[1] ?? 'nobody', servers: at.length }
      return [program.name, { secrets: secretsIn(program), ...user }]
    }),
  )
}

t.test('each program of docker-compose.yml has its own secrets alone', async t => {
  const programs = composePrograms('docker-compose.yml', marked)
  const nats = { secrets: NATS }
  const mongo = { secrets: ['MONGO_KEY'] }
  const edge = { secrets: ['NATS_EDGE_PASSWORD'], user: 'edge:{NATS_EDGE_PASSWORD}', servers: 3 }
  const graphs = (pool: string) => ({ secrets: [`NATS_POOL_${pool}`], user: `{NATS_POOL_${pool}}`, servers: 3 })
  t.same(table(programs), {
    'nats-1': nats,
    'nats-2': nats,
    'nats-3': nats,
    'mongo-1': mongo,
    'mongo-2': mongo,
    'mongo-3': mongo,
    'mongo-set': { secrets: ['MONGO_KEY', 'MONGO_PASSWORD'] },
    resources: {
      secrets: [
        'MONGO_PASSWORD',
        'NATS_RESOURCES_PASSWORD',
        'WEFT_CONTROL_KEY',
        'WEFT_ENCRYPTION_KEY',
        'WEFT_NATS_ISSUER',
      ],
      user: 'resources:{NATS_RESOURCES_PASSWORD}',
      servers: 3,
    },
    'graphs-default': graphs('DEFAULT'),
    'graphs-research': graphs('RESEARCH'),
    'edge-1': edge,
    'edge-2': edge,
  })
  for (const { name, image, env } of programs.filter(({ image }) => image === 'weft'))
    for (const variable of Object.keys(env)) t.ok(variables.includes(variable), `${name}: ${variable} of ${image}`)
})

t.test('MongoDB of docker-compose.yml needs a password', async t => {
  const programs = composePrograms('docker-compose.yml', marked)
  for (const { name, args } of programs.filter(({ name }) => /^mongo-\d$/.test(name)))
    t.match(args.join(' '), /--keyFile /, name)
  t.match(programs.find(({ name }) => name === 'resources')!.env.MONGODB_URL, /^mongodb:\/\/weft:\{MONGO_PASSWORD\}@/)
})

t.test('networks of docker-compose.yml separate what has no business with each other', async t => {
  const programs = composePrograms('docker-compose.yml', marked)
  const together = new Set<string>()
  const kindOf = ({ name }: Program) => name.replace(/-.*/, '')
  for (const one of programs)
    for (const other of programs)
      if (one.networks.some(network => other.networks.includes(network)))
        together.add([kindOf(one), kindOf(other)].sort().join(' '))
  t.same(
    [...together].sort(),
    [
      ['edge', 'edge'],
      ['edge', 'nats'],
      ['edge', 'resources'],
      ['graphs', 'graphs'],
      ['graphs', 'nats'],
      ['mongo', 'mongo'],
      ['mongo', 'resources'],
      ['nats', 'nats'],
      ['nats', 'resources'],
      ['resources', 'resources'],
    ].map(pair => pair.join(' ')),
  )
})

t.test('each program of Kubernetes has its own secrets alone', async t => {
  const manifests = [...manifestsOf('deploy/kubernetes'), ...manifestsOf('deploy/kubernetes-deployer')]
  const programs = kubernetesPrograms(manifests, marked)
  const nats = { secrets: NATS }
  const role = (user: string, secrets: string[]) => ({ secrets, user, servers: 3 })
  t.same(table(programs), {
    'nats-0': nats,
    'nats-1': nats,
    'nats-2': nats,
    'weft-resources': role('resources:{NATS_RESOURCES_PASSWORD}', ['NATS_RESOURCES_PASSWORD', 'WEFT_NATS_ISSUER']),
    'weft-graphs-default': role('{NATS_POOL_DEFAULT}', ['NATS_POOL_DEFAULT']),
    'weft-edge': role('edge:{NATS_EDGE_PASSWORD}', ['NATS_EDGE_PASSWORD']),
    'weft-deployer': role('deployer:{NATS_DEPLOYER_PASSWORD}', ['NATS_DEPLOYER_PASSWORD']),
  })
  const deployer = programs.find(({ name }) => name === 'weft-deployer')!
  t.notMatch(deployer.env.WEFT_GRAPHS_NATS_URL, '@', 'pods of deployments have users of their own')
  for (const { name, image, env } of programs.filter(({ image }) => image === 'weft'))
    for (const [variable, value] of Object.entries(env))
      t.ok(variables.includes(variable) || value === marked(variable), `${name}: ${variable} of ${image}`)
  const whole = manifests.flatMap(({ metadata, spec }) =>
    (spec?.template?.spec.containers ?? []).flatMap(
      ({ envFrom = [] }: { envFrom?: { secretRef?: { name: string } }[] }) =>
        envFrom.flatMap(({ secretRef }) => (secretRef ? [`${metadata.name} ${secretRef.name}`] : [])),
    ),
  )
  t.same(whole, ['weft-resources weft'], 'whole Secrets')
})

t.test('the configuration of the NATS servers', async t => {
  t.equal(read('deploy/nats/users.conf'), natsAuthorization(), 'weft nats config > deploy/nats/users.conf')
  const server = read('deploy/nats/server.conf')
  t.match(server, /^ {2}sync_interval: 1s$/m)
  t.match(server, /^include users\.conf$/m)
  const cluster = read('deploy/nats/cluster.conf')
  t.match(cluster, /^include server\.conf$/m)
  t.match(cluster, /^ {2}authorization \{ user: server, password: \$NATS_CLUSTER_PASSWORD/m)
  // The same as that of `weft start`.
  const own = read('cli/nats/config.ts')
  for (const setting of ['max_payload', 'max_pending', 'write_deadline', 'ping_interval', 'ping_max', 'sync_interval'])
    t.equal(valueIn(server, setting), valueIn(own, setting), setting)
})

const valueIn = (text: string, setting: string) => new RegExp(`\\b${setting}: (.*)$`, 'm').exec(text)?.[1]
