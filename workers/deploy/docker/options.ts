/** The options of the docker driver, and the values that its parts share. */
import type { EventEmitter } from 'node:events'
import type { Figures } from '../../../bus/figures.js'
import type { ImageDriverOptions } from '../images/options.js'
import type { Group } from './group.js'
import type { ImageOptions } from './images.js'
import type { Outputs } from './output.js'

export interface DockerOptions extends ImageDriverOptions, Omit<ImageOptions, 'config'> {
  figures: Figures
}

export interface Shared extends DockerOptions {
  /** The newest group of each revision. */
  groups: Map<string, Group>
  /** Emits `change` with each event of the engine and each beat that may make a group ready. */
  changes: EventEmitter
  outputs: Outputs
  /** Aborted when the worker stops. */
  stopping: AbortSignal
}
