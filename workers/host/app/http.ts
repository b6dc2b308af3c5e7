/**
 * `http.app` of langgraph.json: routes and middleware of the application (docs/spec/application.md#routes). The edge
 * passes requests on to a Unix socket of this process. What the application does not serve goes back to the edge over
 * a second socket, inside of the application's middleware, which therefore wraps the built-in routes.
 */
import { rmSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import type { ReadableStream } from 'node:stream/web'
import { APP_SOCKET } from '../../../schemas/app-host.js'
import { isObject } from '../../../schemas/json.js'
import { HOP, registerLoopback, toEdge } from './loopback.js'

type Fetch = (request: Request) => Response | Promise<Response>
type Pass = (request: Request) => Promise<Response>

/** The members of a Hono application that are used here. */
interface Hono {
  fetch: Fetch
  routes: { path: string }[]
  notFound(handler: (context: HonoContext) => Promise<Response>): unknown
}
interface HonoContext {
  req: { raw: Request; bodyCache?: { [form: string]: unknown } }
}

/**
 * Serves the export on a socket in `folder`. `inject`: the `injectWebSocket` of @hono/node-ws that the file exports, which
 * adds WebSockets to a server. Resolves to the beginnings of the paths that the application may handle.
 * Throws an Error with one sentence when the export is no application.
 */
export async function serveHttp(
  exported: unknown,
  { name, folder, inject }: { name: string; folder: string; inject: unknown },
): Promise<string[]> {
  const pass: Pass = request => toEdge(folder, request, {})
  registerLoopback(folder)
  const { fetch, prefixes } = handlerOf(exported, name, pass)
  const path = join(folder, APP_SOCKET)
  rmSync(path, { force: true })
  const server = createServer({ keepAliveTimeout: 0, requestTimeout: 0 }, (incoming, outgoing) => {
    void respond(fetch, incoming, outgoing)
  })
  if (typeof inject === 'function') {
    // A connection that breaks while it is upgraded must not end the process.
    server.on('upgrade', (_, socket) => socket.on('error', () => {}))
    inject(server)
  }
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(path, resolve))
  return prefixes
}

function handlerOf(exported: unknown, name: string, pass: Pass): { fetch: Fetch; prefixes: string[] } {
  if (isHono(exported)) {
    const prefixes = [...new Set(exported.routes.map(({ path }) => path.replace(/[:*{].*$/s, '')))]
    // The application's own answer to unknown paths must not hide the built-in routes.
    exported.notFound(async context => pass(await requestOf(context)))
    return { fetch: request => exported.fetch(request), prefixes }
  }
  const fetch = typeof exported === 'function' ? exported : isObject(exported) ? exported.fetch : undefined
  if (typeof fetch !== 'function')
    throw new Error(`http.app: ${name} is no application; expected a Hono application or an object with fetch.`)
  return {
    prefixes: ['/'],
    async fetch(request) {
      // Unknown to the application: it is asked with a copy, because it may have read the body.
      const copy = request.clone()
      const response = (await fetch.call(exported, request)) as Response
      return response.status === 404 ? pass(copy) : response
    },
  }
}

const isHono = (exported: unknown): exported is Hono =>
  typeof exported === 'object' &&
  exported !== null &&
  typeof (exported as Hono).fetch === 'function' &&
  typeof (exported as Hono).notFound === 'function' &&
  Array.isArray((exported as Hono).routes)

/** The request as middleware left it: replaced, or with a body that was read and may have been changed. */
async function requestOf({ req: { raw, bodyCache = {} } }: HonoContext): Promise<Request> {
  if (!raw.bodyUsed) return raw
  const { method, headers, url, signal } = raw
  const { json, text, arrayBuffer, blob } = bodyCache
  const body =
    json !== undefined ? JSON.stringify(await json) : ((await (text ?? arrayBuffer ?? blob)) as string | undefined)
  return new Request(url, { method, headers, signal, ...(body === undefined ? {} : { body }) })
}

async function respond(fetch: Fetch, incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const gone = new AbortController()
  outgoing.once('close', () => gone.abort())
  try {
    const response = await fetch(requestFrom(incoming, gone.signal))
    outgoing.writeHead(response.status, [...response.headers].flat())
    if (response.body === null) return void outgoing.end()
    // Before the first byte of a stream: its client waits for the head.
    outgoing.flushHeaders()
    Readable.fromWeb(response.body as ReadableStream)
      .on('error', () => outgoing.destroy())
      .pipe(outgoing)
  } catch (error) {
    if (gone.signal.aborted) return
    console.error('http.app failed:', error)
    if (outgoing.headersSent) return void outgoing.destroy()
    outgoing.writeHead(500, { 'content-type': 'application/json' }).end('{"detail":"Internal server error"}')
  }
}

function requestFrom(incoming: IncomingMessage, signal: AbortSignal): Request {
  const { method = 'GET', rawHeaders } = incoming
  const headers = new Headers()
  for (let i = 0; i < rawHeaders.length; i += 2)
    if (!HOP.has(rawHeaders[i]!.toLowerCase())) headers.append(rawHeaders[i]!, rawHeaders[i + 1]!)
  const hasBody = method !== 'GET' && method !== 'HEAD'
  return new Request(addressOf(incoming.url ?? '/', headers.get('host') ?? ''), {
    method,
    headers,
    signal,
    ...(hasBody ? { body: Readable.toWeb(incoming) as never, duplex: 'half' } : {}),
  })
}

/** Parsed with an authority of our own: the Host of a client is set afterwards, and is no part of the path whatever it is. */
function addressOf(target: string, host: string): URL {
  const address = new URL(`http://localhost${target}`)
  address.host = host
  return address
}
