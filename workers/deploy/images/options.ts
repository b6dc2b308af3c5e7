/** The options of the drivers of images, from the deploy worker. */
import type { Log } from '../../../bus/log.js'
import type { Config } from '../../../schemas/config.js'
import type { EnvOf } from '../../../schemas/deploy-calls.js'
import type { RevisionLog } from '../log.js'
import type { Beats } from './beats.js'

export interface ImageDriverOptions {
  config: Config
  /** The broker's address for graph workers of deployments. */
  nats_url: string
  /** Address of this server for applications; empty when unknown. */
  server: string
  beats: Beats
  log: Log
  logOf(ids: { deployment_id: string; revision_id: string }): RevisionLog
  env(deployment_id: string, revision_id: string): Promise<EnvOf>
  retire(pool: string): Promise<void>
}
