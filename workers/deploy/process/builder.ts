/**
 * Builds the source of a revision into an artefact on this machine's disk (docs/spec/control-plane.md#process-driver):
 * fetch, install, build, probe. Each attempt has its own folder. A finished artefact is found again by its key.
 */
import { hash } from 'node:crypto'
import { chmod, mkdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { DeployTask, Graph } from '../../../schemas/deploy-calls.js'
import { readDescription } from '../../../schemas/description.js'
import { openRedactor } from '../../../schemas/redact.js'
import { programOf, textOf } from '../../child/languages.js'
import { isBelow } from '../../child/paths.js'
import { buildIn } from '../../child/sandbox.js'
import { readerFor } from '../../child/user-file.js'
import { erase, give, makeFor } from '../../child/user-tree.js'
import { findUv, UV_VERSION } from '../../child/uv.js'
import { pipSettings } from '../../child/wheel.js'
import type { Step } from '../driver.js'
import { Fault, retry, Stopped, throwIfStopped } from '../fault.js'
import { abortedWithin } from '../wait.js'
import { type Artefacts, keyOf, writeDurably } from './artefacts.js'
import { describe } from './describe.js'
import { hostEnv } from './environment.js'
import { fetchSource } from './fetch.js'
import { buildEnv, runBuild, runInstall } from './install.js'
import type { ProcessOptions } from './options.js'
import { javascriptProbe, probe, pythonProbe } from './probe.js'
import { findBase, interpreterOf } from './python.js'
import { sizeOf } from './size.js'
import { fetchUpload } from './upload.js'

const FETCH_RETRIES = [5_000, 15_000, 45_000]
const INSTALL_RETRIES = [10_000, 30_000]
const BUILD_RETRIES = [10_000]
const MAX_ATTEMPTS = 3
/** All stages of a build, with their retries. */
const WHOLE_MS = 30 * 60_000

interface Attempts {
  revision_id: string
  n: number
}

interface Builder {
  /** Calls `onCommit` with the fetched commit before it installs anything. Throws a Fault. */
  build(step: Step, onCommit: (commit: string) => Promise<void>): Promise<{ artefact: string }>
  /** Removes the folders of a stopped build. */
  clear(deployment_id: string): Promise<void>
  /** Removes everything of a deleted deployment. */
  forget(deployment_id: string): Promise<void>
}

/** Begin of the marks of all builds in this folder. */
export const markOf = (folder: string): string => `${hash('sha256', folder).slice(0, 24)}.`

export function openBuilder(
  { folder, config, ours, versions, sources, uploads, user, sandboxes, node, build_ms = WHOLE_MS }: ProcessOptions,
  artefacts: Artefacts,
): Builder {
  /** Variables that installs and builds inherit. */
  const passed = config.build_env.split(',').map(name => name.trim())
  const runtime = `weft ${versions.weft} langgraph ${versions.langgraph} node ${node.modules} ${process.platform}-${process.arch}`

  async function build(step: Step, onCommit: (commit: string) => Promise<void>) {
    const limited = abortedWithin(build_ms, step.signal)
    try {
      return await buildUntil(limited.signal, step, onCommit)
    } catch (error) {
      if (!(error instanceof Stopped) || step.signal.aborted || !limited.signal.aborted) throw error
      throw new Fault(`build: its stages and their retries did not end within ${build_ms / 60_000} min`)
    } finally {
      limited.clear()
    }
  }

  async function buildUntil(signal: AbortSignal, step: Step, onCommit: (commit: string) => Promise<void>) {
    const { task } = step
    const { source_config } = task.deployment
    const { repo_ref, graph_config_path } = task.revision.source_revision_config
    const { install_command, build_command } = task.revision
    const say = step.log('build')
    const warn = (line: string) => say('WARNING', line)
    const attemptsFolder = join(folder, 'work', task.deployment_id)
    // An earlier attempt, under another epoch, may have left a folder.
    await erase(attemptsFolder)
    const attempts = await countAttempt(task)
    if (attempts > MAX_ATTEMPTS)
      throw new Fault(
        `build: the deploy worker ended ${MAX_ATTEMPTS} times while it built this; is the build too large?`,
      )
    const work = join(attemptsFolder, `${task.epoch}`)
    const home = join(folder, 'home', task.deployment_id)
    const temporary = join(work, 'tmp')
    // Closed to the user until it is theirs.
    await mkdir(attemptsFolder, { recursive: true })
    await mkdir(work, { mode: 0o700 })
    await mkdir(temporary)
    if (user === null) await mkdir(home, { recursive: true })
    else await makeFor(user, home)
    const mark = `${markOf(folder)}${task.revision_id}.${task.epoch}`
    try {
      const wanted = { url: source_config.repo_url ?? '', ref: repo_ref ?? '', commit: task.repo_commit_sha }
      const isUpload = task.deployment.source === 'internal_source'
      say('INFO', isUpload ? 'fetch: the upload' : `fetch: ${wanted.url} ${wanted.ref}`)
      const redactor = openRedactor([...Object.values(task.env), ...passed.flatMap(name => ours[name] ?? [])])
      const fetched = await retry(FETCH_RETRIES, signal, warn, async () => {
        await erase(join(work, 'tree'))
        if (isUpload) {
          const most = config.build_disk_mb * 1024 ** 2
          return fetchUpload({ task, uploads, work, most }, signal, say)
        }
        const access = { secrets: task.env, files: config }
        const certificates = ours.SSL_CERT_FILE
        const given = { ...wanted, work, path: ours.PATH ?? '', sources, access, certificates, redactor, mark }
        return fetchSource(given, signal, say)
      })
      if (fetched.commit !== null && fetched.commit !== task.repo_commit_sha) await onCommit(fetched.commit)
      const { tree } = fetched
      const described = await describe(tree, graph_config_path ?? 'langgraph.json')
      const { file, folder: inner, languages } = described
      const base = described.python === null ? null : await findBase(described.python)
      const key = keyOf({
        deployment_id: task.deployment_id,
        content: fetched.content,
        repo: wanted.url,
        config: file,
        install_command,
        build_command,
        runtime: base === null ? runtime : `${runtime} python ${base.python} ${base.file}`,
      })
      if ((await artefacts.find(key)) !== null) {
        say('INFO', `artefact ${key} exists already`)
        return { artefact: key }
      }
      const facts = isUpload ? null : { repo: wanted.url, ref: wanted.ref, commit: fetched.commit }
      const given = buildEnv(ours, { home, temporary, mark, more: passed, facts })
      const tools = [node.path, base?.program ?? '', join(folder, 'tools', `uv-${UV_VERSION}`, 'uv')]
      const box =
        sandboxes &&
        buildIn(sandboxes.build, { writable: [tree, home, temporary], programs: tools, named: passed }, given)
      /** Files of the application are read in this folder only. */
      const within = sandboxes === null ? undefined : tree
      const env = box?.env ?? given
      const limit = {
        folders: [work, home],
        bytes: config.build_disk_mb * 1024 ** 2,
        hint: 'WEFT_BUILD_DISK_MB allows more',
      }
      const uv = async (log: (line: string) => void) => {
        // An earlier build may have made links of what is in its home.
        const outside = (path: string) => (isBelow(path, home) ? null : textOf(path))
        const read = box === null ? await readerFor(user, read => pipSettings(env, read)) : outside
        return findUv({ env, cache: join(folder, 'tools'), fetches: config.fetch_uv, log, read })
      }
      // On PATH there may be a script that no sandbox contains.
      const used = base !== null && box !== null ? { ...base, file: base.program } : base
      const python = used === null ? null : { ...described.python!, base: used, findUv: uv }
      const building = {
        tree,
        folder: inner,
        install_command,
        build_command,
        python,
        env,
        redactor,
        limit,
        boxed: box?.start,
        within,
        user,
      }
      if (user !== null) {
        for (const each of [tree, temporary]) await give(user, each)
        // The folder stays ours: what is in it keeps its name, however the user changes its content from here on.
        for (const each of [attemptsFolder, work]) await chmod(each, 0o711)
      }
      await retry(INSTALL_RETRIES, signal, warn, () => runInstall(building, signal, say))
      await retry(BUILD_RETRIES, signal, warn, () => runBuild(building, signal, say))
      const size = sizeOf(source_config.resource_spec, config)
      const app = join(tree, file)
      const { memory_mb } = size
      const variables = hostEnv({ ours, config }, task, task.env)
      const interpreter = python === null ? null : interpreterOf(python)
      const read = await readerFor(user, read => readDescription({ path: app, env: variables, read }), within)
      const programs = languages.map(language =>
        language === 'javascript'
          ? javascriptProbe(node.path, memory_mb)
          : pythonProbe(
              programOf(language, {
                app,
                env: variables,
                memory_mb,
                node: node.path,
                python: interpreter,
                threads: config.host_threads,
                read,
              }),
            ),
      )
      const sandbox = sandboxes && { ...sandboxes.probe, deployed: { tree, python: base?.program ?? null } }
      const loaded: Graph[] = []
      for (const program of programs)
        loaded.push(...(await probe({ app, env: variables, program, redactor, user, sandbox, mark }, signal, say)))
      say('INFO', `probe: ${loaded.map(graph => graph.graph_id).join(', ')} can be loaded`)
      throwIfStopped(signal)
      await artefacts.keep(key, tree, file)
      say('INFO', `artefact ${key}`)
      return { artefact: key }
    } finally {
      await erase(attemptsFolder)
    }
  }

  /** Counts the attempts to build this revision: a build that ends its worker must not be repeated without limit. */
  async function countAttempt({ deployment_id, revision_id, stage }: DeployTask): Promise<number> {
    const file = join(folder, 'tries', `${deployment_id}.json`)
    await mkdir(join(folder, 'tries'), { recursive: true })
    const last = await readFile(file, 'utf8').then(
      text => JSON.parse(text) as Attempts,
      () => null,
    )
    const n = stage === 'BUILDING' && last?.revision_id === revision_id ? last.n + 1 : 1
    await writeDurably(file, JSON.stringify({ revision_id, n } satisfies Attempts))
    return n
  }

  async function clear(deployment_id: string): Promise<void> {
    await erase(join(folder, 'work', deployment_id))
    await rm(join(folder, 'tries', `${deployment_id}.json`), { force: true })
  }

  return {
    build,
    clear,
    async forget(deployment_id) {
      await clear(deployment_id)
      await erase(join(folder, 'home', deployment_id))
    },
  }
}
