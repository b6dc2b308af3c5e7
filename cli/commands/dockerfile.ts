/**
 * `weft dockerfile`: the Dockerfile of an application, on top of the image for one machine. The packages are installed in the
 * image, by the commands that deployments use. Its context is the folder of langgraph.json, or one above when the
 * application needs more.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, relative, resolve, sep } from 'node:path'
import type { Description } from '../../schemas/description.js'
import { usesPython } from '../../schemas/description.js'
import { isObject } from '../../schemas/json.js'
import { type InstallStep, stepsFor, wantedVersion } from '../../workers/child/python-install.js'
import { detect } from '../../workers/deploy/process/install.js'
import { findMissing } from '../../workers/deploy/process/managers.js'
import { root } from '../root.js'
import { UserError } from '../user-error.js'
import { describeApplication } from './application.js'

export interface ImagePlan {
  /** The folder that the image is built from. */
  context: string
  dockerfile: string
  /** Patterns of files that stay out, unless the context has a .dockerignore. */
  ignored: string
}

export interface DockerfileFlags {
  app: string
  baseImage?: string
}

const IGNORED = [
  '.git',
  '**/node_modules',
  '**/.venv',
  '**/__pycache__',
  '**/.weft',
  '**/.env',
  '**/.env.*',
  '**/*.log',
]
/** In the image: Weft's own Node.js, and the one that runs graphs. */
const NODES: { readonly [line: string]: string } = { 22: '/usr/local/bin', 24: '/opt/node-24/bin' }
const APP = '/app'

/** Writes the Dockerfile and, beside it, the list of what stays out of the image. */
export async function writeDockerfile(path: string, flags: DockerfileFlags): Promise<void> {
  const { context, dockerfile, ignored } = await planImage(flags)
  writeFileSync(path, dockerfile)
  const patterns = `${path}.dockerignore`
  if (!existsSync(join(context, '.dockerignore'))) writeFileSync(patterns, ignored)
  const shown = relative(process.cwd(), context) || '.'
  process.stdout.write(`wrote ${path}; build it: docker build -f ${path} -t my-app ${shown}\n`)
}

export async function planImage({ app, baseImage }: DockerfileFlags): Promise<ImagePlan> {
  const description = describeApplication(app)
  const { folder, given, path } = description
  const context = commonFolder([folder, ...neededFolders(description)])
  const inImage = (file: string) => [APP, ...relative(context, file).split(sep)].filter(part => part !== '').join('/')
  const node = nodeOf(given.node_version)
  const lines = [
    `# The application of ${relative(context, path)}, made by Weft ${versionOfWeft()} (weft dockerfile).`,
    `FROM ${baseOf(given.base_image, baseImage)}`,
  ]
  const own = linesOf(given.dockerfile_lines)
  if (own.length > 0) lines.push('USER root', ...own, 'USER 10001:10001')
  lines.push(`COPY --chown=10001:10001 . ${APP}`, `WORKDIR ${inImage(folder)}`)
  for (const step of await javascriptSteps(context, folder))
    lines.push(`RUN cd ${quote(inImage(step.cwd))} && PATH=${node}:$PATH ${step.words.map(quote).join(' ')}`)
  if (usesPython(description))
    for (const { words, env } of pythonSteps(description)) {
      const variables = Object.entries(env).map(([name, value]) => `${name}=${quote(rewritten(value))}`)
      lines.push(`RUN ${[...variables, ...words.map(word => quote(rewritten(word)))].join(' ')}`)
    }
  lines.push(`ENV WEFT_APP=${inImage(path)} WEFT_HOST_NODE=${node}/node`)
  return { context, dockerfile: `${lines.join('\n')}\n`, ignored: `${IGNORED.join('\n')}\n` }

  /** A path of this machine as that of the image. */
  function rewritten(word: string): string {
    const isInside = word === context || word.startsWith(context + sep)
    return isInside ? inImage(word) : word
  }
}

function versionOfWeft(): string {
  return (JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }).version
}

/** Images of the platform have another server in them. */
function baseOf(given: unknown, flag: string | undefined): string {
  if (flag !== undefined) return flag
  if (typeof given === 'string' && !/(^|\/)langchain\/langgraph/.test(given)) return given
  return `weft:${versionOfWeft()}`
}

