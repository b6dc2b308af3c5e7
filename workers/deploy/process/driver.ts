/**
 * The process driver (API: control-plane 11.2): a repository is built into an artefact on this machine's disk, and
 * runs as graph workers that are children of the deploy worker. Everything here may be repeated after a crash: the
 * folder of a try is its own, an artefact is whole or absent, and what runs is compared with what should.
 */
import { mkdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Log } from '../../../bus/log.js'
import type { Config } from '../../../schemas/config.js'
import type { ActiveDeployment, EnvOf, Graph, Order } from '../../../schemas/deploy-calls.js'
import type { Driver, Step } from '../driver.js'
import { Fault, goOn, retry } from '../fault.js'
import type { RevisionLog } from '../log.js'
import { erase, keyOf, openArtefacts, writeDurably } from './artefacts.js'
import { describe } from './describe.js'
import { fetchSource } from './fetch.js'
import { build, buildEnv, install } from './install.js'
import { probe } from './probe.js'
import { openRecords } from './records.js'
import { type Replicas, startReplicas } from './replicas.js'
import { problemsOf, type Size, sizeOf } from './size.js'
import type { Sources } from './source.js'

export interface ProcessOptions {
  /** Everything of this driver lies here: artefacts, folders of builds, notes. */
  folder: string
  config: Config
  /** For the graph workers that it starts. */
  nats_url: string
  /** This process's environment, of which children get little. */
  ours: NodeJS.ProcessEnv
  sources: Sources
  versions: { weft: string; langgraph: string }
  log: Log
  logOf(ids: { deployment_id: string; revision_id: string }): RevisionLog
  env(deployment_id: string, revision_id: string): Promise<EnvOf>
  /** Nobody takes runs from this pool any more. */
  retire(pool: string): Promise<void>
}

const FETCH_AGAIN = [5_000, 15_000, 45_000]
const INSTALL_AGAIN = [10_000, 30_000]
const BUILD_AGAIN = [10_000]
const READY_MS = 10 * 60_000
const DRAIN_MS = 5 * 60_000
const MAX_TRIES = 3
/** An artefact that nothing refers to stays this long: a build may be about to take it over. */
const ARTEFACT_AGE_MS = 60 * 60_000

interface Tries {
  revision_id: string
  n: number
}

interface Running {
  deployment_id: string
  revision_id: string
  pool: string
  generation: number
  replicas: Replicas
  /** It waits for its cutover. */
  deploying: boolean
  draining: Promise<void> | null
}

