/**
 * `weft deploy`: makes a deployment of a folder, or a revision of it, through the control plane, and follows the build
 * and the rollout. The files of the folder are uploaded; with --repo the server fetches a repository.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { basename, join, relative, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isLoopback } from '../../schemas/loopback.js'
import { paint } from '../terminal/text.js'
import { UserError } from '../user-error.js'
import { type Client, type ClientFlags, openClient } from './client.js'
import { filesOf, upload } from './upload.js'

interface DeployFlags extends ClientFlags {
  name?: string
  repo?: string
  ref?: string
  config?: string
  secret: string[]
  data: string
  wait: boolean
}

interface Deployment {
  id: string
  name: string
  source: string
  latest_revision_id: string
  source_config: { custom_url: string | null; repo_url?: string | null }
}
interface Revision {
  id: string
  status: string
  status_message: string | null
}
interface LogLine {
  id: string
  timestamp: number
  level: string
  message: string
}

const POLL_MS = 1_000
const FAILED = ['CREATE_FAILED', 'BUILD_FAILED', 'DEPLOY_FAILED', 'SKIPPED', 'INTERRUPTED', 'UNKNOWN']

export async function deploy(given: string, flags: DeployFlags): Promise<void> {
  const folder = resolve(given)
  const client = openClient({ ...flags, key: flags.key ?? controlKey(flags) })
  const config = relative(folder, resolve(folder, flags.config ?? 'langgraph.json'))
  if (config.startsWith('..'))
    throw new UserError(`--config ${flags.config} is not in ${folder}: name the folder that holds all files`, 2)
  if (!existsSync(join(folder, config)))
    throw new UserError(`there is no ${config} in ${folder}: expected the folder of an application`, 2)
  if (flags.ref !== undefined && flags.repo === undefined)
    throw new UserError('--ref names a commit of a repository: give --repo as well', 2)
  const say = (line: string) => void process.stderr.write(`${line}\n`)
  const name = flags.name ?? basename(folder)
  // A search for an empty name finds every deployment.
  if (name === '') throw new UserError('--name must not be empty', 2)
  const { resources } = await client.ask<{ resources: Deployment[] }>(
    'GET',
    `/v2/deployments?name=${encodeURIComponent(name)}`,
  )
  const known = resources[0] ?? null
  const secrets = flags.secret.map(secretOf)
  const job: Job = { client, folder, config, name, known, secrets, say }
  const made = flags.repo === undefined ? await fromFolder(job) : await fromRepository(job, flags.repo, flags.ref)
  const revision_id = made.latest_revision_id
  const ended = flags.wait ? await follow(client, made.id, revision_id, say) : null
  const url = made.source_config.custom_url
  if (flags.json)
    process.stdout.write(
      `${JSON.stringify({ deployment_id: made.id, revision_id, status: ended?.status ?? null, url })}\n`,
    )
  else if (ended === null) say(`it is being built as revision ${revision_id}`)
  if (ended !== null && ended.status !== 'DEPLOYED')
    throw new UserError(
      `the revision ended as ${ended.status}${ended.status_message ? `: ${ended.status_message}` : ''}`,
    )
  if (ended !== null && !flags.json) process.stdout.write(`${url}\n`)
}

/** The key in the data folder opens the server of this machine only. */
function controlKey({ url, data }: DeployFlags): string | undefined {
  const file = join(data, 'control.key')
  const isHere = URL.canParse(url) && isLoopback(new URL(url).hostname)
  return isHere && existsSync(file) ? readFileSync(file, 'utf8').trim() : undefined
}

interface Job {
  client: Client
  folder: string
  /** Path of langgraph.json in the folder. */
  config: string
  name: string
  /** The deployment of that name. */
  known: Deployment | null
  secrets: { name: string; value: string }[]
  say(line: string): void
}

