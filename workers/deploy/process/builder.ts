/**
 * From the source of a revision to an artefact on this machine's disk (API: control-plane 11.2): fetch, install, build,
 * probe. Each try has a folder of its own; what is done already is found again by the key of the artefact.
 */
import { mkdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Order } from '../../../schemas/deploy-calls.js'
import type { Step } from '../driver.js'
import { Fault, goOn, retry } from '../fault.js'
import { type Artefacts, erase, keyOf, writeDurably } from './artefacts.js'
import { describe } from './describe.js'
import { hostEnv } from './environment.js'
import { fetchSource } from './fetch.js'
import { build, buildEnv, install } from './install.js'
import type { ProcessOptions } from './options.js'
import { probe } from './probe.js'
import { sizeOf } from './size.js'

const FETCH_AGAIN = [5_000, 15_000, 45_000]
const INSTALL_AGAIN = [10_000, 30_000]
const BUILD_AGAIN = [10_000]
const MAX_TRIES = 3

interface Tries {
  revision_id: string
  n: number
}

export interface Builder {
  /** Throws a Fault that says what is wrong with the source. `onCommit` is told which commit it is, before it is built. */
  build(step: Step, onCommit: (commit: string) => Promise<void>): Promise<{ artefact: string }>
  /** Removes what a build that was stopped left. */
  clear(deployment_id: string): Promise<void>
  /** The deployment is no more. */
  forget(deployment_id: string): Promise<void>
}

export function openBuilder(
  { folder, config, ours, versions, sources }: ProcessOptions,
  artefacts: Artefacts,
): Builder {
  const runtime = `weft ${versions.weft} langgraph ${versions.langgraph} node ${process.versions.modules} ${process.platform}-${process.arch}`

  async function artefactOf(step: Step, onCommit: (commit: string) => Promise<void>) {
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
        return fetchSource({ ...given, work, path: ours.PATH ?? '', sources }, signal, say)
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
        { app: join(tree, file), env: hostEnv({ ours, config }, order, order.env), memory_mb: size.memory_mb },
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

  async function clear(deployment_id: string): Promise<void> {
    await erase(join(folder, 'work', deployment_id))
    await rm(join(folder, 'tries', `${deployment_id}.json`), { force: true })
  }

  return {
    build: artefactOf,
    clear,
    async forget(deployment_id) {
      await clear(deployment_id)
      await erase(join(folder, 'home', deployment_id))
    },
  }
}
