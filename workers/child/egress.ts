/**
 * The proxy of sandboxes: their only way to a network. It listens on a socket that is bound into them, resolves names
 * itself, and connects to the address that it has checked. It passes connections on (CONNECT), and requests for http://.
 */
import { createServer, type IncomingHttpHeaders, type IncomingMessage, request, type ServerResponse } from 'node:http'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import type { Log } from '../../bus/log.js'
import type { Address } from '../outbound.js'
import type { Rules } from './egress-rules.js'
import type { HostUser } from './process.js'
import { openSocketFolder } from './socket-folder.js'

export interface Egress {
  /** Path of the socket. */
  socket: string
  close(): void
}

const SOCKET = 'egress.sock'
const CONNECT_MS = 10_000
/** Connections of all sandboxes of a process at the same time; further ones are closed. */
const MAX_CONNECTIONS = 1_000
/** Refused hosts that are logged, each once. */
const MAX_LOGGED = 100
/** Headers of one connection, which are not passed on. */
const HOP = ['connection', 'keep-alive', 'proxy-connection', 'proxy-authorization', 'te', 'trailer', 'upgrade']

export async function openEgress(rules: Rules, user: HostUser | null, log: Log): Promise<Egress> {
  const folder = openSocketFolder(user)
  const logged = new Set<string>()
  const sockets = new Set<Socket>()

  /** Null when it is refused. */
  async function find(host: string, port: number): Promise<Address | { refused: string }> {
    try {
      return await rules(host, port)
    } catch (error) {
      const refused = (error as Error).message
      if (logged.size < MAX_LOGGED && !logged.has(`${host}:${port}`)) {
        logged.add(`${host}:${port}`)
        log.warn({ host, port }, `a program in a sandbox may not connect: ${refused}`)
      }
      return { refused }
    }
  }

  const server = createServer((incoming, answer) => void relayRequest(incoming, answer).catch(() => answer.destroy()))
  server.maxConnections = MAX_CONNECTIONS
  server.on('connection', socket => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  server.on('connect', (incoming, near, head) => void relayConnection(incoming, near, head).catch(() => near.destroy()))
  server.on('clientError', (_, socket) => socket.destroy())

  async function relayConnection({ url = '' }: IncomingMessage, near: Duplex, head: Buffer): Promise<void> {
    near.on('error', () => near.destroy())
    const target = targetOf(`http://${url}`)
    const found = target === null ? { refused: 'expected a host and a port' } : await find(...target)
    if ('refused' in found) return void near.end(refusalOf(found.refused))
    const far = connect({ host: found.address, port: target![1], allowHalfOpen: true })
    far.setTimeout(CONNECT_MS, () => far.destroy(new Error('it did not answer in time')))
    let isOpen = false
    far.once('connect', () => {
      isOpen = true
      far.setTimeout(0)
      near.write('HTTP/1.1 200 Connection established\r\n\r\n')
      far.write(head)
      near.pipe(far).pipe(near)
    })
    far.on('error', error => (isOpen ? near.destroy() : near.end(failureOf(error))))
    far.on('close', () => isOpen && near.destroy())
    near.on('close', () => far.destroy())
  }

  async function relayRequest(incoming: IncomingMessage, answer: ServerResponse): Promise<void> {
    const { url = '', method = 'GET', headers } = incoming
    const target = url.startsWith('http://') ? targetOf(url) : null
    const found = target === null ? { refused: 'expected a URL with http://' } : await find(...target)
    if ('refused' in found) return void answer.writeHead(403, TEXT).end(`${found.refused}\n`)
    const { pathname, search, host } = new URL(url)
    const outgoing = request({
      host: found.address,
      port: target![1],
      method,
      path: `${pathname}${search}`,
      headers: { ...withoutHop(headers), host },
      agent: false,
    })
    const fail = (error: Error) =>
      answer.headersSent ? answer.destroy() : answer.writeHead(502, TEXT).end(`${error.message}\n`)
    outgoing.on('response', response => {
      response.on('error', () => answer.destroy())
      try {
        answer.writeHead(response.statusCode ?? 502, withoutHop(response.headers))
      } catch (error) {
        // Node.js reads answers that it does not write, as a status below 100.
        response.destroy()
        return fail(error as Error)
      }
      response.pipe(answer)
    })
    outgoing.on('error', fail)
    answer.on('close', () => outgoing.destroy())
    incoming.pipe(outgoing)
  }

  const socket = join(folder.path, SOCKET)
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(socket, resolve))
  folder.admit(SOCKET)
  server.unref()
  return {
    socket,
    close() {
      server.close()
      for (const each of sockets) each.destroy()
      folder.remove()
    },
  }
}

const TEXT = { 'content-type': 'text/plain', connection: 'close' }
const refusalOf = (reason: string): string => `HTTP/1.1 403 Forbidden\r\n\r\n${reason}\n`
const failureOf = ({ message }: Error): string => `HTTP/1.1 502 Bad Gateway\r\n\r\n${message}\n`

/** Null when the text is no URL. */
function targetOf(text: string): [host: string, port: number] | null {
  if (!URL.canParse(text)) return null
  const { hostname, port } = new URL(text)
  return [hostname.replace(/^\[|\]$/g, '').replace(/\.$/, ''), Number(port || 80)]
}

const withoutHop = (headers: IncomingHttpHeaders): IncomingHttpHeaders =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !HOP.includes(name)))