/** A deployment without a revision is made first: what is uploaded belongs to one. */
async function fromFolder({ client, folder, config, name, known, secrets, say }: Job): Promise<Deployment> {
  if (known !== null && known.source !== 'internal_source')
    throw new UserError(
      `the deployment "${name}" is built from ${known.source_config.repo_url ?? 'an image'}: give another --name, or that --repo`,
    )
  const files = filesOf(folder, config)
  for (const note of files.notes) say(note)
  const made = { name, source: 'internal_source', source_config: {}, source_revision_config: {}, secrets }
  const deployment = known ?? (await client.ask<Deployment>('POST', '/v2/deployments', { body: made }))
  const kb = Math.ceil(files.bytes / 1024)
  say(`${known ? 'revision' : 'deployment'} ${name}: ${files.paths.length} files of ${folder}, ${kb} kB`)
  const source_tarball_path = await upload(client, deployment.id, files)
  const source_revision_config = { graph_config_path: config, source_tarball_path }
  const body = { source_revision_config, ...(known !== null && secrets.length > 0 ? { secrets } : {}) }
  return client.ask<Deployment>('PATCH', `/v2/deployments/${deployment.id}`, { body })
}

/** `ref`: absent: the current branch of the folder. */
async function fromRepository(job: Job, repo_url: string, ref: string | undefined): Promise<Deployment> {
  const { client, folder, config, name, known, secrets, say } = job
  if (known !== null && known.source_config.repo_url !== repo_url)
    throw new UserError(
      `the deployment "${name}" is built from ${known.source_config.repo_url ?? 'uploads of its folder'}: give another --name, or ${known.source_config.repo_url ? 'that --repo' : 'no --repo'}`,
    )
  const repo_ref =
    ref ??
    git(folder, 'symbolic-ref', '--short', '-q', 'HEAD') ??
    git(folder, 'rev-parse', '-q', '--verify', 'HEAD') ??
    'main'
  const graph_config_path = `${git(folder, 'rev-parse', '--show-prefix') ?? ''}${config}`
  const source_revision_config = { repo_ref, graph_config_path }
  say(`${known ? 'revision' : 'deployment'} ${name}: ${repo_url} at ${repo_ref}`)
  if (known === null)
    return client.ask<Deployment>('POST', '/v2/deployments', {
      body: { name, source: 'github', source_config: { repo_url }, source_revision_config, secrets },
    })
  const body = { source_revision_config, ...(secrets.length > 0 ? { secrets } : {}) }
  return client.ask<Deployment>('PATCH', `/v2/deployments/${known.id}`, { body })
}

/** The output; null when git fails, or the output is empty. */
function git(folder: string, ...args: string[]): string | null {
  try {
    return (
      execFileSync('git', args, { cwd: folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim() || null
    )
  } catch {
    return null
  }
}

function secretOf(text: string): { name: string; value: string } {
  const at = text.indexOf('=')
  const name = at === -1 ? text : text.slice(0, at)
  const value = at === -1 ? process.env[name] : text.slice(at + 1)
  if (name === '' || value === undefined)
    throw new UserError(`--secret must be NAME=value, or the name of a variable that is set; "${name}" is not set`, 2)
  return { name, value }
}

/** Prints the lines of the build and the rollout until the revision has ended. */
async function follow(client: Client, id: string, revision_id: string, say: (line: string) => void): Promise<Revision> {
  const path = `/v2/deployments/${id}/revisions/${revision_id}`
  const seen = new Set<string>()
  let since = 0
  async function printNew(): Promise<void> {
    for (let cursor: string | null = null; ; ) {
      const query = `stage=build,deploy&order=asc&limit=1000&start_time=${since}${cursor ? `&cursor=${cursor}` : ''}`
      const page: { logs: LogLine[]; next_offset: string | null } = await client.ask('GET', `${path}/logs?${query}`, {
        patient: true,
      })
      for (const line of page.logs) {
        if (!seen.has(line.id)) say(`  ${line.message}`)
        seen.add(line.id)
        since = Math.max(since, line.timestamp)
      }
      cursor = page.next_offset
      if (cursor === null) return
    }
  }
  for (let before = ''; ; await sleep(POLL_MS)) {
    const revision = await client.ask<Revision>('GET', path, { patient: true })
    await printNew()
    if (revision.status !== before) say(paint(revision.status, 'cyan', process.stderr))
    before = revision.status
    if (revision.status === 'DEPLOYED' || FAILED.includes(revision.status)) return revision
  }
}
