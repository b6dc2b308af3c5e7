/** The environment of a container that serves a revision: what makes `weft graphs` of the image a worker of its pool. */
import type { Config } from '../../../schemas/config.js'
import { isLoopback } from '../../../schemas/loopback.js'
import { addressEnv } from '../server-address.js'
import type { ImageSize } from './size.js'
import type { ImageRevision } from './start.js'

/** Variables without secrets. They override those of the same name among the secrets. */
export const platformEnv = (
  { config, server }: { config: Config; server: string },
  { deployment_id, slug, revision_id, pool, name }: ImageRevision,
  { hosts, host_memory_mb, range }: ImageSize,
): { [name: string]: string } => ({
  ...addressEnv(server, slug),
  LANGSMITH_DEPLOYMENT_NAME: name,
  LANGSMITH_HOST_PROJECT_ID: deployment_id,
  LANGSMITH_HOST_REVISION_ID: revision_id,
  LOG_FORMAT: 'json',
  LOG_LEVEL: config.log_level,
  N_JOBS_PER_WORKER: String(config.slots),
  WEFT_APP_ID: deployment_id,
  WEFT_POOL: pool,
  WEFT_REVISION: revision_id,
  WEFT_HOSTS: String(hosts),
  WEFT_HOST_MEMORY_MB: String(host_memory_mb),
  WEFT_DRAIN_MS: String(config.drain_ms),
  WEFT_STOP_MS: String(config.stop_ms),
  // The number of replicas follows the length of the work queue, which does not count runs that are handed over.
  WEFT_HAND_OVER: String(config.hand_over && range.max <= range.min),
})

/** The hosts of the address that are this machine itself: a container with a network of its own does not reach them. */
export const loopbackHosts = (nats_url: string): string[] =>
  nats_url.split(',').flatMap(text => {
    const url = URL.canParse(text.trim()) ? new URL(text.trim()) : null
    return url !== null && isLoopback(url.hostname) ? [url.host] : []
  })
