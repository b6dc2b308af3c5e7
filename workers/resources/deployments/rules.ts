/**
 * The rules for the values of a deployment (docs/spec/control-plane.md#rules-by-source), beyond the types of its
 * members. Wrong forms and ranges are problems (422); members of the other source are refused with one sentence (400).
 */
import { isAbsolute, normalize, resolve } from 'node:path'
import {
  CLUSTER_ONLY,
  type DeploymentPatch,
  IMAGE_REFERENCE,
  type ResourceSpec,
  type Secret,
  type SecretReference,
  type Source,
  type SourceConfig,
  type SourceConfigInput,
  type SourceRevisionConfig,
  type SourceRevisionConfigInput,
} from '../../../schemas/deployments.js'
import { fail, InvalidFields, type Problem } from '../../../schemas/errors.js'
import { type Allowed, refusal } from '../../outbound.js'
import type { Deps } from '../context.js'
import { specProblems } from './resource-spec.js'

const MAX_SECRET = 32 * 1024
const MAX_SECRETS = 512 * 1024

/** Throws InvalidFields with all mistakes of form in a body of POST or PATCH. */
export function checkForm(body: DeploymentPatch): void {
  const problems = formProblems(body)
  if (problems.length > 0) throw new InvalidFields(problems)
}

/** Throws bad_request when a rule of the source or of the operator refuses the values. */
export function checkValues(values: DeploymentValues, deps: Deps): void {
  throwIfRefused(refusalOf(values, policyOf(deps)))
}

/** Checks the variables of a revision. `all`: the names of all its secrets, when they are more than the given ones. */
export function checkVariables(
  source: Source,
  given: readonly Secret[],
  references: readonly SecretReference[],
  all: readonly string[] = given.map(({ name }) => name),
): void {
  throwIfRefused(reservedRefusal([...given, ...references].map(({ name }) => name)))
  if (source !== 'external_docker' && references.length > 0)
    throw fail('bad_request', `secret_references must be empty for source ${source}`)
  const duplicate = references.find(({ name }) => all.includes(name))
  if (duplicate !== undefined) throw fail('bad_request', `${duplicate.name} is a secret and a reference: give it once`)
}

function throwIfRefused(sentence: string | null): void {
  if (sentence !== null) throw fail('bad_request', sentence)
}

/** The operator's settings for sources. */
const policyOf = ({ allowed, config }: Deps): Policy => ({
  allowed,
  local_sources: config.local_sources
    .split(',')
    .flatMap(folder => (folder.trim() === '' ? [] : resolve(folder.trim()))),
})

/** All mistakes of form in a body of POST or PATCH. */
export function formProblems(body: DeploymentPatch): Problem[] {
  const problems: Problem[] = []
  const say = (loc: (string | number)[], msg: string, type = 'value_error') =>
    void problems.push({ loc: ['body', ...loc], msg, type })
  const { source_config, source_revision_config, secrets, secret_references } = body
  if (source_config) configProblems(source_config, (name, msg) => say(['source_config', name], msg))
  if (source_config?.resource_spec)
    for (const { loc, msg } of specProblems(source_config.resource_spec))
      say(['source_config', 'resource_spec', ...loc], msg)
  if (source_revision_config)
    revisionProblems(source_revision_config, (name, msg) => say(['source_revision_config', name], msg))
  if (secrets) secretProblems(secrets, say)
  const names = new Set(secrets?.map(({ name }) => name))
  for (const [i, { name }] of (secret_references ?? []).entries()) {
    if (names.has(name)) say(['secret_references', i, 'name'], 'expected a name that is given once')
    names.add(name)
  }
  return problems
}

type Say = (name: string, msg: string) => void

function configProblems({ repo_url, custom_url }: SourceConfigInput, say: Say): void {
  if (repo_url) {
    const reason = repoProblem(repo_url)
    if (reason !== null) say('repo_url', reason)
  }
  if (custom_url) {
    const url = parse(custom_url)
    if (url === null || !/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '')
      say('custom_url', 'expected an absolute http or https URL without user and password')
  }
}

const parse = (text: string): URL | null => {
  try {
    return new URL(text)
  } catch {
    return null
  }
}

/** `git@host:path`: it has no scheme, so it is not a URL. */
const SCP = /^[A-Za-z0-9][A-Za-z0-9._-]*@[A-Za-z0-9][A-Za-z0-9.-]*:(?!\/\/)[^\s:][^\s]*$/

