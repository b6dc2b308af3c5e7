/**
 * Requests of the edge to its own API. Protocols such as MCP and A2A need several of them to answer one request of a client. They
 * use a socket that nobody else can open and carry the credentials of the client, so the edge authenticates, limits and
 * counts them like every other request.
 */
import type { TemplatedApp } from 'uWebSockets.js'
import { Agent, type IncomingMessage, request as send } from 'node:http'
import { join } from 'node:path'
import { CALLER } from '../../schemas/app-host.js'
import { jsonText } from '../../schemas/exact.js'
import { openSocketFolder } from '../../workers/child/socket-folder.js'
import { crosses } from '../http/crossing.js'
import type { Exchange } from '../http/exchange.js'

export interface SelfCall {
  method: 'GET' | 'POST' | 'PATCH'
  /** The path of the API, without the prefix of a deployment. */
  path: string
  body?: unknown
  /** Where a stream goes on. */
  lastEventId?: string
  /** The key of a request that creates a run. */
  idempotencyKey?: string
}

export interface Self {
  /** `app` takes the requests. Rejects when the socket cannot be opened. */
  serve(app: TemplatedApp): Promise<void>
  /** The answer to a request of the caller of `exchange`; `text` is its body. Rejects when the signal aborts it. */
  ask(exchange: Exchange, call: SelfCall, signal: AbortSignal): Promise<{ status: number; text: string }>
  /** The same for a stream: resolves with its head. */
  open(exchange: Exchange, call: SelfCall, signal: AbortSignal): Promise<IncomingMessage>
  close(): void
}

/** Headers of the outer request that are not of the inner one. */
const DROPPED =
  /^(accept|accept-encoding|content-|expect|if-|last-event-id|origin|prefer|range|referer|sec-|mcp-|a2a-|langgraph-a2a-)/

export function openSelf(): Self {
  const folder = openSocketFolder(null)
  const socketPath = join(folder.path, 'self.sock')
  // The edge closes an unused connection after 10 s: a request on one that is about to be closed would fail.
  const agent = new Agent({ keepAlive: true, timeout: 4_000 })
  const open: Self['open'] = (exchange, { method, path, body, lastEventId, idempotencyKey }, signal) => {
    const prefix = exchange.mount !== null && 'slug' in exchange.mount ? `/deployments/${exchange.mount.slug}` : ''
    const bytes = body === undefined ? null : Buffer.from(jsonText(body))
    const headers = {
      ...headersOf(exchange),
      ...(bytes === null ? {} : { 'content-type': 'application/json', 'content-length': bytes.length }),
      ...(lastEventId === undefined ? {} : { 'last-event-id': lastEventId }),
      ...(idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }),
    }
    return new Promise((resolve, reject) => {
      const outgoing = send({ socketPath, agent, method, path: prefix + path, headers, signal })
      outgoing.on('error', reject)
      outgoing.on('response', resolve)
      outgoing.end(bytes)
    })
  }
  return {
    async serve(app) {
      if (!(await new Promise(done => app.listen_unix(done, socketPath))))
        throw new Error(`the socket ${socketPath} cannot be listened on`)
    },
    async ask(exchange, call, signal) {
      const incoming = await open(exchange, call, signal)
      return { status: incoming.statusCode ?? 500, text: await textOf(incoming) }
    },
    open,
    close() {
      agent.destroy()
      folder.remove()
    },
  }
}

async function textOf(incoming: IncomingMessage): Promise<string> {
  const parts: Buffer[] = []
  for await (const part of incoming) parts.push(part)
  return Buffer.concat(parts).toString()
}

/** Where the application does not authenticate its callers, the request has not kept its headers. */
function headersOf(exchange: Exchange): { [name: string]: string } {
  const { mount, received, requestId, ticket } = exchange
  const { key, host, traceparent, deployment, encryption, configurable } = received
  const known = {
    'x-api-key': key,
    traceparent,
    // A request that an application passes on names its deployment by the socket that it comes over.
    'x-deployment-id': mount !== null && 'id' in mount ? mount.id : deployment,
    'x-encryption-context': encryption,
    [CALLER]: ticket?.text ?? '',
  }
  return {
    ...configurable,
    ...Object.fromEntries(received.all.filter(([name]) => crosses(name, 'app') && !DROPPED.test(name))),
    ...Object.fromEntries(Object.entries(known).filter(([, value]) => value !== '')),
    host,
    'x-request-id': requestId,
  }
}
