/**
 * The generations of active revisions: each change of size is one. A generation that is not allowed, or does not become
 * ready, is not tried again, and the replicas of the one before go on.
 */
import type { Log } from '../../../bus/log.js'
import type { ActiveDeployment, EnvOf } from '../../../schemas/deploy-calls.js'
import { Fault } from '../fault.js'
import { type Asked, askedByActive } from './asked.js'
import { type ImageStart, startByActive } from './start.js'

type Generation = Pick<ActiveDeployment, 'revision_id' | 'generation'>

interface Options<Plan> {
  log: Log
  env(deployment_id: string, revision_id: string): Promise<EnvOf>
  /** Values that are not allowed, one sentence each. */
  problemsOf(asked: Asked): string[]
  planOf(start: ImageStart): Plan
}

export interface Generations<Plan> {
  /** It was given up. */
  hasFailed(generation: Generation): boolean
  /** The generation is not tried again. */
  giveUp(generation: Generation, error: unknown): void
  /**
   * The plan of an active revision. `isThere`: it runs already, so what has been forbidden since is no problem. `isServed`:
   * replicas serve the revision; when something in the new generation is not allowed, it is given up and this is null. Throws
   * a Fault else.
   */
  plan(active: ActiveDeployment, has: { isThere: boolean; isServed: boolean }): Promise<Plan | null>
}

export function openGenerations<Plan>({ log, env, problemsOf, planOf }: Options<Plan>): Generations<Plan> {
  const failed = new Set<string>()
  const keyOf = ({ revision_id, generation }: Generation) => `${revision_id} ${generation}`

  function giveUp(generation: Generation, error: unknown): void {
    const { revision_id } = generation
    log.error({ err: error, revision_id }, 'a revision could not be resized; it keeps its old size')
    failed.add(keyOf(generation))
  }

  async function planActive(active: ActiveDeployment, isThere: boolean): Promise<Plan> {
    const problems = isThere ? [] : problemsOf(askedByActive(active))
    if (problems.length > 0) throw new Fault(problems.join('; '))
    return planOf(startByActive(active, await env(active.deployment_id, active.revision_id)))
  }

  return {
    hasFailed: generation => failed.has(keyOf(generation)),
    giveUp,
    plan: (active, { isThere, isServed }) =>
      planActive(active, isThere).catch(error => {
        if (!isServed || !(error instanceof Fault)) throw error
        giveUp(active, error)
        return null
      }),
  }
}