/** Null for the form of a repository's address, else the problem. */
function repoProblem(text: string): string | null {
  if (/[\x00-\x20\x7f]/.test(text) || text.startsWith('-'))
    return 'expected no spaces, control characters or leading "-"'
  if (isAbsolute(text) || SCP.test(text)) return null
  const url = parse(text)
  if (url === null || !/^(https?|ssh|file):$/.test(url.protocol))
    return 'expected an https:// or ssh:// URL, git@host:path, or a local path'
  if (url.password !== '' || (url.username !== '' && url.protocol !== 'ssh:'))
    return 'expected a URL without credentials'
  return null
}

/** The same text for all addresses of a repository: its host and path, without user, port and `.git`. */
export function repositoryOf(text: string): string {
  const [, host, path] = /^[^@/]+@([^:/]+):(.*)$/.exec(text) ?? []
  const url = host === undefined ? parse(text) : null
  const whole = host === undefined ? `${url?.hostname ?? ''}/${url?.pathname ?? text}` : `${host}/${path}`
  return whole
    .toLowerCase()
    .replace(/\/{2,}/g, '/')
    .replace(/(\.git)?\/?$/, '')
}

const REF = /^(?!-|\/|.*(\/\/|\/\.|\.\.|@\{|\.lock(\/|$)))[^\x00-\x20\x7f~^:?*[\\]+(?<![./])$/
function revisionProblems(config: SourceRevisionConfigInput, say: Say): void {
  const { repo_ref, graph_config_path, langgraph_config_path, image_uri } = config
  if (repo_ref && !REF.test(repo_ref))
    say('repo_ref', 'expected a branch, refs/tags/<name>, refs/heads/<name> or a commit')
  if (graph_config_path && langgraph_config_path && graph_config_path !== langgraph_config_path)
    say('langgraph_config_path', 'expected the same as graph_config_path')
  for (const name of ['graph_config_path', 'langgraph_config_path'] as const) {
    const path = config[name]
    if (path && (/[\x00-\x1f\x7f\\]/.test(path) || /^[-/]/.test(path) || path.split('/').includes('..')))
      say(name, 'expected a path relative to the root of the repository, without ".."')
  }
  if (image_uri && !IMAGE_REFERENCE.test(image_uri)) say('image_uri', 'expected [registry/]name[:tag][@sha256:digest]')
}

function secretProblems(secrets: readonly Secret[], say: (loc: (string | number)[], msg: string) => void): void {
  const names = new Set<string>()
  let total = 0
  for (const [i, { name, value }] of secrets.entries()) {
    const size = Buffer.byteLength(value)
    total += size
    if (names.has(name)) say(['secrets', i, 'name'], 'expected a name that is given once')
    if (size > MAX_SECRET) say(['secrets', i, 'value'], 'expected at most 32 KiB')
    if (value.includes('\0')) say(['secrets', i, 'value'], 'expected no NUL character')
    names.add(name)
  }
  if (total > MAX_SECRETS) say(['secrets'], 'expected at most 512 KiB in all')
}

/**
 * Variables that the platform sets for a deployment (docs/spec/control-plane.md#variables). Two are for its source, not
 * its application.
 */
const RESERVED =
  /^(PATH|PORT|HOST|HOSTNAME|MOUNT_PREFIX|NATS_URL|MONGODB_URL|DATABASE_URI|POSTGRES_URI|WEFT_(?!GIT_(?:TOKEN|SSH_KEY)$).*|LANGSMITH_(HOST_PROJECT_ID|HOST_REVISION_ID|TENANT_ID|DEPLOYMENT_NAME|LANGGRAPH_GIT_(REPO|REF|REF_SHA)))$/
/** Characters that a plain command does not have: quotes, pipes, redirections, variables. */
const COMMAND = /["`\\\n\r\0\t|;$>]|<|(?<!&)&(?!&)|&&&/

interface DeploymentValues {
  source: Source
  source_config: SourceConfig
  source_revision_config: SourceRevisionConfig
}

/** The operator's decisions about sources. */
interface Policy {
  allowed: Allowed
  /** Absolute folders. */
  local_sources: readonly string[]
}

/** Null, or the sentence that refuses these values for this source (docs/spec/control-plane.md#rules-by-source). */
export function refusalOf(
  { source, source_config, source_revision_config }: DeploymentValues,
  policy: Policy,
): string | null {
  const foreign = FOREIGN[source].find(name => source_config[name] !== null && source_config[name] !== false)
  if (foreign !== undefined) return `source_config.${foreign} must be null for source ${source}`
  const other = FOREIGN_OF_REVISIONS[source].find(name => (source_revision_config[name] ?? null) !== null)
  if (other !== undefined) return `source_revision_config.${other} must be null for source ${source}`
  const missing = REQUIRED[source].find(name => source_revision_config[name] === null)
  if (missing !== undefined) return `source_revision_config.${missing} is required for source ${source}`
  const sentence =
    source === 'external_docker'
      ? imageRefusal(source_config)
      : (buildRefusal(source, source_config) ??
        (source === 'github' ? gitRefusal(source_config, source_revision_config, policy) : null))
  return sentence ?? scaleRefusal(source, source_config.resource_spec)
}

function imageRefusal({ resource_spec, listener_id }: SourceConfig): string | null {
  if (resource_spec === null)
    return 'source_config.resource_spec is required for source external_docker; {} takes all defaults'
  return listener_id === null ? null : 'source_config.listener_id names no listener of this workspace'
}

/** For sources that are built. */
function buildRefusal(source: Source, config: SourceConfig): string | null {
  for (const name of ['install_command', 'build_command'] as const)
    if (config[name] !== null && COMMAND.test(config[name]))
      return `source_config.${name} must be a plain command, or several joined by &&: without quotes, pipes, redirections, variables and the like`
  const unavailable = CLUSTER_ONLY.find(name => isGiven(config.resource_spec?.[name]))
  return unavailable === undefined
    ? null
    : `source_config.resource_spec.${unavailable} is not available for source ${source}`
}

function gitRefusal(
  { repo_url, build_on_push }: SourceConfig,
  { repo_ref }: SourceRevisionConfig,
  policy: Policy,
): string | null {
  if (repo_url === null) return 'source_config.repo_url is required for source github'
  if (build_on_push === true && repo_ref?.startsWith('refs/tags/'))
    return 'source_config.build_on_push must not be true when repo_ref is a tag'
  return repoRefusal(repo_url, policy)
}

/** Members that only other sources have. */
const FOREIGN: { readonly [source in Source]: readonly (keyof SourceConfig)[] } = {
  github: ['listener_id', 'listener_config'],
  external_docker: [
    'integration_id',
    'repo_url',
    'deployment_type',
    'build_on_push',
    'install_command',
    'build_command',
  ],
  internal_source: ['integration_id', 'repo_url', 'build_on_push', 'listener_id', 'listener_config'],
}
const FOREIGN_OF_REVISIONS: { readonly [source in Source]: readonly (keyof SourceRevisionConfig)[] } = {
  github: ['image_uri', 'source_tarball_path'],
  external_docker: ['repo_ref', 'graph_config_path', 'source_tarball_path'],
  internal_source: ['repo_ref', 'image_uri'],
}
/** A deployment of source internal_source exists before its source is uploaded. */
const REQUIRED: { readonly [source in Source]: readonly (keyof SourceRevisionConfig)[] } = {
  github: ['repo_ref', 'graph_config_path'],
  external_docker: ['image_uri'],
  internal_source: [],
}

const isGiven = (value: unknown): boolean =>
  value !== null && value !== undefined && !(Array.isArray(value) && value.length === 0)

/** A deployment that is built here may have no worker while it has no work, but not for ever. */
function scaleRefusal(source: Source, spec: ResourceSpec | null): string | null {
  if (spec === null) return null
  if (source !== 'external_docker')
    return spec.max_scale === 0 || spec.queue_max_scale === 0
      ? 'source_config.resource_spec.max_scale and queue_max_scale must be at least 1: a worker must be able to start'
      : null
  return spec.min_scale === 0 || spec.max_scale === 0
    ? 'source_config.resource_spec.min_scale and max_scale must be at least 1 for source external_docker'
    : null
}

/** Null, or the sentence that refuses the address by the operator's settings. */
function repoRefusal(text: string, { allowed, local_sources }: Policy): string | null {
  const url = SCP.test(text) || isAbsolute(text) ? null : parse(text)
  if (isAbsolute(text) || url?.protocol === 'file:') {
    const path = normalize(url === null ? text : decodeURIComponent(url.pathname))
    const below = local_sources.some(folder => path === folder || path.startsWith(`${folder}/`))
    return below ? null : 'source_config.repo_url is a local path, and not below a folder of WEFT_LOCAL_SOURCES'
  }
  if (url?.protocol === 'http:' && !allowed.hosts.has(url.hostname) && !allowed.hosts.has(url.host))
    return 'source_config.repo_url must be https; WEFT_ALLOW_HOSTS names the hosts where http is enough'
  const reason = url === null || url.protocol === 'ssh:' ? null : refusal(text, allowed)
  return reason === null ? null : `source_config.repo_url cannot be used: ${reason}; WEFT_ALLOW_HOSTS opens other hosts`
}

/** Null, or the sentence that refuses a name which the platform sets itself. */
export function reservedRefusal(names: readonly string[]): string | null {
  const taken = names.find(name => RESERVED.test(name))
  return taken === undefined ? null : `the variable ${taken} is set by the platform: it cannot be a secret`
}
