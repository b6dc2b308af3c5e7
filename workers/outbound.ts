/**
 * Calls to addresses that users name: webhooks, OAuth providers, and the sources of deployments. Private, loopback,
 * link-local and other inner addresses are refused. The checked address is the one that is connected to, so that a name
 * whose address changes gains nothing. No redirects, 2 s to connect, 10 s in all with the name lookup, at most 64 KB of
 * the answer to a webhook are read, and no client sees them (docs/spec/control-plane.md#security).
 */
import { lookup, Resolver } from 'node:dns/promises'
import { type ClientRequest, request as httpRequest, type IncomingHttpHeaders } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { BlockList, isIP } from 'node:net'
import type { Duplex } from 'node:stream'

const CONNECT_MS = 2_000
/** Time limit of a call, in ms. */
export const TOTAL_MS = 10_000
/** Time limit of one question to a name server, in ms. */
const RESOLVE_MS = 2_000
const MAX_ANSWER = 64 * 1024
/** Size limit of an answer that is used, in bytes. */
const MAX_READ = 1024 * 1024
const PORTS = new Set(['', '80', '443', '8080', '8443'])

const familyOf = (address: string) => (isIP(address) === 4 ? 'ipv4' : 'ipv6')

function listOf(ranges: readonly (readonly [address: string, prefix: number])[]): BlockList {
  const list = new BlockList()
  for (const [address, prefix] of ranges) list.addSubnet(address, prefix, familyOf(address))
  return list
}

const inner4 = listOf([
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
])

/** Public addresses of IPv6, and those among them that are not: special purposes and Teredo, documentation, 6to4. */
const global6 = listOf([['2000::', 3]])
const special6 = listOf([
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
])

/** Metadata services of clouds: closed even when WEFT_ALLOW_HOSTS names them. */
const metadata = listOf([
  ['169.254.169.254', 32],
  ['169.254.170.2', 32],
  ['169.254.170.23', 32],
  ['100.100.100.200', 32],
  ['168.63.129.16', 32],
  ['fd00:ec2::254', 128],
  ['fd00:ec2::23', 128],
  ['fd20:ce::254', 128],
])
const isMetadata = (host: string): boolean =>
  isIP(host) !== 0 && [host, ...embeddedIn(host)].some(address => metadata.check(address, familyOf(address)))

/** The IPv4 addresses that an IPv6 address leads to: mapped, compatible, NAT64, 6to4, Teredo. */
function embeddedIn(address: string): string[] {
  if (isIP(address) !== 6) return []
  const [a, b, c, d, e, f, g, h] = groupsOf(address)
  const dotted = (high: number, low: number) => [high >> 8, high & 255, low >> 8, low & 255].join('.')
  if (a === 0x2002) return [dotted(b!, c!)]
  if (a === 0x2001 && b === 0) return [dotted(c!, d!), dotted(g! ^ 0xffff, h! ^ 0xffff)]
  const isLow = [a, b, c, d, e].every(group => group === 0) && (f === 0 || f === 0xffff)
  return isLow || (a === 0x64 && b === 0xff9b) ? [dotted(g!, h!)] : []
}

/** The eight numbers of an IPv6 address. */
function groupsOf(address: string): number[] {
  // URL writes every spelling in one way, without dots.
  const text = new URL(`http://[${address.replace(/%.*$/, '')}]/`).hostname.slice(1, -1)
  const [left = '', right] = text.split('::')
  const numbers = (part: string) => (part === '' ? [] : part.split(':').map(group => Number.parseInt(group, 16)))
  const [head, tail] = [numbers(left), numbers(right ?? '')]
  return [...head, ...new Array<number>(8 - head.length - tail.length).fill(0), ...tail]
}

/** Addresses of a kind. */
export interface Addresses {
  check(address: string, family: 'ipv4' | 'ipv6'): boolean
}

/** Addresses that may be called beside public addresses on the usual ports. */
export interface Allowed {
  /** By `host` or `host:port`: on any port, or this one, wherever the name leads. */
  hosts: Pick<ReadonlySet<string>, 'has'>
  /** On any port. */
  addresses: Addresses
  /** Applies to every address. */
  ports: ReadonlySet<number>
  /** Not even these, whatever opens them. */
  closed: Addresses
}

/**
 * The hosts and addresses of WEFT_ALLOW_HOSTS: `host`, `host:port`, an address or a CIDR, comma-separated. Throws an Error
 * with one sentence when a range has no valid prefix: `10.0.0.0/` would open everything.
 */
