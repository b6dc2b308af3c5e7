/** A row of the table of promises: a fault, a load, and what is checked after it. One file per row in `rows`. */
import type { Measured } from './result.js'
import type { Stage } from './stage.js'

export interface Row {
  /** Its number in docs/faults.md; the order of execution. */
  number: number
  name: string
  /** The fault that is injected. */
  fault: string
  /** The promise, with its figures. */
  promised: string
  /** Why one store is enough: the row then runs on the other one only when it is selected. */
  oneStore?: string
  /** Injects the fault, waits for the end, and reports to the stage. Returns the load as it was. */
  run(stage: Stage): Promise<Measured>
}
