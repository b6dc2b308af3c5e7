/**
 * The way from code of the application into the API of this server: a socket that only this process and its parent can open.
 * `new Client()` of the SDK without an address uses it.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { Agent, request as send } from 'node:http'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { CALLER, EDGE_SOCKET, LOOPBACK, RUN_USER } from '../../../schemas/app-host.js'
import type { AuthUser } from '../../../schemas/auth/auth.js'

/** The user of the run whose code asks, who is the caller then: also of what the run has left behind. */
export const currentUser = new AsyncLocalStorage<AuthUser | undefined>()

/** Headers of one connection, which are not passed on. */
export const HOP = new Set([
  'connection',
  'keep-alive',
  'transfer-encoding',
  'upgrade',
  'te',
  'trailer',
  'proxy-connection',
])
/**
 * Connections to the edge are kept: it closes one without keep-alive as soon as it has answered, which fails the end of a
 * body that is still being written. Unused ones are closed before the edge does it, after 10 s.
 */
const agent = new Agent({ keepAlive: true, timeout: 4_000 })
const NO_BODY = new Set([101, 204, 205, 304])

/**
 * Sends a request to the built-in routes of the edge; its answer streams. The body is sent with its length, because the
 * edge closes the connection behind a request without one, and takes whole bodies anyway.
 */
export async function toEdge(folder: string, request: Request, more: { [name: string]: string }): Promise<Response> {
  const body = request.body === null ? null : Buffer.from(await request.arrayBuffer())
  const { pathname, search } = new URL(request.url)
  const headers: { [name: string]: string } = { ...more }
  for (const [name, value] of request.headers)
    if (!HOP.has(name) && (!name.startsWith('x-weft-') || name === CALLER)) headers[name] = value
  delete headers['content-length']
  if (body !== null) headers['content-length'] = `${body.length}`
  const socketPath = join(folder, EDGE_SOCKET)
  return new Promise((resolve, reject) => {
    const options = { socketPath, method: request.method, path: `${pathname}${search}`, headers, agent }
    const onGone = () => outgoing.destroy()
    const outgoing = send(options, incoming => {
      // The connection is another request's from then on.
      incoming.once('end', () => request.signal.removeEventListener('abort', onGone))
      const { statusCode = 502, rawHeaders } = incoming
      const received = new Headers()
      for (let i = 0; i < rawHeaders.length; i += 2)
        if (!HOP.has(rawHeaders[i]!.toLowerCase())) received.append(rawHeaders[i]!, rawHeaders[i + 1]!)
      const stream = NO_BODY.has(statusCode) || request.method === 'HEAD' ? null : (Readable.toWeb(incoming) as never)
      if (stream === null) incoming.resume()
      resolve(new Response(stream, { status: statusCode, headers: received }))
    })
    outgoing.on('error', reject)
    request.signal.addEventListener('abort', onGone, { once: true })
    outgoing.end(body ?? undefined)
  })
}

/**
 * `new Client()` without an address calls the API in-process, without authentication. Code of a run calls as its user.
 */
export function registerLoopback(folder: string): void {
  const fetch = (input: string | URL | Request, init?: RequestInit) => {
    const request = input instanceof Request ? input : new Request(new URL(input, 'http://localhost'), init)
    const user = currentUser.getStore()
    const caller: { [name: string]: string } =
      user === undefined ? {} : { [RUN_USER]: Buffer.from(JSON.stringify(user)).toString('base64') }
    return toEdge(folder, request, { [LOOPBACK]: '1', host: 'localhost', ...caller })
  }
  Object.assign(globalThis, { [Symbol.for('langgraph_api:fetch')]: fetch })
}
