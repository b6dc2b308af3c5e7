/** Where programs in a sandbox may connect to by the proxy of Weft (egress.ts). */
import { isIP } from 'node:net'
import { type Address, addressesOf, addressOf, isOpenedAddress, mayConnect, parseAllowed } from '../outbound.js'

/** Resolves to the address to connect to. Throws an Error with one sentence when the host may not be reached. */
export type Rules = (host: string, port: number) => Promise<Address>

const SETTING = 'WEFT_HOST_NETWORK'
const ON = ['on', 'true', '1', 'yes']
const OFF = ['off', 'false', '0', 'no']
/** A name, one with a star in place of its first label, an address or a range; and a port. */
const ENTRY = /^(?:\[([0-9a-f:.]+)\]|((?:\*\.)?[a-z0-9_](?:[a-z0-9._-]*[a-z0-9_])?(?:\/\d+)?))(?::(\d{1,5}))?$/

/** WEFT_HOST_NETWORK: the whole network, none of it, or a list of hosts. Throws an Error with one sentence. */
export function parseNetwork(text: string): 'on' | 'off' | Rules {
  const word = text.trim().toLowerCase()
  if (ON.includes(word)) return 'on'
  return OFF.includes(word) ? 'off' : listed(word)
}

/**
 * A listed name leads to public addresses, and to others that the list has, too: whoever owns the name could let it lead to
 * this machine.
 */
function listed(text: string): Rules {
  const entries = text
    .split(',')
    .map(entry => entry.trim())
    .filter(entry => entry !== '')
    .map(readEntry)
  const allowedAt = (port: number) => {
    const isMeant = (one: Entry) => one.isAddress && (one.port === null || one.port === port)
    const ranges = entries.filter(isMeant).map(({ host }) => host)
    return parseAllowed(ranges.join(), SETTING)
  }
  // Reports wrong ranges.
  for (const { port } of entries) allowedAt(port ?? 0)
  return async (host, port) => {
    const allowed = allowedAt(port)
    const names = entries.filter(one => !one.isAddress && (one.port === null || one.port === port))
    const isExact = names.some(one => one.host === host)
    const isListed =
      isIP(host) === 0
        ? isExact || names.some(one => one.host.startsWith('*.') && host.endsWith(one.host.slice(1)))
        : isOpenedAddress(host, allowed)
    if (!isListed) throw new Error(`${host}:${port} is not in ${SETTING}`)
    const found = await addressesOf(host, { named: isExact })
    const bad = found.find(({ address }) => !mayConnect(address, allowed))
    if (bad !== undefined)
      throw new Error(`${host} leads to ${bad.address}, which is not public; ${SETTING} may list that address, too`)
    return found[0]!
  }
}

interface Entry {
  host: string
  port: number | null
  isAddress: boolean
}

function readEntry(text: string): Entry {
  if (isIP(text) === 6) return { host: text, port: null, isAddress: true }
  const [, six, other, port] = ENTRY.exec(text) ?? []
  const host = six ?? other
  if (host === undefined || (six !== undefined && isIP(six) !== 6))
    throw new Error(
      `${SETTING}: expected on, off, or hosts such as api.example.com, *.example.com:443 and 10.0.0.0/8, not "${text}"`,
    )
  const isAddress = isIP(host) !== 0 || host.includes('/')
  return { host, port: port === undefined ? null : Number(port), isAddress }
}

/** Public addresses on the usual ports, and what WEFT_ALLOW_HOSTS opens: for installs, which need package registries. */
export function publicRules(allow_hosts: string): Rules {
  const allowed = parseAllowed(allow_hosts)
  return (host, port) => addressOf(`https://${isIP(host) === 6 ? `[${host}]` : host}:${port}/`, allowed)
}
