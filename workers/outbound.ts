/**
 * Calls to addresses that users name: webhooks today. Private, loopback, link-local and other inner addresses are
 * refused; the check is made on the address that is then connected to, so a name that changes its mind gains nothing.
 * No redirects, 2 s to connect, 10 s in all, at most 64 KB of answer read, which nobody gets to see (reliability 2.10).
 */
import { lookup } from 'node:dns/promises'
import { request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { BlockList, isIP } from 'node:net'

const CONNECT_MS = 2_000
const TOTAL_MS = 10_000
const MAX_ANSWER = 64 * 1024
const PORTS = new Set(['', '80', '443', '8080', '8443'])

const inner = new BlockList()
for (const [address, prefix] of [
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
] as const)
  inner.addSubnet(address, prefix, 'ipv4')
for (const [address, prefix] of [
  ['::', 128],
  ['::1', 128],
  ['64:ff9b::', 96],
  ['64:ff9b:1::', 48],
  ['2002::', 16],
  ['fc00::', 7],
  ['fe80::', 10],
  ['ff00::', 8],
] as const)
  inner.addSubnet(address, prefix, 'ipv6')

/** Metadata services of clouds: closed whatever is allowed. */
const metadata = new BlockList()
for (const address of ['169.254.169.254', '100.100.100.200', 'fd00:ec2::254'])
  metadata.addAddress(address, isIP(address) === 4 ? 'ipv4' : 'ipv6')
const isMetadata = (host: string): boolean =>
  isIP(host) !== 0 && metadata.check(host, isIP(host) === 4 ? 'ipv4' : 'ipv6')

/** What an operator opened: `host`, `host:port`, an address or a CIDR, comma-separated (WEFT_ALLOW_HOSTS). */
export interface Allowed {
  hosts: Set<string>
  addresses: BlockList
}

export function parseAllowed(text: string): Allowed {
  const allowed: Allowed = { hosts: new Set(), addresses: new BlockList() }
  for (const entry of text
    .split(',')
    .map(part => part.trim().toLowerCase())
    .filter(part => part !== '')) {
    const [address = '', prefix] = entry.split('/')
    const family = isIP(address)
    if (family === 0) allowed.hosts.add(entry)
    else if (prefix === undefined) allowed.addresses.addAddress(address, family === 4 ? 'ipv4' : 'ipv6')
    else allowed.addresses.addSubnet(address, Number(prefix), family === 4 ? 'ipv4' : 'ipv6')
  }
  return allowed
}

/** Null when the URL may be called as far as its text tells, else the sentence why not. */
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
  if (isNamed(url, allowed)) return isMetadata(host) ? 'this address is never called' : null
  if (!PORTS.has(url.port)) return 'expected port 80, 443, 8080 or 8443'
  if (host === 'localhost' || host.endsWith('.localhost')) return 'expected a public address'
  return isIP(host) !== 0 && !mayConnect(host, allowed) ? 'expected a public address' : null
}

const isNamed = (url: URL, { hosts }: Allowed): boolean =>
  hosts.has(url.hostname.toLowerCase()) || hosts.has(url.host.toLowerCase())

/** True when this address may be connected to. */
export function mayConnect(address: string, { addresses }: Allowed): boolean {
  // A BlockList sees through v4-mapped addresses (::ffff:…) by itself.
  const family = isIP(address) === 4 ? 'ipv4' : 'ipv6'
  return !metadata.check(address, family) && (addresses.check(address, family) || !inner.check(address, family))
}

/** POSTs the body; resolves to the status. Throws an Error with one sentence: refused, unreachable, too slow. */
export async function post(
  text: string,
  body: Uint8Array,
  headers: { [name: string]: string },
  allowed: Allowed,
): Promise<number> {
  const no = refusal(text, allowed)
  if (no !== null) throw new Error(`${text} is not called: ${no}`)
  const url = new URL(text)
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const found = isIP(host) === 0 ? await lookup(host, { all: true }) : [{ address: host, family: isIP(host) }]
  const named = isNamed(url, allowed)
  const bad = found.find(({ address }) => (named ? isMetadata(address) : !mayConnect(address, allowed)))
  if (found.length === 0 || bad !== undefined)
    throw new Error(`${text} is not called: it leads to an address that is not public`)
  const { address, family } = found[0]!
  return new Promise((resolve, reject) => {
    const send = url.protocol === 'https:' ? httpsRequest : httpRequest
    const request = send(url, {
      method: 'POST',
      headers: { ...headers, 'content-length': body.length },
      // The address that was checked is the one connected to; SNI and Host stay the name.
      lookup: (_name, options, done) => (options.all ? done(null, [{ address, family }]) : done(null, address, family)),
      agent: false,
    })
    const total = setTimeout(
      () => request.destroy(new Error(`${url.host} did not answer within ${TOTAL_MS / 1000} s`)),
      TOTAL_MS,
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
    request.on('error', reject)
    request.on('response', response => {
      let read = 0
      response.on('data', (data: Buffer) => {
        if ((read += data.length) > MAX_ANSWER) response.destroy()
      })
      response.on('close', () => resolve(response.statusCode ?? 0))
      response.on('error', () => resolve(response.statusCode ?? 0))
    })
    request.end(body)
  })
}
