/** The files of a folder as an upload of a deployment (decision 054). */
import { execFileSync } from 'node:child_process'
import { lstatSync, readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { Readable } from 'node:stream'
import { create } from 'tar'
import { openProgress } from '../terminal/progress.js'
import { UserError } from '../user-error.js'
import { type Client, refusal, UNREACHABLE } from './client.js'

export interface Files {
  folder: string
  /** Paths below the folder. */
  paths: string[]
  /** The sum of their sizes. */
  bytes: number
  /** Files that are left out although one might expect them. */
  notes: string[]
}

/** Left out of a folder that git does not track: they are made again, or are nobody else's. */
const LEFT_OUT = new Set(['node_modules', '.git', '.venv', '__pycache__', '.weft', '.langgraph_api', '.env'])
const MAX_LIST = 256 * 1024 * 1024

/** The files that git tracks or does not ignore; without git all but the usual. Throws a UserError when there are none. */
export function filesOf(folder: string, config: string): Files {
  const listed = ofGit(folder, config) ?? [...walk(folder, folder)]
  const paths: string[] = []
  const links: string[] = []
  let bytes = 0
  for (const path of listed) {
    // Git lists files that were deleted, and folders of other repositories.
    const found = lstatSync(join(folder, path), { throwIfNoEntry: false })
    if (found?.isSymbolicLink()) links.push(path)
    if (!found?.isFile()) continue
    paths.push(path)
    bytes += found.size
  }
  if (!paths.includes(config))
    throw new UserError(`git ignores ${config} in ${folder}: it must be among the files that are uploaded`, 2)
  const notes = links.length > 0 ? [`note: links are not uploaded: ${links.slice(0, 5).join(', ')}`] : []
  const env = envFileOf(join(folder, config))
  if (env !== null && !paths.includes(env) && lstatSync(join(folder, env), { throwIfNoEntry: false }))
    notes.push(`note: ${env} is not uploaded: give its values with --secret`)
  return { folder, paths: paths.sort(), bytes, notes }
}

/** Uploads them for a revision of the deployment; resolves to the path that names the upload. Throws a Refused. */
export async function upload(client: Client, deployment_id: string, { folder, paths, bytes }: Files): Promise<string> {
  const { upload_url, object_path, upload_headers } = await client.ask<{
    upload_url: string
    object_path: string
    upload_headers?: { [name: string]: string }
  }>('POST', `/v2/deployments/${deployment_id}/upload-url`)
  const progress = openProgress('uploading')
  let packed = 0
  const onWriteEntry = ({ size = 0, path }: { size?: number | undefined; path: string }) => {
    progress.update((packed += size), bytes, path)
  }
  const archive = create({ gzip: true, cwd: folder, portable: true, noMtime: true, onWriteEntry }, paths)
  const answer = await fetch(new URL(upload_url, client.url), {
    method: 'PUT',
    headers: upload_headers ?? {},
    body: Readable.toWeb(Readable.from(archive)) as ReadableStream,
    duplex: 'half',
  } as RequestInit)
    .catch(({ message, cause }: Error & { cause?: { message?: string } }) => {
      throw new UserError(`the upload broke off (${cause?.message ?? message}): try again`, UNREACHABLE)
    })
    .finally(() => progress.stop())
  const text = await answer.text()
  if (!answer.ok) throw refusal(client.url, answer.status, text)
  return object_path
}

/** Null when git does not know the folder, or does not track the application. */
function ofGit(folder: string, config: string): string[] | null {
  const git = (...args: string[]) =>
    execFileSync('git', args, {
      cwd: folder,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
      maxBuffer: MAX_LIST,
    })
  try {
    git('ls-files', '--error-unmatch', config)
    return git('ls-files', '-z', '--cached', '--others', '--exclude-standard', '--deduplicate')
      .split('\0')
      .filter(Boolean)
  } catch {
    return null
  }
}

function* walk(top: string, folder: string): Generator<string> {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (LEFT_OUT.has(entry.name)) continue
    const path = join(folder, entry.name)
    if (entry.isDirectory()) yield* walk(top, path)
    else yield relative(top, path)
  }
}

/** The file of variables that a langgraph.json names, as a path below its folder. */
function envFileOf(config: string): string | null {
  try {
    const { env } = JSON.parse(readFileSync(config, 'utf8')) as { env?: unknown }
    return typeof env === 'string' ? env.replace(/^\.\//, '') : null
  } catch {
    // The build says what is wrong with it.
    return null
  }
}
