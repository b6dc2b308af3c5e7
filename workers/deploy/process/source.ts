/**
 * Allowed sources of deployments (docs/spec/control-plane.md#source-config): https and ssh to allowed addresses, and
 * folders below WEFT_LOCAL_SOURCES. All other forms that git knows are refused: its helpers run programs, and users
 * may not reach private addresses.
 */
import { lookup } from 'node:dns/promises'
import { realpathSync } from 'node:fs'
import { isIP } from 'node:net'
import { isAbsolute, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Allowed, isOpenedAddress, mayConnect, refusal } from '../../outbound.js'
import { Fault } from '../fault.js'

export type Source =
  /** `opened`: WEFT_ALLOW_HOSTS names this host. */
  | { kind: 'https'; url: string; host: string; port: string; opened: boolean }
  | { kind: 'ssh'; url: string; host: string; port: string; opened: boolean }
  | { kind: 'local'; folder: string }

export type Remote = Exclude<Source, { kind: 'local' }>

export interface Sources {
  /** Folders of local sources (WEFT_LOCAL_SOURCES). */
  local: readonly string[]
  allowed: Allowed
}

export const localSources = (text: string): string[] => text.split(',').flatMap(part => part.trim() || [])

/** 443: some hosts offer ssh there for networks that block 22. */
const SSH_PORTS = new Set(['22', '443'])
/** A URL may have more in it, and the host becomes a part of git's configuration. */
const HOST = /^[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?$/
const SCP = /^([A-Za-z0-9_][A-Za-z0-9_.-]*)@([^:/@\s]+):(?!\/\/)([^\s]+)$/

/** Parses the source. Throws a Fault with one sentence. `resolveAddress` looks up its name. */
export function readSource(url: string, sources: Sources): Source {
  if (url === '' || url.startsWith('-') || /[\s\x00-\x1f\x7f]/.test(url))
    throw new Fault('repo_url: expected an address without blanks that does not begin with "-"')
  if (isAbsolute(url)) return localSource(url, sources)
  if (/^[A-Za-z0-9+.-]+::/.test(url)) throw new Fault('repo_url: addresses with a git helper ("name::") are refused')
  const scp = SCP.exec(url)
  if (scp !== null) return sshSource(url, scp[2]!, '22', sources)
  let parsed: URL
  try {
    parsed = new URL(url)
  } catch {
    throw new Fault('repo_url: expected https://, ssh://, user@host:path or, where it is allowed, file://')
  }
  if (parsed.protocol === 'file:') {
    if (parsed.host !== '' && parsed.host !== 'localhost')
      throw new Fault('repo_url: expected a file:// address without a host')
    return localSource(fileURLToPath(`file://${parsed.pathname}`), sources)
  }
  if (parsed.protocol === 'ssh:') {
    if (parsed.password !== '') throw new Fault('repo_url: expected no password in the address')
    if (/^-|%2d/i.test(parsed.username) || parsed.pathname.startsWith('/-'))
      throw new Fault('repo_url: expected names that do not begin with "-"')
    return sshSource(url, parsed.hostname, parsed.port || '22', sources)
  }
  if (parsed.protocol !== 'https:' && !(parsed.protocol === 'http:' && isOpened(parsed, sources.allowed)))
    throw new Fault(`repo_url: ${parsed.protocol}// is not fetched from; expected https://, ssh:// or file://`)
  const reason = refusal(url, sources.allowed)
  if (reason !== null) throw new Fault(`repo_url: ${reason}`)
  const host = hostOf(parsed.hostname)
  const port = parsed.port || (parsed.protocol === 'https:' ? '443' : '80')
  return { kind: 'https', url, host, port, opened: isOpened(parsed, sources.allowed) }
}

const isOpened = ({ hostname, host }: URL, { hosts }: Allowed): boolean => hosts.has(hostname) || hosts.has(host)

function hostOf(given: string): string {
  const host = given.replace(/^\[|\]$/g, '').toLowerCase()
  if (HOST.test(host) || isIP(host) !== 0) return host
  throw new Fault('repo_url: expected a host name made of letters, digits, ".", "-" and "_"')
}

function sshSource(url: string, given: string, port: string, { allowed }: Sources): Source {
  const host = hostOf(given)
  const opened = allowed.hosts.has(host) || allowed.hosts.has(`${host}:${port}`)
  if (!opened && !isOpenedAddress(host, allowed) && !SSH_PORTS.has(port))
    throw new Fault('repo_url: expected port 22 or 443 for ssh; WEFT_ALLOW_HOSTS opens others')
  return { kind: 'ssh', url, host, port, opened }
}

/** Resolves symlinks first: the real path of the files decides. */
function localSource(path: string, { local: roots }: Sources): Source {
  const folder = realPathOrNull(path)
  const within = roots.some(root => {
    const base = realPathOrNull(root)
    if (base === null || folder === null) return false
    const path = relative(base, folder)
    return path === '' || !(path === '..' || path.startsWith('../') || isAbsolute(path))
  })
  // One sentence for both cases: it does not tell whether a file exists elsewhere.
  if (folder === null || !within)
    throw new Fault('repo_url: local sources are taken from existing folders below WEFT_LOCAL_SOURCES only')
  return { kind: 'local', folder }
}

function realPathOrNull(path: string): string | null {
  try {
    return realpathSync(path)
  } catch {
    return null
  }
}

/**
 * Resolves the address to connect to; null for a name that WEFT_ALLOW_HOSTS opens. Throws a Fault when the name has no
 * address or one that is not allowed.
 */
export async function resolveAddress({ host, opened }: Remote, { allowed }: Sources): Promise<string | null> {
  if (opened && isIP(host) === 0) return null
  const found =
    isIP(host) !== 0
      ? [{ address: host }]
      : await lookup(host, { all: true }).catch(() => {
          throw new Fault(`fetch: ${host} cannot be resolved`, true)
        })
  if (found.length === 0 || (!opened && found.some(({ address }) => !mayConnect(address, allowed))))
    throw new Fault(`fetch: ${host} leads to an address that is not public; WEFT_ALLOW_HOSTS opens it`)
  return found[0]!.address
}

/** Checks a ref. Throws a Fault when git could take it for an option or for more than a ref. */
export function checkRef(ref: string): string {
  const bad =
    ref === '' || ref.length > 1_024 || /^[-/.]|\.\.|\/\/|@\{|[\s~^:?*[\\\x00-\x1f\x7f]|\.lock$|[/.]$/.test(ref)
  if (bad) throw new Fault(`repo_ref: "${ref.slice(0, 100)}" is not a branch, tag or commit`)
  return ref
}