function nodeOf(wanted: unknown): string {
  const line = wanted === undefined || wanted === null ? '24' : `${wanted}`.split('.')[0]!
  // The line 20 is past its end.
  const node = NODES[line === '20' ? '22' : line]
  if (node === undefined)
    throw new UserError(
      `langgraph.json wants Node.js ${line}, and the image has ${Object.keys(NODES).join(' and ')}`,
      2,
    )
  return node
}

function linesOf(given: unknown): string[] {
  if (given === undefined || given === null) return []
  if (!Array.isArray(given) || given.some(line => typeof line !== 'string'))
    throw new UserError('langgraph.json: dockerfile_lines must be a list of lines', 2)
  return given as string[]
}

interface UvSource {
  /** The folder of uv.lock. */
  project: string
  package: string | null
}

/** `source`: a project of uv whose lock file decides what is installed. Null: `dependencies` says it. */
function uvSource({ folder, given: { source } }: Description): UvSource | null {
  if (source === undefined || source === null) return null
  const { kind, root: at = '.', package: name = null } = isObject(source) ? source : { kind: source }
  if (kind !== 'uv' || typeof at !== 'string' || (name !== null && typeof name !== 'string'))
    throw new UserError('langgraph.json: source must be "uv", or an object with "kind": "uv", "root" and "package"', 2)
  const project = resolve(folder, at)
  if (!existsSync(join(project, 'uv.lock')))
    throw new UserError(`langgraph.json: source is uv, and ${project} has no uv.lock: run uv lock there`, 2)
  return { project, package: name }
}

function neededFolders(description: Description): string[] {
  const { folder, given } = description
  const dependencies = Array.isArray(given.dependencies) ? given.dependencies.map(String) : []
  const source = uvSource(description)
  const locals = dependencies.filter(one => one.startsWith('.')).map(one => resolve(folder, one))
  return source === null ? locals : [...locals, source.project]
}

function commonFolder([first, ...others]: string[]): string {
  let common = first!
  for (const other of others) while (other !== common && !other.startsWith(join(common, sep))) common = dirname(common)
  return common
}

function pythonSteps(description: Description): InstallStep[] {
  const { folder, given } = description
  const target = join(folder, '.venv')
  const wanted = wantedVersion(description)
  const { pip_config_file: config } = given
  const base = { file: wanted === null ? 'python3' : `python${wanted}`, python: wanted ?? '3' }
  const install = wanted === null ? [] : [{ words: ['uv', 'python', 'install', wanted] as const, env: {} }]
  // uv does not read the settings of pip.
  if (typeof config === 'string') {
    const steps = stepsFor(description, { base, target, editable: true, uv: null })
    return [...install, ...steps.map(({ words }) => ({ words, env: { PIP_CONFIG_FILE: resolve(folder, config) } }))]
  }
  const uv = { file: 'uv', env: { UV_NO_CACHE: '1' } }
  const source = uvSource(description)
  if (source === null) return [...install, ...stepsFor(description, { base, target, editable: true, uv })]
  const needs = { folder, given: { ...given, dependencies: [] } }
  const [venv, ...rest] = stepsFor(needs, { base, target, editable: true, uv })
  const sync: InstallStep = {
    words: [
      ...(['uv', 'sync', '--frozen', '--no-dev', '--inexact', '--project', source.project] as const),
      ...(source.package === null ? [] : ['--package', source.package]),
    ],
    env: { ...uv.env, UV_PROJECT_ENVIRONMENT: target },
  }
  return [...install, venv!, sync, ...rest]
}

async function javascriptSteps(context: string, folder: string): Promise<{ cwd: string; words: string[] }[]> {
  const plan = await detect({ tree: context, folder, user: null })
  if (plan === null) return []
  const [manager = 'npm', ...rest] = plan.words
  const manifest = join(plan.cwd, 'package.json')
  const declared = existsSync(manifest) ? (JSON.parse(readFileSync(manifest, 'utf8')).packageManager ?? '') : ''
  const missing = await findMissing({ manager, cwd: plan.cwd, declared, env: { PATH: '' }, user: null })
  if (missing === null) return [plan]
  return [{ cwd: plan.cwd, words: ['npx', '--yes', '--package', missing.package, manager, ...rest] }]
}

/** Quotes the text as one word of a shell. */
const quote = (text: string): string => (/^[\w./:@%+,=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`)
