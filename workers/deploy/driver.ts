/** The port to one kind of machine (docs/spec/control-plane.md#drivers). Every method may be repeated. */
import type { ActiveDeployment, DeployTask, Graph } from '../../schemas/deploy-calls.js'
import type { Source } from '../../schemas/deployments.js'
import type { LogOf } from './log.js'

export interface Step {
  task: DeployTask
  /** Aborted when the task is interrupted or has lost its lease. */
  signal: AbortSignal
  log: LogOf
}

export interface Driver {
  sources: readonly Source[]
  /** Members of the task that this driver does not support, one sentence each. */
  problems(task: DeployTask): string[]
  /** Builds the artefact, or finds it. Awaits `onCommit` before it installs anything. Throws a Fault. */
  build(step: Step, onCommit: (commit: string) => Promise<void>): Promise<{ artefact: string }>
  /** True when the artefact is complete and can be deployed from here. */
  has(artefact: string, task: DeployTask): Promise<boolean>
  /** Starts instances of the revision and waits until they are stable. They receive no run yet. Throws a Fault. */
  deploy(step: Step, artefact: string): Promise<{ graphs: Graph[]; image_version: string | null }>
  /** Stops and removes what the deployment of this revision has begun. */
  undo(task: DeployTask): Promise<void>
  /**
   * Reconciles the running instances with the active revisions: starts missing ones, drains those that are no longer
   * active. `held` are the revisions of this worker's tasks: they stay, also when no active revision is beside them.
   * No task begins during the call.
   */
  reconcile(active: readonly ActiveDeployment[], held: ReadonlySet<string>): Promise<void>
  /** Stops and removes all resources of the deployment. */
  destroy(task: DeployTask): Promise<void>
  /** Absent when the instances of this driver are scaled by other means, or not at all. */
  scaling?: {
    /** Replicas of the active revision; null when none of it is to run here, or it is being drained. */
    replicas(revision_id: string): number | null
    /** Starts or stops replicas; stopped ones hand their runs back. Resolves when the started ones are ready. */
    scale(revision_id: string, replicas: number): Promise<void>
  }
  /** Stops all instances; nothing new is started. */
  stop(ms: number): Promise<void>
}
