/**
 * A Docker Engine for tests: an HTTP server on a Unix socket with the paths of the published API that the driver uses, and
 * their state. What a container does is decided by the program of its image. With `podman` it differs as Podman 4.3 does.
 */
import { randomBytes } from 'node:crypto'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

interface CreateBody {
  Image: string
  Env?: string[]
  Labels?: { [name: string]: string }
  HostConfig: {
    RestartPolicy?: { Name: string }
    NetworkMode?: string
    Mounts?: { Source: string }[]
    [name: string]: unknown
  }
  [name: string]: unknown
}

export interface FakeContainer {
  id: string
  name: string
  body: CreateBody
  env: { [name: string]: string }
  labels: { [name: string]: string }
  state: 'created' | 'running' | 'exited'
  exit_code: number
  started_at: number
  health: '' | 'healthy' | 'unhealthy' | 'health: starting'
  networks: string[]
  /** It writes a line to its stderr. */
  say(line: string): void
  /** Its program ends. */
  exit(code: number, how?: { oom?: boolean }): void
}

/** Runs when a container of the image starts; receives the signals that the container gets. */
export type Program = (container: FakeContainer) => (signal: string) => void

export interface FakeImage {
  program: Program
  /** Lines of the answer to a pull; the default says that it was downloaded. */
  pull?: object[][]
  os?: string
  labels?: { [name: string]: string }
}

export interface FakeEngine {
  host: string
  images: Map<string, FakeImage>
  containers: Map<string, FakeContainer>
  networks: Map<string, object>
  volumes: Map<string, { Name: string; Labels: { [name: string]: string } }>
  /** `METHOD /path`, in order. */
  requests: string[]
  pulls: string[]
  /** Main containers that run, by name. */
  running(): string[]
  /** It stops answering and closes every connection; containers go on. */
  down(): Promise<void>
  up(): Promise<void>
  /** No event is sent any more. */
  mute(): void
  /** The registry does not answer any more; the images that were pulled stay. */
  cutRegistry(): void
  /** The engine has no image any more. */
  prune(): void
  close(): Promise<void>
}

/** Stays until it is ended. */
export const idle: Program = container => signal => container.exit(signal === 'SIGKILL' ? 137 : 0)

