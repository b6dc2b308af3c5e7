/**
 * A Kubernetes API server for tests: HTTP with the paths of the published API that the driver uses, their state, and a
 * cluster behind it (nodes.ts).
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseAllDocuments } from 'yaml'
import { root } from '../../../cli/root.js'
import { type Nodes, openNodes, type Program } from './nodes.js'
import { type FakeObject, type Objects, openObjects, Refusal } from './objects.js'

const GROUPS: { [path: string]: { [plural: string]: string } } = {
  '/api/v1': { configmaps: 'ConfigMap', secrets: 'Secret', pods: 'Pod' },
  '/apis/apps/v1': { deployments: 'Deployment' },
  '/apis/policy/v1': { poddisruptionbudgets: 'PodDisruptionBudget' },
  '/apis/keda.sh/v1alpha1': { scaledobjects: 'ScaledObject' },
}

interface Rule {
  apiGroups: string[]
  resources: string[]
  verbs: string[]
}

/** The rights of a deploy worker in deploy/kubernetes-deployer. */
const rules: Rule[] = parseAllDocuments(
  readFileSync(join(root, 'deploy/kubernetes-deployer/rights.yaml'), 'utf8'),
).flatMap(document => (document.toJS() as { rules?: Rule[] }).rules ?? [])

const VERBS: { [method: string]: string[] } = { GET: ['get'], PATCH: ['patch'], DELETE: ['delete'] }

function checkRight(verbs: string[], group: string, resource: string): void {
  const isAllowed = (verb: string) =>
    rules.some(one => one.apiGroups.includes(group) && one.resources.includes(resource) && one.verbs.includes(verb))
  for (const verb of verbs)
    if (!isAllowed(verb))
      throw new Refusal(403, `User "tests" cannot ${verb} resource "${resource}" in API group "${group}"`)
}

/** The way of one client to the cluster. */
export interface Access {
  /** A file for KUBECONFIG. */
  kubeconfig: string
  /** Its requests arrive no longer. */
  cut(): void
}

export interface FakeCluster {
  /** `onChange` is called before each of its requests that changes something; it is cut when that rejects. */
  access(onChange?: () => Promise<void>): Access
  objects: Objects
  nodes: Nodes
  /** `METHOD /path`, in order. */
  requests: string[]
  /** Names of the objects of a kind, sorted. */
  names(kind: string): string[]
  /** Status of the answer to the next requests; null: they are answered. */
  fault: number | null
  /** Stops answering and closes every connection; pods go on. */
  down(): Promise<void>
  up(): Promise<void>
  close(): Promise<void>
}