export function parseAllowed(text: string, setting = 'WEFT_ALLOW_HOSTS'): Allowed {
  const [hosts, addresses] = [new Set<string>(), new BlockList()]
  for (const entry of text
    .split(',')
    .map(part => part.trim().toLowerCase())
    .filter(part => part !== '')) {
    const [address = '', prefix] = entry.split('/')
    const family = isIP(address)
    if (
      prefix !== undefined &&
      (family === 0 || !/^\d{1,3}$/.test(prefix) || Number(prefix) > (family === 4 ? 32 : 128))
    )
      throw new Error(
        `${setting}: expected a host, host:port, an address or a range such as 10.0.0.0/8, got "${entry}"`,
      )
    if (family === 0) hosts.add(entry)
    else if (prefix === undefined) addresses.addAddress(address, familyOf(address))
    else addresses.addSubnet(address, Number(prefix), familyOf(address))
  }
  return { hosts, addresses, ports: new Set(), closed: new BlockList() }
}

const HINT = 'WEFT_ALLOW_HOSTS opens others'

/** Null when the text of the URL may be called, else the sentence why not. */
export function refusal(text: string, allowed: Allowed): string | null {
  let url: URL
  try {
    url = new URL(text)
  } catch {
    return 'expected an absolute http or https URL'
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return 'expected an http or https URL'
  if (url.username !== '' || url.password !== '') return 'expected a URL without user and password'
  const host = url.hostname.replace(/^\[|\]$/g, '').toLowerCase()
  if (isMetadata(host)) return 'expected an address that is not of a metadata service'
  if (isClosed(host, allowed)) return CLOSED
  if (isNamed(url, allowed) || isOpenedAddress(host, allowed)) return null
  if (!PORTS.has(url.port) && !allowed.ports.has(Number(url.port)))
    return `expected port 80, 443, 8080 or 8443; ${HINT}`
  const isInner = host === 'localhost' || host.endsWith('.localhost') || (isIP(host) !== 0 && !isPublic(host))
  return isInner ? `expected a public address; ${HINT}` : null
}

const isNamed = (url: URL, { hosts }: Allowed): boolean =>
  hosts.has(url.hostname.toLowerCase()) || hosts.has(url.host.toLowerCase())

/** True when this address may be connected to. */
export function mayConnect(address: string, allowed: Allowed): boolean {
  if (isMetadata(address) || isClosed(address, allowed)) return false
  return isOpenedAddress(address, allowed) || isPublic(address)
}

const CLOSED = 'expected an address that the application does not close (webhooks.url)'

/** An address that is opened, on every port; false for a name. */
export const isOpenedAddress = (host: string, { addresses }: Allowed): boolean =>
  isIP(host) !== 0 && addresses.check(host, familyOf(host))

const isClosed = (host: string, { closed }: Allowed): boolean =>
  isIP(host) !== 0 && [host, ...embeddedIn(host)].some(address => closed.check(address, familyOf(address)))

/** Special addresses of IPv6 are not public, even when they lead to a public one of IPv4. */
const isPublic = (address: string): boolean =>
  isIP(address) === 4
    ? !inner4.check(address, 'ipv4')
    : global6.check(address, 'ipv6') && !special6.check(address, 'ipv6')

/** The part of a URL that may be logged: a webhook often has a token in its path. */
export const originOf = (text: string): string => (URL.canParse(text) ? new URL(text).origin : 'its URL')

/** This machine. Lists of addresses contain those of IPv4 also as IPv6 writes them. */
export const LOOPBACKS: Addresses = listOf([
  ['127.0.0.0', 8],
  ['::1', 128],
])

/** The network of this machine, as organizations number theirs. */
export const PRIVATES: Addresses = listOf([
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['172.16.0.0', 12],
  ['192.168.0.0', 16],
  ['fc00::', 7],
])

/** POSTs the body. Resolves to the status. Throws an Error with one sentence: refused, unreachable, too slow. */
export const post = (
  text: string,
  body: Uint8Array,
  headers: { [name: string]: string },
  allowed: Allowed,
): Promise<number> => send(text, { method: 'POST', headers, body }, allowed, statusOf)

interface Sent {
  method: 'GET' | 'POST'
  headers: { [name: string]: string }
  body?: Uint8Array
}

export interface Received {
  status: number
  headers: IncomingHttpHeaders
  /** At most 1 MiB. */
  body: Buffer
}

/** Resolves to the whole answer. Throws as `post`, and for an answer that is too large. */
export const request = (text: string, sent: Sent, allowed: Allowed): Promise<Received> =>
  send(text, sent, allowed, receivedOf)

async function send<T>(
  text: string,
  { method, headers, body }: Sent,
  allowed: Allowed,
  read: (request: ClientRequest) => Promise<T>,
): Promise<T> {
  const deadline = performance.now() + TOTAL_MS
  const { address, family } = await addressOf(text, allowed)
  const url = new URL(text)
  return new Promise((resolve, reject) => {
    const send = url.protocol === 'https:' ? httpsRequest : httpRequest
    const request = send(url, {
      method,
      headers: body === undefined ? headers : { ...headers, 'content-length': body.length },
      // The address that was checked is the one connected to; SNI and Host stay the name.
      lookup: (_name, options, done) => (options.all ? done(null, [{ address, family }]) : done(null, address, family)),
      agent: false,
    })
    const total = setTimeout(
      () => request.destroy(new Error(`${url.host} did not answer within ${TOTAL_MS / 1000} s`)),
      Math.max(1, deadline - performance.now()),
    )
    const connect = setTimeout(
      () => request.destroy(new Error(`${url.host} could not be reached within ${CONNECT_MS / 1000} s`)),
      CONNECT_MS,
    )
    request.on('socket', socket => socket.once('connect', () => clearTimeout(connect)))
    request.on('close', () => {
      clearTimeout(total)
      clearTimeout(connect)
    })
    read(request).then(resolve, reject)
    request.end(body)
  })
}

/** An address to connect to. */
export interface Address {
  address: string
  family: number
}

/** The address that the URL leads to. Throws an Error with one sentence when it may not be called. */
export async function addressOf(text: string, allowed: Allowed): Promise<Address> {
  const origin = originOf(text)
  const reason = refusal(text, allowed)
  if (reason !== null) throw new Error(`${origin} is not called: ${reason}`)
  const url = new URL(text)
  const named = isNamed(url, allowed)
  const found = await addressesOf(url.hostname.replace(/^\[|\]$/g, ''), { named })
  if (found.some(({ address }) => isClosed(address, allowed))) throw new Error(`${origin} is not called: ${CLOSED}`)
  const isBad = ({ address }: Address) => (named ? isMetadata(address) : !mayConnect(address, allowed))
  if (found.length === 0 || found.some(isBad))
    throw new Error(`${origin} is not called: it leads to an address that is not public; ${HINT}`)
  return found[0]!
}

function receivedOf(request: ClientRequest): Promise<Received> {
  return new Promise((resolve, reject) => {
    request.on('error', reject)
    request.on('response', response => {
      const parts: Buffer[] = []
      let read = 0
      response.on('data', (data: Buffer) => {
        parts.push(data)
        if ((read += data.length) <= MAX_READ) return
        reject(new Error('the answer is larger than 1 MiB'))
        response.destroy()
      })
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(parts) }),
      )
      response.on('error', reject)
    })
  })
}

