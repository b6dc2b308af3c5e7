/** The workload of a revision. Pure. */
import type { Config } from '../../../schemas/config.js'
import { platformEnv } from '../images/environment.js'
import type { ImageDriverOptions } from '../images/options.js'
import { imageSizeOf } from '../images/size.js'
import type { ImageStart } from '../images/start.js'
import { natsUrlOf } from '../nats-url.js'
import type { Policy } from './problems.js'
import type { Workload } from './render.js'

type Times = Pick<Config, 'drain_ms' | 'stop_ms'>

/** Time for a replica to hand its runs back. */
export const stopSeconds = ({ stop_ms }: Pick<Times, 'stop_ms'>): number => Math.ceil(stop_ms / 1_000) + 2
/** Time for a replica to finish its runs. */
export const graceSeconds = (times: Times): number => Math.ceil(times.drain_ms / 1_000) + stopSeconds(times)

export const namespaceOf = ({ namespaces }: Policy, given: string | null | undefined): string => given || namespaces[0]!

export function workloadOf(
  options: Pick<ImageDriverOptions, 'config' | 'server' | 'nats_url'>,
  policy: Policy,
  { revision, namespace, spec, secrets, pool_user, secret_references }: ImageStart,
): Workload {
  const { config, nats_url } = options
  const size = imageSizeOf(spec)
  return {
    revision: { ...revision, namespace: namespaceOf(policy, namespace) },
    spec,
    size,
    env: platformEnv(options, revision, size),
    secrets: { ...secrets, NATS_URL: natsUrlOf(nats_url, pool_user) },
    secret_references,
    grace_seconds: graceSeconds(config),
    scaling: { runs_each: config.scale_runs, down_ms: config.scale_down_ms, keda: config.kubernetes_keda },
  }
}
