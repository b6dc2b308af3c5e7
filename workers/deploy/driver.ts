/** What carries a deployment on some kind of machine (API: control-plane 11.1). Every method may be repeated. */
import type { ActiveDeployment, Graph, Order } from '../../schemas/deploy-calls.js'
import type { Source } from '../../schemas/deployments.js'
import type { LogOf } from './log.js'

export interface Step {
  order: Order
  /** Fires when the order was interrupted or its lease is lost. */
  signal: AbortSignal
  log: LogOf
}

export interface Driver {
  sources: readonly Source[]
  /** What this driver cannot do for the order, one sentence each. */
  problems(order: Order): string[]
  /** Makes the artefact, or finds it. `onCommit` is awaited before anything is installed. Throws a Fault. */
  build(step: Step, onCommit: (commit: string) => Promise<void>): Promise<{ artefact: string }>
  /** The artefact is here and whole. */
  has(artefact: string): Promise<boolean>
  /** Instances of the revision run, are ready and have stayed so. Nothing is routed to them yet. Throws a Fault. */
  deploy(step: Step, artefact: string): Promise<{ graphs: Graph[]; image_version: string | null }>
  /** Ends what this revision has begun. */
  undo(order: Order): Promise<void>
  /**
   * Brings what runs into step with what serves: starts what is missing, drains what no longer serves. Revisions that
   * are being deployed stay.
   */
  settle(active: readonly ActiveDeployment[]): Promise<void>
  /** Ends and removes everything of the deployment. */
  destroy(order: Order): Promise<void>
  /** This worker leaves: nothing new is begun. */
  stop(ms: number): Promise<void>
}
