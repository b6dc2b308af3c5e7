/**
 * The address of a client behind proxies (WEFT_TRUSTED_PROXIES). Each proxy adds the address that its request came from
 * at the end of X-Forwarded-For, so the header is read from its end for as long as the speaker is a trusted proxy; what is
 * before that is a claim of the client.
 */
import { BlockList, isIP } from 'node:net'

/** `peer`: the other end of the connection. `forwarded`: X-Forwarded-For, '' for none. */
export type ClientAddress = (peer: string, forwarded: string) => string

/** `trusted`: addresses and ranges, comma-separated. Throws an Error with one sentence for anything else. */
export function openClientAddress(trusted: string): ClientAddress {
  const proxies = trusted.split(',').flatMap(text => text.trim() || [])
  if (proxies.length === 0) return peer => peer
  const list = new BlockList()
  for (const proxy of proxies) add(list, proxy)
  const isTrusted = (address: string) => isIP(address) !== 0 && list.check(address, familyOf(address))
  return (peer, forwarded) => {
    let address = peer
    const hops = forwarded.split(',')
    while (isTrusted(address) && hops.length > 0) {
      const hop = withoutPort(hops.pop()!.trim())
      // The proxy does not know who asked it: it is the client itself.
      if (isIP(hop) === 0) break
      address = hop.toLowerCase()
    }
    return address
  }
}

function add(list: BlockList, proxy: string): void {
  const [address = '', prefix, ...more] = proxy.split('/')
  const most = isIP(address) === 4 ? 32 : 128
  if (
    isIP(address) === 0 ||
    more.length > 0 ||
    (prefix !== undefined && !(/^\d{1,3}$/.test(prefix) && +prefix <= most))
  )
    throw new Error(`WEFT_TRUSTED_PROXIES: expected addresses or ranges such as 10.0.0.0/8, got "${proxy}"`)
  if (prefix === undefined) list.addAddress(address, familyOf(address))
  else list.addSubnet(address, Number(prefix), familyOf(address))
}

const familyOf = (address: string) => (isIP(address) === 4 ? 'ipv4' : 'ipv6')

/** Some proxies write `1.2.3.4:5678` and `[::1]:5678`. */
const withoutPort = (hop: string): string =>
  hop.startsWith('[') ? hop.slice(1).replace(/\](:\d+)?$/, '') : hop.replace(/^([\d.]+):\d+$/, '$1')