function statusOf(request: ClientRequest): Promise<number> {
  return new Promise((resolve, reject) => {
    request.on('error', reject)
    request.on('response', response => {
      let read = 0
      response.on('data', (data: Buffer) => {
        if ((read += data.length) > MAX_ANSWER) response.destroy()
      })
      response.on('close', () => resolve(response.statusCode ?? 0))
      response.on('error', () => resolve(response.statusCode ?? 0))
    })
  })
}

/**
 * Resolves a name within 4 s. A name that users choose is resolved by a separate resolver: `lookup` blocks one of
 * the four threads that the files of this process need, too, for as long as the servers of the name do not answer. A
 * name that the operator opened may be a local one (hosts file, search domain), which only `lookup` knows.
 */
export async function addressesOf(host: string, { named }: { named: boolean }): Promise<Address[]> {
  if (isIP(host) !== 0) return [{ address: host, family: isIP(host) }]
  if (named) return lookup(host, { all: true })
  const resolver = new Resolver({ timeout: RESOLVE_MS, tries: 1 })
  const timer = setTimeout(() => resolver.cancel(), 2 * RESOLVE_MS)
  try {
    const [four, six] = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)])
    const found = [four, six].flatMap(one => (one.status === 'fulfilled' ? one.value : []))
    if (found.length === 0) throw new Error(`the name ${host} could not be resolved`)
    return found.map(address => ({ address, family: isIP(address) }))
  } finally {
    clearTimeout(timer)
  }
}

/** The same over a stream to the server, which is closed afterwards; `path` may have a query. */
export function postOver(
  stream: Duplex,
  path: string,
  body: Uint8Array,
  headers: { [name: string]: string },
): Promise<number> {
  return new Promise((resolve, reject) => {
    const request = httpRequest({
      method: 'POST',
      path,
      // A server that closes its connection behind an answer to a body it has not read cuts the stream, and the answer with it.
      headers: { ...headers, host: 'localhost', connection: 'keep-alive', 'content-length': body.length },
      createConnection: () => stream,
    })
    const total = setTimeout(
      () => request.destroy(new Error(`the application did not answer within ${TOTAL_MS / 1000} s`)),
      TOTAL_MS,
    )
    request.on('close', () => {
      clearTimeout(total)
      stream.destroy()
    })
    statusOf(request).then(resolve, reject)
    request.end(body)
  })
}
