/** Options of the process driver and its builder. */
import type { Figures } from '../../../bus/figures.js'
import type { Log } from '../../../bus/log.js'
import type { Config } from '../../../schemas/config.js'
import type { EnvOf } from '../../../schemas/deploy-calls.js'
import type { HostNode } from '../../child/node.js'
import type { HostUser } from '../../child/process.js'
import type { Sandbox } from '../../child/sandbox.js'
import type { RevisionLog } from '../log.js'
import type { Sources } from './source.js'
import type { Uploads } from './upload.js'

export interface ProcessOptions {
  /** Folder of this driver: artefacts, builds, records. */
  folder: string
  config: Config
  /** The broker's address for the graph workers of deployments. */
  nats_url: string
  /** User of builds and probes; our own when null. */
  user: HostUser | null
  /** Where probes run, and where installs and builds do; null: without a sandbox. */
  sandboxes: { probe: Sandbox; build: Sandbox } | null
  /** Executes probes; the commands of builds find it first. */
  node: HostNode
  /** Environment of this process; children inherit a few variables of it. */
  ours: NodeJS.ProcessEnv
  sources: Sources
  versions: { weft: string; langgraph: string }
  log: Log
  figures: Figures
  logOf(ids: { deployment_id: string; revision_id: string }): RevisionLog
  env(deployment_id: string, revision_id: string): Promise<EnvOf>
  /** Sources that clients upload. */
  uploads: Uploads
  /** Removes the consumer of a pool that no worker serves any more. */
  retire(pool: string): Promise<void>
  /** Deadline of fetch, install, build and probe together. */
  build_ms?: number
}
