/** The plan of the replicas of a revision. */
import { platformEnv } from '../images/environment.js'
import type { ImageDriverOptions } from '../images/options.js'
import { imageSizeOf } from '../images/size.js'
import type { ImageStart } from '../images/start.js'
import { natsUrlOf } from '../nats-url.js'
import type { ReplicaPlan } from './container.js'

export function planOf(
  options: Pick<ImageDriverOptions, 'config' | 'server' | 'nats_url'>,
  { revision, spec, secrets, pool_user }: ImageStart,
): ReplicaPlan {
  const { config } = options
  const size = imageSizeOf(spec)
  return {
    ...revision,
    size,
    spec,
    env: {
      ...secrets,
      ...platformEnv(options, revision, size),
      NATS_URL: natsUrlOf(options.nats_url, pool_user),
    },
    // The engine is asked when the replicas are created.
    cores: Number.POSITIVE_INFINITY,
    network: config.docker_network,
    stop_seconds: Math.ceil((config.drain_ms + config.stop_ms) / 1_000) + 2,
  }
}
