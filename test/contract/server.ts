/** A cluster, plain HTTP to it, and a receiver of webhooks, for the tests of the contract. */
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'
import { basicServer, type Cluster, startCluster } from '../helpers/cluster.js'
import type { Answer, Body } from './rows.js'

export interface Client {
  http(method: string, path: string, body?: unknown): Promise<Answer & { headers: Headers }>
  /** The same, for a request that must be answered with 200. */
  ok(method: string, path: string, body?: unknown): Promise<Body>
  thread(): Promise<string>
}

export interface Server extends Client {
  cluster: Cluster
  /** An address that webhooks may call, and the calls so far. */
  hook(): { url: string; calls: () => Body[] }
}

export async function startServer(t: Test, env: { [name: string]: string } = {}): Promise<Server> {
  const received = new Map<string, Body[]>()
  // The address of a webhook may have 65,536 characters.
  const receiver = createServer({ maxHeaderSize: 100_000 }, (request, response) => {
    let text = ''
    request.on('data', data => {
      text += data
    })
    request.on('end', () => {
      const [path = ''] = (request.url ?? '').split('?')
      received.set(path, [...(received.get(path) ?? []), JSON.parse(text)])
      response.writeHead(204).end()
    })
  }).listen(0, '127.0.0.1')
  await once(receiver, 'listening')
  t.teardown(() => receiver.close())
  const host = `127.0.0.1:${(receiver.address() as AddressInfo).port}`
  const cluster = await startCluster({ app: 'test/apps/basic', env: { WEFT_ALLOW_HOSTS: host, ...env } })
  t.teardown(() => cluster.stop())

  return {
    cluster,
    ...clientOf(cluster.url),
    hook() {
      const path = `/${randomUUID()}`
      return { url: `http://${host}${path}`, calls: () => received.get(path) ?? [] }
    },
  }
}

/** For tests without webhooks and settings; other files may use the same server. */
export async function openServer(t: Test): Promise<Client> {
  const server = await basicServer()
  t.teardown(() => server.stop())
  return clientOf(server.url)
}

function clientOf(url: string): Client {
  const http: Client['http'] = async (method, path, body) => {
    const answer = await fetch(`${url}${path}`, {
      method,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await answer.text()
    const json = answer.headers.get('content-type')?.includes('json') ?? false
    return { status: answer.status, headers: answer.headers, body: json ? JSON.parse(text) : text }
  }
  const ok: Client['ok'] = async (method, path, body) => {
    const answer = await http(method, path, body)
    if (answer.status !== 200) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`)
    return answer.body as Body
  }
  return { http, ok, thread: async () => (await ok('POST', '/threads', {})).thread_id as string }
}
