/** What the process driver and its builder are given. */
import type { Log } from '../../../bus/log.js'
import type { Config } from '../../../schemas/config.js'
import type { EnvOf } from '../../../schemas/deploy-calls.js'
import type { RevisionLog } from '../log.js'
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