export async function startEngine(images: { [name: string]: FakeImage }, { podman = false } = {}): Promise<FakeEngine> {
  const folder = mkdtempSync(join(tmpdir(), 'weft-engine-'))
  const socket = join(folder, 'docker.sock')
  const containers = new Map<string, FakeContainer>()
  const networks = new Map<string, { Name: string; Id: string; Labels: { [name: string]: string } }>()
  const volumes = new Map<string, { Name: string; Labels: { [name: string]: string } }>()
  const known = new Map(Object.entries(images))
  const pulled = new Set<string>()
  const requests: string[] = []
  const pulls: string[] = []
  const followers = new Set<ServerResponse>()
  let isMute = false
  /** Each start has a time of its own. */
  let clock = 0
  let hasRegistry = true
  const waiting = new Map<string, Set<ServerResponse>>()
  const signals = new Map<string, (signal: string) => void>()
  const logs = new Map<string, { lines: string[]; followers: Set<ServerResponse> }>()

  const find = (key: string) => containers.get(key) ?? [...containers.values()].find(({ name }) => name === key)
  const digestOf = (image: string) =>
    `${image.replace(/[:@][^/]*$/, '')}@sha256:${Buffer.from(image).toString('hex').padEnd(64, '0').slice(0, 64)}`
  const imageOf = (name: string) => [...known].find(([one]) => one === name || digestOf(one) === name)?.[0] ?? null
  const matches = (labels: { [name: string]: string }, filters: string | null) =>
    ((filters === null ? {} : (JSON.parse(filters) as { label?: string[] })).label ?? []).every(one => {
      const [name, value] = [one.slice(0, one.indexOf('=')), one.slice(one.indexOf('=') + 1)]
      return labels[name] === value
    })
  const frame = (text: string) => {
    const bytes = Buffer.from(`${text}\n`)
    const head = Buffer.alloc(8)
    head[0] = 2
    head.writeUInt32BE(bytes.length, 4)
    return Buffer.concat([head, bytes])
  }

  function emit(container: FakeContainer, Action: string, more: object = {}): void {
    const event = {
      Type: 'container',
      Action,
      Actor: { ID: container.id, Attributes: { ...container.labels, ...more } },
    }
    for (const one of isMute ? [] : followers) one.write(`${JSON.stringify(event)}\n`)
  }

  function start(container: FakeContainer): void {
    container.state = 'running'
    container.started_at = ++clock
    emit(container, 'start')
    const image = imageOf(container.body.Image)!
    signals.set(container.id, known.get(image)!.program(container))
  }

  function make(name: string, body: CreateBody): FakeContainer {
    const id = randomBytes(32).toString('hex')
    const container: FakeContainer = {
      id,
      name,
      body,
      env: Object.fromEntries(
        (body.Env ?? []).map(one => [one.slice(0, one.indexOf('=')), one.slice(one.indexOf('=') + 1)]),
      ),
      labels: body.Labels ?? {},
      state: 'created',
      exit_code: 0,
      started_at: 0,
      health: '',
      networks: [body.HostConfig.NetworkMode ?? 'default'],
      say(line) {
        const log = logs.get(id)!
        log.lines.push(line)
        for (const one of log.followers) one.write(frame(line))
      },
      exit(code, { oom = false } = {}) {
        if (container.state !== 'running') return
        container.state = 'exited'
        container.exit_code = code
        signals.delete(id)
        if (oom) emit(container, 'oom')
        emit(container, 'die', { exitCode: String(code) })
        for (const one of logs.get(id)!.followers) one.end()
        for (const one of waiting.get(id) ?? []) one.end(JSON.stringify({ StatusCode: code }))
        waiting.delete(id)
        const policy = container.body.HostConfig.RestartPolicy?.Name ?? 'no'
        if (policy === 'unless-stopped' || policy === 'always')
          setImmediate(() => containers.has(id) && container.state === 'exited' && start(container))
      },
    }
    containers.set(id, container)
    logs.set(id, { lines: [], followers: new Set() })
    return container
  }

  const inspected = (one: FakeContainer) => ({
    Id: one.id,
    Name: `/${one.name}`,
    Config: { Labels: one.labels, Env: one.body.Env, Image: one.body.Image },
    HostConfig: one.body.HostConfig,
    State: {
      Running: one.state === 'running',
      Status: one.state,
      ExitCode: one.exit_code,
      StartedAt: new Date(one.started_at).toISOString(),
    },
  })
  const listed = (one: FakeContainer) => ({
    Id: one.id,
    Names: [`/${one.name}`],
    Image: one.body.Image,
    Labels: one.labels,
    State: one.state,
    Status: one.health === '' ? 'Up' : `Up 2 seconds (${one.health})`,
  })

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url!, 'http://engine')
    const query = url.searchParams
    const path = decodeURIComponent(url.pathname)
    requests.push(`${request.method} ${path}`)
    let text = ''
    for await (const part of request) text += part
    const body = text === '' ? {} : JSON.parse(text)
    const answer = (status: number, value: unknown = '') => {
      response.writeHead(status, { 'content-type': 'application/json' })
      response.end(value === '' ? '' : JSON.stringify(value))
    }
    const refuse = (status: number, message: string) => answer(status, { message })
    const [, kind, key = '', verb = ''] =
      path.startsWith('/images/') && path.endsWith('/json') ? ['', 'image', path.slice(8, -5)] : path.split('/')
    if (path === '/version') return answer(200, { ApiVersion: '1.41', Os: 'linux', Arch: 'amd64' })
    if (path === '/info') return answer(200, { NCPU: 4 })
    if (path === '/images/create') {
      const name = [query.get('fromImage'), query.get('tag')]
        .filter(Boolean)
        .join(query.get('tag')?.startsWith('sha256:') ? '@' : ':')
      pulls.push(name)
      const found = imageOf(name)
      if (found === null) return refuse(404, `pull access denied for ${name}, repository does not exist`)
      if (!hasRegistry) {
        const error = 'initializing source: pinging container registry: dial tcp: connect: connection refused'
        return podman ? answer(200, { error, errorDetail: { message: error } }) : refuse(500, error)
      }
      const lines = known.get(found)!.pull?.shift() ?? [{ status: `Downloaded ${name}` }]
      response.writeHead(200, { 'content-type': 'application/json' })
      for (const line of lines) response.write(`${JSON.stringify(line)}\n`)
      if (!lines.some(line => 'error' in line)) pulled.add(found)
      return void response.end()
    }
    if (kind === 'image') {
      const name = imageOf(key)
      if (name === null || !pulled.has(name)) return refuse(404, `No such image: ${key}`)
      const { os = 'linux', labels = {} } = known.get(name)!
      return answer(200, {
        Id: digestOf(name).split('@')[1],
        RepoDigests: [digestOf(name)],
        Os: os,
        Architecture: 'amd64',
        Config: { Labels: labels },
      })
    }
    if (path === '/events') {
      response.writeHead(200, { 'content-type': 'application/json' })
      response.flushHeaders()
      followers.add(response)
      response.on('close', () => followers.delete(response))
      return
    }
    if (kind === 'networks') {
      if (key === 'create') {
        networks.set(body.Name, { ...body, Id: body.Name })
        return answer(201, { Id: body.Name })
      }
      if (key === '')
        return answer(
          200,
          [...networks.values()].filter(({ Labels }) => matches(Labels, query.get('filters'))),
        )
      if (!networks.has(key)) return refuse(404, `network ${key} not found`)
      if (verb === 'connect') {
        find(body.Container)!.networks.push(key)
        return answer(200)
      }
      if (request.method === 'DELETE') networks.delete(key)
      return request.method === 'DELETE' ? answer(204) : answer(200, networks.get(key))
    }
    if (kind === 'volumes') {
      if (key === 'create') volumes.set(body.Name, body)
      if (key === 'create') return answer(201, body)
      if (key === '')
        return answer(200, {
          Volumes: [...volumes.values()].filter(({ Labels }) => matches(Labels, query.get('filters'))),
        })
      return volumes.delete(key) ? answer(204) : refuse(404, 'no such volume')
    }
    if (path === '/containers/json')
      return answer(
        200,
        [...containers.values()].filter(({ labels }) => matches(labels, query.get('filters'))).map(listed),
      )
    if (path === '/containers/create') {
      const name = query.get('name')!
      if (find(name) !== undefined)
        return refuse(podman ? 500 : 409, `Conflict. The container name "/${name}" is already in use`)
      const image = imageOf(body.Image)
      if (image === null || !pulled.has(image)) return refuse(404, `No such image: ${body.Image}`)
      const network = (body as CreateBody).HostConfig.NetworkMode ?? ''
      if (network.startsWith('container:') && find(network.slice(10))?.state !== 'running')
        return refuse(409, 'cannot join network of a non running container')
      return answer(201, { Id: make(name, body).id, Warnings: [] })
    }
    const container = find(key)
    if (container === undefined) return refuse(404, `No such container: ${key}`)
    if (verb === 'json') return answer(200, inspected(container))
    if (verb === 'start') {
      if (container.state === 'running') return answer(304)
      answer(204)
      return start(container)
    }
    if (verb === 'kill') {
      if (container.state !== 'running')
        return refuse(podman ? 500 : 409, `can only kill running containers. ${key} is in state ${container.state}`)
      answer(204)
      return signals.get(container.id)?.(query.get('signal') ?? 'SIGKILL')
    }
    if (verb === 'restart') {
      container.started_at = ++clock
      answer(204)
      emit(container, 'restart')
      return
    }
    if (verb === 'update') {
      if (podman) return void response.writeHead(404, { 'content-type': 'text/plain' }).end('Not Found\n')
      Object.assign(container.body.HostConfig, body)
      return answer(200, { Warnings: [] })
    }
    if (verb === 'wait') {
      response.writeHead(200, { 'content-type': 'application/json' })
      response.flushHeaders()
      if (container.state === 'exited') return void response.end(JSON.stringify({ StatusCode: container.exit_code }))
      const set = waiting.get(container.id) ?? new Set()
      waiting.set(container.id, set.add(response))
      return
    }
    if (verb === 'logs') {
      const log = logs.get(container.id)!
      response.writeHead(200, { 'content-type': 'application/vnd.docker.raw-stream' })
      response.flushHeaders()
      for (const line of log.lines) response.write(frame(line))
      if (query.get('follow') !== 'true' && query.get('follow') !== '1') return void response.end()
      if (container.state === 'exited') return void response.end()
      log.followers.add(response)
      response.on('close', () => log.followers.delete(response))
      return
    }
    if (request.method === 'DELETE') {
      const dependents = [...containers.values()].filter(({ networks }) =>
        networks.includes(`container:${container.id}`),
      )
      if (podman && dependents.length > 0)
        return refuse(500, `container ${key} has dependent containers which must be removed before it`)
      if (container.state === 'running') signals.get(container.id)?.('SIGKILL')
      for (const one of waiting.get(container.id) ?? []) one.end(JSON.stringify({ StatusCode: 137 }))
      containers.delete(container.id)
      return answer(204)
    }
    refuse(404, `page not found: ${request.method} ${path}`)
  }

  let server: Server
  const up = () =>
    new Promise<void>(resolve => {
      server = createServer((request, response) => {
        handle(request, response).catch(error => {
          response.writeHead(500).end(JSON.stringify({ message: (error as Error).stack }))
        })
      })
      server.listen(socket, resolve)
    })
  const down = () =>
    new Promise<void>(resolve => {
      server.close(() => resolve())
      server.closeAllConnections()
      if (existsSync(socket)) rmSync(socket)
    })
  await up()
  return {
    host: `unix://${socket}`,
    images: known,
    containers,
    networks,
    volumes,
    requests,
    pulls,
    running: () =>
      [...containers.values()]
        .filter(({ state, labels }) => state === 'running' && labels['weft.part'] === 'main')
        .map(({ name }) => name)
        .sort(),
    down,
    up,
    mute() {
      isMute = true
    },
    cutRegistry() {
      hasRegistry = false
    },
    prune: () => pulled.clear(),
    async close() {
      for (const { id, body } of containers.values()) {
        body.HostConfig.RestartPolicy = { Name: 'no' }
        signals.get(id)?.('SIGKILL')
      }
      await down()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
