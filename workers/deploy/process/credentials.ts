/**
 * Credentials for private repositories. The secrets WEFT_GIT_TOKEN and WEFT_GIT_SSH_KEY of a deployment count for its own
 * source; without them, the files that the operator's settings name. They reach git by its environment and by a file that
 * is removed after the fetch: they are in no URL, no argument and no log, and no part of the application gets them.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Fault } from '../fault.js'
import type { Remote } from './source.js'

/** Names of the secrets of a deployment that are for git alone. */
const OWN = { token: 'WEFT_GIT_TOKEN', ssh_key: 'WEFT_GIT_SSH_KEY' } as const

/** The variables of the application: all but the credentials of its source. */
export const withoutCredentials = (secrets: { [name: string]: string }): { [name: string]: string } =>
  Object.fromEntries(Object.entries(secrets).filter(([name]) => name !== OWN.token && name !== OWN.ssh_key))

export interface CredentialFiles {
  /** WEFT_GIT_CREDENTIALS_FILE: lines `https://user:token@host/path`; '' when there is none. */
  git_credentials_file: string
  /** WEFT_GIT_SSH_KEY_FILE; '' when there is none. */
  git_ssh_key_file: string
}

export interface Credentials {
  /** Value of the header Authorization for the server of the source. */
  authorization: string | null
  /** Path of the private key; null: those of the user of the deploy worker. */
  ssh_key: string | null
  /** Texts that no log may show. */
  hidden: string[]
}

export const NO_CREDENTIALS: Credentials = { authorization: null, ssh_key: null, hidden: [] }

/** The key of the deployment during a fetch. */
export const keyFile = (work: string): string => join(work, 'ssh-key')

/** `work`: folder of the attempt, for the key of the deployment. Throws a Fault when a file cannot be read. */
export async function findCredentials(
  source: Remote,
  secrets: { [name: string]: string },
  { git_credentials_file, git_ssh_key_file }: CredentialFiles,
  work: string,
): Promise<Credentials> {
  if (source.kind === 'ssh') {
    const own = secrets[OWN.ssh_key]
    if (!own) return { ...NO_CREDENTIALS, ssh_key: git_ssh_key_file || null }
    const file = keyFile(work)
    // ssh reads a key with its last line break only, and one that others may read not at all.
    await writeFile(file, `${own.replace(/\r\n?/g, '\n').trimEnd()}\n`, { mode: 0o600 })
    return { ...NO_CREDENTIALS, ssh_key: file }
  }
  const token = secrets[OWN.token] || (await tokenIn(git_credentials_file, source.url))
  if (!token) return NO_CREDENTIALS
  // Git hosts ignore the name beside a token, and refuse an empty one.
  const basic = Buffer.from(token.includes(':') ? token : `x-access-token:${token}`).toString('base64')
  return {
    ...NO_CREDENTIALS,
    authorization: `Basic ${basic}`,
    hidden: [token, token.slice(token.indexOf(':') + 1), basic],
  }
}

/** `user:token` of the line with the longest path that the address begins with; null when there is none. */
async function tokenIn(file: string, url: string): Promise<string | null> {
  if (file === '') return null
  const text = await readFile(file, 'utf8').catch((error: Error) => {
    throw new Fault(`fetch: the file of WEFT_GIT_CREDENTIALS_FILE cannot be read: ${error.message}`)
  })
  const wanted = new URL(url)
  let best: { path: string; token: string } | null = null
  for (const line of text.split('\n')) {
    const entry = line.trim()
    if (entry === '' || entry.startsWith('#') || !URL.canParse(entry)) continue
    const { origin, pathname, username, password } = new URL(entry)
    const path = pathname.replace(/\/+$/, '')
    const isMeant =
      origin === wanted.origin &&
      `${wanted.pathname.replace(/(\.git)?\/*$/, '')}/`.startsWith(`${path.replace(/\.git$/, '')}/`)
    if (!isMeant || (best !== null && best.path.length >= path.length)) continue
    best = { path, token: `${decodeURIComponent(username)}:${decodeURIComponent(password)}` }
  }
  return best?.token ?? null
}