export async function openProcessDriver(options: ProcessOptions): Promise<Driver> {
  const { folder, config, ours, log, versions } = options
  const artefacts = await openArtefacts(join(folder, 'artefacts'))
  const records = await openRecords(join(folder, 'deployments'))
  const running = new Map<string, Running>()
  let stopping = false
  const runtime = `weft ${versions.weft} langgraph ${versions.langgraph} node ${process.versions.modules} ${process.platform}-${process.arch}`

  // Building.

  async function buildArtefact(step: Step, onCommit: (commit: string) => Promise<void>) {
    const { order, signal } = step
    const { source_config } = order.deployment
    const { repo_ref, graph_config_path } = order.revision.source_revision_config
    const { install_command, build_command } = order.revision
    const say = step.log('build')
    const info = (line: string) => say('WARNING', line)
    const works = join(folder, 'work', order.deployment_id)
    // What an earlier try left, under another epoch.
    await erase(works)
    const tries = await countTry(order)
    if (tries > MAX_TRIES)
      throw new Fault(`build: the deploy worker ended ${MAX_TRIES} times while it built this; is the build too large?`)
    const work = join(works, `${order.epoch}`)
    const home = join(folder, 'home', order.deployment_id)
    for (const each of [work, home]) await mkdir(each, { recursive: true })
    try {
      const given = { url: source_config.repo_url ?? '', ref: repo_ref ?? '', commit: order.repo_commit_sha }
      say('INFO', `fetch: ${given.url} ${given.ref}`)
      const fetched = await retry(FETCH_AGAIN, signal, info, async () => {
        await erase(join(work, 'tree'))
        return fetchSource({ ...given, work, path: ours.PATH ?? '', sources: options.sources }, signal, say)
      })
      if (fetched.commit !== null && fetched.commit !== order.repo_commit_sha) await onCommit(fetched.commit)
      const { tree } = fetched
      const { file, folder: inner } = await describe(tree, graph_config_path ?? 'langgraph.json')
      const key = keyOf({
        content: fetched.content,
        repo: given.url,
        config: file,
        install_command,
        build_command,
        runtime,
      })
      if ((await artefacts.find(key)) !== null) {
        say('INFO', `artefact ${key} is there already`)
        return { artefact: key }
      }
      const facts = { repo: given.url, ref: given.ref, commit: fetched.commit }
      const env = buildEnv(ours, { home, more: config.build_env.split(',').map(name => name.trim()), facts })
      const building = { tree, folder: inner, install_command, build_command, env }
      await retry(INSTALL_AGAIN, signal, info, () => install(building, signal, say))
      await retry(BUILD_AGAIN, signal, info, () => build(building, signal, say))
      const size = sizeOf(source_config.resource_spec, config)
      const loaded = await probe(
        { app: join(tree, file), env: hostEnv(order, order.env), memory_mb: size.memory_mb },
        signal,
        say,
      )
      say('INFO', `probe: ${loaded.map(graph => graph.graph_id).join(', ')} can be loaded`)
      goOn(signal)
      await artefacts.keep(key, tree, file)
      say('INFO', `artefact ${key}`)
      return { artefact: key }
    } finally {
      await erase(works)
    }
  }

  /** How often the build of this revision was begun: a build that ends its worker must not be repeated for ever. */
  async function countTry({ deployment_id, revision_id, stage }: Order): Promise<number> {
    const file = join(folder, 'tries', `${deployment_id}.json`)
    await mkdir(join(folder, 'tries'), { recursive: true })
    const last = await readFile(file, 'utf8').then(
      text => JSON.parse(text) as Tries,
      () => null,
    )
    const n = stage === 'BUILDING' && last?.revision_id === revision_id ? last.n + 1 : 1
    await writeDurably(file, JSON.stringify({ revision_id, n } satisfies Tries))
    return n
  }

  // Running.

  /** The environment of the application: what is ours wins over secrets, both over the `env` of its description. */
  function hostEnv(
    { deployment_id, revision_id, name }: { deployment_id: string; revision_id: string; name?: string },
    secrets: { [name: string]: string },
  ): { [name: string]: string } {
    return {
      ...inheritedBy(ours),
      ...secrets,
      ...(name === undefined ? {} : { LANGSMITH_DEPLOYMENT_NAME: name }),
      PATH: ours.PATH ?? '',
      LANGSMITH_HOST_PROJECT_ID: deployment_id,
      LANGSMITH_HOST_REVISION_ID: revision_id,
    }
  }

  interface Wanted {
    deployment_id: string
    revision_id: string
    pool: string
    generation: number
    artefact: string
    env: { [name: string]: string }
    size: Size
  }

  /** Null when the artefact is not on this disk. */
  async function start(wanted: Wanted): Promise<Replicas | null> {
    const { deployment_id, revision_id, pool, artefact, env, size } = wanted
    const found = await artefacts.find(artefact)
    if (found === null) return null
    await records.note(deployment_id, { revision_id, pool, artefact })
    return startReplicas({
      count: size.replicas,
      start: {
        config: {
          ...config,
          app: join(found.tree, found.note.config),
          app_id: deployment_id,
          pool,
          hosts: size.hosts,
          host_memory_mb: size.memory_mb,
          // Done before we are: what does not end in time is handed back, not lost.
          stop_ms: Math.floor(config.stop_ms / 2),
        },
        nats_url: options.nats_url,
        revision_id,
        env: hostEnv(wanted, env),
      },
      env: inheritedBy(ours),
      log,
      say: options.logOf(wanted).of('runtime'),
    })
  }

  async function deploy(
    { order, signal, log: logOf }: Step,
    artefact: string,
  ): Promise<{ graphs: Graph[]; image_version: string }> {
    const say = logOf('deploy')
    const { deployment_id, revision_id, pool, generation } = order
    await ended(revision_id)
    const size = sizeOf(order.deployment.source_config.resource_spec, config)
    const replicas = await start({ deployment_id, revision_id, pool, generation, artefact, env: order.env, size })
    if (replicas === null)
      throw new Fault(`deploy: the artefact ${artefact} is not on this machine; make a new revision`)
    running.set(revision_id, {
      deployment_id,
      revision_id,
      pool,
      generation,
      replicas,
      deploying: true,
      draining: null,
    })
    say('INFO', `started ${size.replicas} replica${size.replicas === 1 ? '' : 's'}`)
    const graphs = await replicas.ready(config.deploy_stable_ms, READY_MS, signal)
    say('INFO', `ready: ${graphs.map(graph => graph.graph_id).join(', ')}`)
    return { graphs, image_version: `weft ${versions.weft}` }
  }

  /** Stops what runs of the revision. */
  async function ended(revision_id: string): Promise<void> {
    const one = running.get(revision_id)
    if (one === undefined) return
    await one.replicas.stop(config.stop_ms)
    running.delete(revision_id)
  }

  function drain(one: Running): void {
    if (one.draining !== null) return
    log.info(
      { deployment_id: one.deployment_id, revision_id: one.revision_id },
      'a revision no longer serves; draining',
    )
    one.draining = one.replicas.drain(DRAIN_MS).then(async () => {
      running.delete(one.revision_id)
      if (!stopping) await retire(one.deployment_id, one.revision_id, one.pool)
    })
    one.draining.catch(error => log.warn({ err: error, revision_id: one.revision_id }, 'a revision was not drained'))
  }

  async function retire(deployment_id: string, revision_id: string, pool: string): Promise<void> {
    await options.retire(pool)
    await records.retired(deployment_id, revision_id)
  }

  async function startActive(active: ActiveDeployment): Promise<void> {
    const { deployment_id, revision_id, pool, generation, artefact, resource_spec } = active
    if (artefact === null) return
    const { env } = await options.env(deployment_id, revision_id)
    if (stopping || running.has(revision_id)) return
    const size = sizeOf(resource_spec, config)
    const replicas = await start({ deployment_id, revision_id, pool, generation, artefact, env, size })
    if (replicas === null)
      return log.error({ deployment_id, revision_id, artefact }, 'an active revision cannot run: its artefact is gone')
    running.set(revision_id, {
      deployment_id,
      revision_id,
      pool,
      generation,
      replicas,
      deploying: false,
      draining: null,
    })
    log.info({ deployment_id, revision_id, pids: replicas.pids() }, 'an active revision was started')
  }

  /** Another size: new replicas first, then the old ones hand over what they run. A size that fails is not tried again. */
  async function resize(one: Running, active: ActiveDeployment): Promise<void> {
    one.generation = active.generation
    const { env } = await options.env(one.deployment_id, one.revision_id)
    const replicas = await start({
      ...one,
      artefact: active.artefact!,
      env,
      size: sizeOf(active.resource_spec, config),
    })
    if (replicas === null) return
    try {
      await replicas.ready(0, READY_MS, new AbortController().signal)
    } catch (error) {
      log.error(
        { err: error, revision_id: one.revision_id },
        'a revision could not take its new size; it keeps the old one',
      )
      return replicas.stop(config.stop_ms)
    }
    if (stopping || one.draining !== null) return replicas.stop(config.stop_ms)
    const before = one.replicas
    one.replicas = replicas
    log.info({ revision_id: one.revision_id, pids: replicas.pids() }, 'a revision has its new size')
    await before.stop(config.stop_ms)
  }

  async function settle(active: readonly ActiveDeployment[]): Promise<void> {
    const serving = new Map(active.map(one => [one.revision_id, one]))
    const deploying = new Set(active.map(one => one.deploying_revision_id))
    for (const one of running.values()) {
      if (serving.has(one.revision_id)) one.deploying = false
      else if (!one.deploying && !deploying.has(one.revision_id)) drain(one)
    }
    for (const one of active) {
      const known = running.get(one.revision_id)
      if (known === undefined)
        await startActive(one).catch(error =>
          log.warn(
            { err: error, revision_id: one.revision_id },
            'an active revision could not be started; trying again later',
          ),
        )
      else if (known.generation !== one.generation && known.draining === null)
        void resize(known, one).catch(error =>
          log.warn({ err: error, revision_id: one.revision_id }, 'a new size failed'),
        )
    }
    // Revisions of an earlier life that serve no more.
    for (const { deployment_id, revision_id, pool } of await records.earlier())
      if (!serving.has(revision_id) && !deploying.has(revision_id) && !running.has(revision_id))
        await retire(deployment_id, revision_id, pool)
    const removed = await artefacts.collect(await records.artefacts(), ARTEFACT_AGE_MS)
    if (removed.length > 0) log.info({ artefacts: removed.length }, 'artefacts that nothing refers to were removed')
  }

  return {
    sources: ['github'],
    problems: order => problemsOf(order.deployment.source_config.resource_spec),
    build: buildArtefact,
    has: async artefact => (await artefacts.find(artefact)) !== null,
    deploy,
    async undo({ deployment_id, revision_id, pool }) {
      await erase(join(folder, 'work', deployment_id))
      await rm(join(folder, 'tries', `${deployment_id}.json`), { force: true })
      if (!running.has(revision_id)) return
      await ended(revision_id)
      await retire(deployment_id, revision_id, pool)
    },
    settle,
    async destroy({ deployment_id }) {
      const own = [...running.values()].filter(one => one.deployment_id === deployment_id)
      await Promise.all(own.map(one => ended(one.revision_id)))
      for (const { revision_id, pool } of await records.of(deployment_id))
        await retire(deployment_id, revision_id, pool)
      for (const each of ['work', 'home']) await erase(join(folder, each, deployment_id))
      await rm(join(folder, 'tries', `${deployment_id}.json`), { force: true })
      await records.forget(deployment_id)
    },
    async stop(ms) {
      stopping = true
      await Promise.all([...running.values()].map(one => one.replicas.stop(ms)))
    },
  }
}

const INHERITED = ['PATH', 'HOME', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR', 'NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE']
const PROXIES = ['http_proxy', 'https_proxy', 'no_proxy', 'all_proxy']

/** What any program needs; nothing that the operator set for us. */
function inheritedBy(ours: NodeJS.ProcessEnv): { [name: string]: string } {
  const names = [...INHERITED, ...PROXIES, ...PROXIES.map(name => name.toUpperCase())]
  return Object.fromEntries(names.flatMap(name => (ours[name] === undefined ? [] : [[name, ours[name]]])))
}
