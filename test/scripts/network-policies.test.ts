/** The NetworkPolicies of deploy/kubernetes and deploy/kubernetes-deployer, read as the cluster reads them. */
import { BlockList, isIPv6 } from 'node:net'
import t from 'tap'
import { type Manifest, manifestsOf } from './cluster-files.js'

interface Selector {
  matchLabels?: { [label: string]: string }
  matchExpressions?: { key: string; operator: string; values: string[] }[]
}
interface Peer {
  podSelector?: Selector
  namespaceSelector?: Selector
  ipBlock?: { cidr: string; except?: string[] }
}
interface Rule {
  from?: Peer[]
  to?: Peer[]
  ports?: { port: number; protocol?: string }[]
}
interface Policy {
  namespace: string
  podSelector: Selector
  policyTypes: string[]
  ingress?: Rule[]
  egress?: Rule[]
}
/** A pod, or an address outside of the cluster. */
interface End {
  namespace?: string
  labels?: { [label: string]: string }
  /** Pods have a private address of the cluster. */
  ip: string
}

const manifests: Manifest[] = [...manifestsOf('deploy/kubernetes'), ...manifestsOf('deploy/kubernetes-deployer')]
const policies: Policy[] = manifests
  .filter(({ kind }) => kind === 'NetworkPolicy')
  .map(({ metadata, spec }) => ({ namespace: metadata.namespace ?? 'weft', ...spec }))

function selects({ matchLabels = {}, matchExpressions = [] }: Selector, labels: { [label: string]: string }): boolean {
  const holds = ({ key, operator, values }: { key: string; operator: string; values: string[] }) => {
    const isIn = values.includes(labels[key] ?? '')
    if (operator === 'In') return isIn
    if (operator === 'NotIn') return !isIn
    throw new Error(`operator ${operator}`)
  }
  return Object.entries(matchLabels).every(([key, value]) => labels[key] === value) && matchExpressions.every(holds)
}

function isInBlock(ip: string, { cidr, except = [] }: NonNullable<Peer['ipBlock']>): boolean {
  const holds = (block: string) => {
    const [network = '', bits] = block.split('/')
    const list = new BlockList()
    list.addSubnet(network, Number(bits), isIPv6(network) ? 'ipv6' : 'ipv4')
    return isIPv6(network) === isIPv6(ip) && list.check(ip, isIPv6(ip) ? 'ipv6' : 'ipv4')
  }
  return holds(cidr) && !except.some(holds)
}

function isPeer(end: End, namespace: string, { podSelector, namespaceSelector, ipBlock }: Peer): boolean {
  if (ipBlock !== undefined) return isInBlock(end.ip, ipBlock)
  if (end.namespace === undefined) return false
  const isNamespace =
    namespaceSelector === undefined
      ? end.namespace === namespace
      : selects(namespaceSelector, { 'kubernetes.io/metadata.name': end.namespace })
  return isNamespace && (podSelector === undefined || selects(podSelector, end.labels!))
}

/** Whether policies allow one side of a connection: a pod that no policy of this type selects is open. */
function isAllowed(type: 'Ingress' | 'Egress', pod: End, other: End, port: number, protocol: string): boolean {
  const own = policies.filter(
    ({ namespace, podSelector, policyTypes }) =>
      namespace === pod.namespace && policyTypes.includes(type) && selects(podSelector, pod.labels!),
  )
  const passes = (namespace: string, { from, to, ports }: Rule) =>
    ((from ?? to)?.some(peer => isPeer(other, namespace, peer)) ?? true) &&
    (ports?.some(one => one.port === port && (one.protocol ?? 'TCP') === protocol) ?? true)
  return (
    own.length === 0 ||
    own.some(({ namespace, ingress = [], egress = [] }) =>
      (type === 'Ingress' ? ingress : egress).some(rule => passes(namespace, rule)),
    )
  )
}

const reaches = (from: End, to: End, port: number, protocol = 'TCP'): boolean =>
  (from.namespace === undefined || isAllowed('Egress', from, to, port, protocol)) &&
  (to.namespace === undefined || isAllowed('Ingress', to, from, port, protocol))

/** The pods of a workload of the files. */
function pod(name: string): End {
  const { metadata, spec } = manifests.find(({ metadata, spec }) => metadata.name === name && spec?.template)!
  return { namespace: metadata.namespace ?? 'weft', labels: spec.template.metadata.labels, ip: '10.1.0.1' }
}
const deployment: End = {
  namespace: 'weft-apps',
  labels: { 'app.kubernetes.io/managed-by': 'weft' },
  ip: '10.1.0.2',
}
const stranger: End = { namespace: 'default', labels: { app: 'anything' }, ip: '10.1.0.3' }
const keda: End = { namespace: 'keda', labels: { app: 'keda-operator' }, ip: '10.1.0.4' }
const internet: End = { ip: '203.0.113.7' }
const [nats, resources, edge, graphs, deployer] = [
  'nats',
  'weft-resources',
  'weft-edge',
  'weft-graphs-default',
  'weft-deployer',
].map(pod) as [End, End, End, End, End]
/** For a copy of graphs.yaml. */
const otherPool: End = { ...graphs, labels: { ...graphs.labels, app: 'weft-graphs-other' } }
const code = { edge, graphs, otherPool, deployment, deployer }

t.test('the broker is reached by Weft, its servers and KEDA, each at its port', async t => {
  for (const [name, from] of Object.entries({ ...code, resources })) {
    t.ok(reaches(from, nats, 4222), name)
    for (const port of [6222, 8222]) t.notOk(reaches(from, nats, port), `${name} at ${port}`)
  }
  t.ok(reaches(nats, nats, 6222))
  t.ok(reaches(keda, nats, 8222))
  for (const from of [stranger, keda, internet]) t.notOk(reaches(from, nats, 4222))
  for (const from of [stranger, internet]) for (const port of [6222, 8222]) t.notOk(reaches(from, nats, port))
})

t.test('code of applications reaches names and the internet, but no private address', async t => {
  for (const [name, from] of Object.entries(code)) {
    t.ok(reaches(from, { ip: '10.96.0.10' }, 53, 'UDP'), `${name}: names`)
    for (const ip of [internet.ip, '2001:db8::7']) t.ok(reaches(from, { ip }, 443), `${name}: a model`)
    for (const ip of ['10.2.0.1', '172.20.0.1', '192.168.1.1', 'fd00::1'])
      t.notOk(reaches(from, { ip }, 27017), `${name}: a database at ${ip}`)
    t.notOk(reaches(from, { ip: '169.254.169.254' }, 80), `${name}: the metadata of a cloud`)
  }
  t.ok(reaches(deployer, { ip: '10.96.0.1' }, 443), 'the API of the cluster')
  t.ok(reaches(resources, { ip: '10.2.0.1' }, 27017), 'the database')
})

t.test('only the edge accepts connections', async t => {
  for (const from of [stranger, internet]) t.ok(reaches(from, edge, 2024))
  for (const to of [resources, graphs, otherPool, deployment, deployer])
    for (const from of [stranger, internet, edge, deployment]) t.notOk(reaches(from, to, 2024))
})
