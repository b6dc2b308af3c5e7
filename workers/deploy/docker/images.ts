/** The image of a revision on the engine: pulled, checked, and known by its digest. */

import type Docker from 'dockerode'
import type { Config } from '../../../schemas/config.js'
import type { Step } from '../driver.js'
import { Fault, retry } from '../fault.js'
import { credentialsFor } from './credentials.js'
import { faultOf, inspectImage, pullImage } from './engine.js'

export interface ImageOptions {
  engine: Docker
  config: Pick<Config, 'docker_auth'>
  /** Pauses before pulls are repeated. */
  pull_pauses_ms?: readonly number[]
}

export function openImages({ engine, config, pull_pauses_ms = [5_000, 15_000, 45_000] }: ImageOptions) {
  async function pull(image: string, names: readonly string[], { signal, log: logOf }: Step): Promise<void> {
    const say = logOf('deploy')
    await retry(
      pull_pauses_ms,
      signal,
      line => say('WARNING', line),
      async () => {
        const auth = await credentialsFor(image, config.docker_auth, names)
        await pullImage(engine, image, auth, line => say('INFO', line), signal)
      },
    )
  }

  /** Resolves to the digest of the image, which later starts use; to its id when no registry has it. */
  async function build(step: Step): Promise<{ artefact: string }> {
    const { task } = step
    const { resource_spec: spec } = task.deployment.source_config
    const image = task.artefact ?? task.revision.source_revision_config.image_uri!
    const names = (spec?.image_pull_secrets ?? []).map(({ name }) => name)
    try {
      await pullOrUse(image, names, step)
      await checkPlatform(image)
      for (const part of [...(spec?.init_containers ?? []), ...(spec?.sidecars ?? [])])
        await pullPart(part.image, part.imagePullPolicy ?? null, names, step)
      const found = (await inspectImage(engine, image))!
      const name = image.replace(/@.*$/, '').replace(/:[^/:]*$/, '')
      const digest = found.RepoDigests?.find(one => one.startsWith(`${name}@`)) ?? found.RepoDigests?.[0]
      return { artefact: digest ?? found.Id }
    } catch (error) {
      throw faultOf('image pull', error)
    }
  }

  /** The same bytes need no registry, and one that cannot be reached is none for an image that the engine has. */
  async function pullOrUse(image: string, names: readonly string[], step: Step): Promise<void> {
    if (DIGEST.test(image) && (await inspectImage(engine, image)) !== null) return
    await pull(withTag(image), names, step).catch(async error => {
      if (!(error instanceof Fault) || (await inspectImage(engine, image)) === null) throw error
      step.log('deploy')('WARNING', `${error.message}; the engine has the image ${image} and uses it`)
    })
  }

  async function pullPart(image: string, policy: string | null, names: readonly string[], step: Step): Promise<void> {
    const isLatest = !/[:@][^/]*$/.test(image) || image.endsWith(':latest')
    const wanted = policy ?? (isLatest ? 'Always' : 'IfNotPresent')
    if (wanted !== 'Always' && (await inspectImage(engine, image)) !== null) return
    if (wanted === 'Never')
      throw new Fault(`image pull: ${image} is not on the engine, and its imagePullPolicy is Never`)
    if (policy === 'Always') await pull(withTag(image), names, step)
    else await pullOrUse(image, names, step)
  }

  async function checkPlatform(image: string): Promise<void> {
    const [found, { Os, Arch }] = await Promise.all([inspectImage(engine, image), engine.version()])
    if (found === null) throw new Fault(`image pull: the engine does not have ${image} after its pull`)
    if (found.Os !== Os || found.Architecture !== Arch)
      throw new Fault(
        `image pull: ${image} is made for ${found.Os}/${found.Architecture}, the engine runs ${Os}/${Arch}`,
      )
  }

  return { build }
}

/** The id of a digest in a registry, or of an image of the engine. */
const DIGEST = /(^|@)sha256:[0-9a-f]{64}$/

/** Without a tag the engine would pull all of them. */
const withTag = (image: string): string => (/(@|:[^/]*$)/.test(image) ? image : `${image}:latest`)
