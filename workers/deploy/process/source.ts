/**
 * Where a deployment may come from (API: control-plane 4.2, 11.2, 14): https and ssh to addresses that may be called,
 * folders below WEFT_LOCAL_SOURCES. Everything else git understands is refused: helpers run programs, and a private
 * address is not the user's to reach.
 */
import { lookup } from 'node:dns/promises'
import { realpathSync } from 'node:fs'
import { isIP } from 'node:net'
import { isAbsolute, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Allowed, mayConnect, refusal } from '../../outbound.js'
import { Fault } from '../fault.js'

export type Source =
  /** `opened`: the operator named this host in WEFT_ALLOW_HOSTS. */
  | { kind: 'https'; url: string; host: string; port: string; opened: boolean }
  | { kind: 'ssh'; url: string; host: string; opened: boolean }
  | { kind: 'local'; folder: string }

export type Remote = Exclude<Source, { kind: 'local' }>

export interface Sources {
  /** Folders below which local sources may lie (WEFT_LOCAL_SOURCES). */
  local: readonly string[]
  allowed: Allowed
}

export const localSources = (text: string): string[] => text.split(',').flatMap(part => part.trim() || [])

const HOST = /^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$/
const SCP = /^([A-Za-z0-9_][A-Za-z0-9_.-]*)@([^:/@\s]+):(?!\/\/)([^\s]+)$/

/** The source that `url` names. Throws a Fault with one sentence. Looks no name up: `reach` does. */
export function readSource(url: string, sources: Sources): Source {
  if (url === '' || url.startsWith('-') || /[\s\x00-\x1f\x7f]/.test(url))
    throw new Fault('repo_url: expected an address without blanks that does not begin with "-"')
  if (isAbsolute(url)) return local(url, sources)
  if (/^[A-Za-z0-9+.-]+::/.test(url)) throw new Fault('repo_url: addresses with a git helper ("name::") are refused')
  const scp = SCP.exec(url)
  if (scp !== null) return ssh(url, scp[2]!, sources)
  let parsed: URL
  try {
    parsed = new URL(url)
  } catch {
    throw new Fault('repo_url: expected https://, ssh://, user@host:path or, where it is allowed, file://')
  }
  if (parsed.protocol === 'file:') {
    if (parsed.host !== '' && parsed.host !== 'localhost')
      throw new Fault('repo_url: expected a file:// address without a host')
    return local(fileURLToPath(`file://${parsed.pathname}`), sources)
  }
  if (parsed.protocol === 'ssh:') {
    if (parsed.password !== '') throw new Fault('repo_url: expected no password in the address')
    if (/^-|%2d/i.test(parsed.username) || parsed.pathname.startsWith('/-'))
      throw new Fault('repo_url: expected names that do not begin with "-"')
    return ssh(url, parsed.hostname, sources)
  }
  if (parsed.protocol !== 'https:' && !(parsed.protocol === 'http:' && isOpened(parsed, sources.allowed)))
    throw new Fault(`repo_url: ${parsed.protocol}// is not fetched from; expected https://, ssh:// or file://`)
  const no = refusal(url, sources.allowed)
  if (no !== null) throw new Fault(`repo_url: ${no}`)
  const host = parsed.hostname.replace(/^\[|\]$/g, '')
  const port = parsed.port || (parsed.protocol === 'https:' ? '443' : '80')
  return { kind: 'https', url, host, port, opened: isOpened(parsed, sources.allowed) }
}

const isOpened = ({ hostname, host }: URL, { hosts }: Allowed): boolean => hosts.has(hostname) || hosts.has(host)

function ssh(url: string, given: string, { allowed }: Sources): Source {
  const host = given.replace(/^\[|\]$/g, '').toLowerCase()
  if (!HOST.test(host) && isIP(host) === 0)
    throw new Fault('repo_url: expected a host name made of letters, digits, "." and "-"')
  return { kind: 'ssh', url, host, opened: allowed.hosts.has(host) }
}

/** Symlinks are resolved first: what counts is where the files lie. */
function local(path: string, { local: roots }: Sources): Source {
  const folder = real(path)
  const within = roots.some(root => {
    const base = real(root)
    if (base === null || folder === null) return false
    const way = relative(base, folder)
    return way === '' || !(way === '..' || way.startsWith('../') || isAbsolute(way))
  })
  // The same sentence for both: whether a file exists elsewhere is not told.
  if (folder === null || !within)
    throw new Fault('repo_url: local sources are taken from existing folders below WEFT_LOCAL_SOURCES only')
  return { kind: 'local', folder }
}

function real(path: string): string | null {
  try {
    return realpathSync(path)
  } catch {
    return null
  }
}

/**
 * The address to connect to; null where the name is the operator's own. Throws a Fault when it leads to an address
 * that is not called, or nowhere.
 */
export async function reach({ host, opened }: Remote, { allowed }: Sources): Promise<string | null> {
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

/** A ref as git takes it; throws a Fault for what could be an option or leave the ref space. */
export function checkRef(ref: string): string {
  const bad =
    ref === '' || ref.length > 1_024 || /^[-/.]|\.\.|\/\/|@\{|[\s~^:?*[\\\x00-\x1f\x7f]|\.lock$|[/.]$/.test(ref)
  if (bad) throw new Fault(`repo_ref: "${ref.slice(0, 100)}" is no branch, tag or commit`)
  return ref
}