export async function startApiServer(
  images: { [name: string]: Program },
  { namespaces = ['default'], keda = false }: { namespaces?: string[]; keda?: boolean } = {},
): Promise<FakeCluster> {
  const folder = mkdtempSync(join(tmpdir(), 'weft-cluster-'))
  /** By token: rejects when the client is cut. */
  const clients = new Map<string, (isChange: boolean) => Promise<void>>()
  const objects = openObjects()
  const nodes = openNodes(objects, images)
  const requests: string[] = []
  const isKnown = (group: string) => group in GROUPS && (keda || !group.includes('keda'))

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams: query } = new URL(request.url!, 'http://cluster')
    requests.push(`${request.method} ${pathname}`)
    let text = ''
    for await (const part of request) text += part
    const body = text === '' ? {} : JSON.parse(text)
    const answer = (value: object) => {
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value))
    }
    const token = request.headers.authorization?.replace('Bearer ', '') ?? ''
    const client = clients.get(token)
    if (client === undefined) throw new Refusal(401, 'Unauthorized')
    try {
      await client(request.method !== 'GET')
    } catch {
      return void request.socket.destroy()
    }
    if (cluster.fault !== null) throw new Refusal(cluster.fault, `fault ${cluster.fault}`)
    if (isKnown(pathname)) {
      const resources = Object.entries(GROUPS[pathname]!).map(([name, kind]) => ({ name, kind, namespaced: true }))
      return answer({ kind: 'APIResourceList', apiVersion: 'v1', groupVersion: '', resources })
    }
    const parts = /^(\/api\/v1|\/apis\/[^/]+\/[^/]+)\/namespaces\/([^/]+)\/([^/]+)(?:\/([^/]+))?(?:\/(\w+))?$/.exec(
      pathname,
    )
    const [, group = '', namespace = '', plural = '', name, sub] = parts ?? []
    const kind = isKnown(group) ? GROUPS[group]![plural] : undefined
    if (kind === undefined) throw new Refusal(404, 'the server could not find the requested resource')
    const apiVersion = group.replace(/^\/apis?\//, '')
    const isCreation = request.method === 'PATCH' && objects.find(kind, namespace, name!) === null
    const verbs = name === undefined ? ['list'] : [...VERBS[request.method!]!, ...(isCreation ? ['create'] : [])]
    checkRight(verbs, /^(.+)\//.exec(apiVersion)?.[1] ?? '', sub === undefined ? plural : `${plural}/${sub}`)
    if (name === undefined) {
      const items = objects.all(kind, namespace).filter(one => isSelected(one, query.get('labelSelector')))
      return answer({ kind: `${kind}List`, apiVersion, metadata: {}, items })
    }
    if (request.method === 'PATCH' && sub === undefined) {
      if (!namespaces.includes(namespace)) throw new Refusal(404, `namespaces "${namespace}" not found`)
      if (!request.headers['content-type']?.startsWith('application/apply-patch'))
        throw new Refusal(415, 'this server knows server-side apply only')
      if (body.kind !== kind || body.metadata.name !== name) throw new Refusal(400, 'the name of the object is another')
      for (const [label, value] of Object.entries(body.metadata.labels ?? {}))
        if (!/^([A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?)?$/.test(value as string))
          throw new Refusal(422, `${kind} "${name}" is invalid: metadata.labels: Invalid value: "${value}" of ${label}`)
      const applied = objects.apply(
        { ...body, metadata: { ...body.metadata, namespace } },
        query.get('fieldManager')!,
        query.get('force') === 'true',
      )
      nodes.look()
      return answer(applied)
    }
    const object = objects.find(kind, namespace, name)
    if (object === null) throw new Refusal(404, `${plural} "${name}" not found`)
    if (request.method === 'PATCH' && sub === 'scale') {
      objects.set(object, 'spec/replicas', body.spec.replicas, 'scaler')
      nodes.look()
      return answer({ kind: 'Scale', apiVersion: 'autoscaling/v1', metadata: { name, namespace }, spec: body.spec })
    }
    if (request.method === 'DELETE') {
      remove(object, query)
      return answer({ kind: 'Status', apiVersion: 'v1', status: 'Success' })
    }
    if (kind === 'Pod' && sub === 'log') return sendLog(object, query, response)
    answer(object)
  }

  function remove(object: FakeObject, query: URLSearchParams): void {
    if (object.kind === 'Pod') {
      const grace = query.get('gracePeriodSeconds')
      nodes.end(object, grace === null ? undefined : Number(grace))
    } else if (object.kind === 'Deployment') {
      if (query.get('propagationPolicy') !== 'Foreground') throw new Refusal(400, 'pods would outlive their Deployment')
      object.metadata.deletionTimestamp ??= new Date().toISOString()
    } else objects.remove(object)
    nodes.look()
  }

  function sendLog(pod: FakeObject, query: URLSearchParams, response: ServerResponse): void {
    const { lines, previous, followers } = nodes.output(pod)
    response.writeHead(200, { 'content-type': 'text/plain' })
    const text = (query.get('previous') === 'true' ? previous : lines).map(line => `${line}\n`).join('')
    if (query.get('follow') !== 'true') return void response.end(text)
    response.write(text)
    const follower = (line: string | null) => void (line === null ? response.end() : response.write(`${line}\n`))
    followers.add(follower)
    response.on('close', () => followers.delete(follower))
  }

  let server: Server
  const up = (port = 0) =>
    new Promise<void>(resolve => {
      server = createServer((request, response) => {
        handle(request, response).catch(error => {
          const code = error instanceof Refusal ? error.status : 500
          const status = {
            kind: 'Status',
            apiVersion: 'v1',
            status: 'Failure',
            code,
            message: (error as Error).message,
          }
          response.writeHead(code, { 'content-type': 'application/json' }).end(JSON.stringify(status))
        })
      })
      server.listen(port, '127.0.0.1', resolve)
    })
  const down = () =>
    new Promise<void>(resolve => {
      server.close(() => resolve())
      server.closeAllConnections()
    })
  await up()
  const { port } = server!.address() as AddressInfo
  const named = (members: object) => [{ name: 'tests', ...members }]
  function access(onChange = async () => {}): Access {
    let isCut = false
    const token = `token-${clients.size}`
    const kubeconfig = join(folder, token)
    clients.set(token, async isChange => {
      if (isChange && !isCut) await onChange()
      if (isCut) throw new Error('cut')
    })
    // Without TLS the client sends credentials only then.
    const cluster = { server: `http://127.0.0.1:${port}`, 'insecure-skip-tls-verify': true }
    writeFileSync(
      kubeconfig,
      JSON.stringify({
        clusters: named({ cluster }),
        users: named({ user: { token } }),
        contexts: named({ context: { cluster: 'tests', user: 'tests' } }),
        'current-context': 'tests',
      }),
    )
    return { kubeconfig, cut: () => void (isCut = true) }
  }
  const cluster: FakeCluster = {
    access,
    objects,
    nodes,
    requests,
    names: kind =>
      objects
        .all(kind)
        .map(({ metadata }) => metadata.name)
        .sort(),
    fault: null,
    down,
    up: () => up(port),
    async close() {
      nodes.close()
      await down()
      rmSync(folder, { recursive: true, force: true })
    },
  }
  return cluster
}

const isSelected = ({ metadata }: FakeObject, selector: string | null): boolean =>
  (selector ?? '').split(',').every(one => {
    const [label = '', value] = one.split('=')
    return label === '' || metadata.labels[label] === value
  })
