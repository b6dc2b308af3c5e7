/** The options of the kubernetes driver, and the values that its parts share. */
import type { ImageDriverOptions } from '../images/options.js'
import type { Cluster } from './cluster.js'
import type { Endings } from './endings.js'
import type { Pods } from './pods.js'
import type { Workload } from './render.js'

export interface KubernetesOptions extends ImageDriverOptions {
  cluster: Cluster
  look_ms?: number
  pauses_ms?: readonly number[]
}

/** A generation of a revision that this worker has applied or found. */
export interface Group {
  workload: Workload
  count: number
  /** Before its cutover, or before it has replaced an earlier generation. */
  deploying: boolean
}

export interface Shared extends KubernetesOptions {
  /** The newest group of each revision. */
  groups: Map<string, Group>
  pods: Pods
  endings: Endings
  /** Aborted when the worker stops. */
  stopping: AbortSignal
}
