/** The replicas of a generation that this worker keeps running. */
import { type ReplicaPlan, replicaName } from './container.js'

export interface Group {
  plan: ReplicaPlan
  /** Replicas 1 to n. */
  count: number
  /** Before its cutover, or before it has replaced an earlier generation. */
  deploying: boolean
  /** Times of exits. */
  exits: number[]
  /** Main containers whose exit is known, and that were not started since. */
  down: Set<string>
  /** Reason for which it can never become ready. */
  broken: string | null
  draining: boolean
}

export const emptyGroup = (plan: ReplicaPlan, count: number, deploying: boolean): Group => ({
  plan,
  count,
  deploying,
  exits: [],
  down: new Set(),
  broken: null,
  draining: false,
})

export const namesOf = ({ plan, count }: Pick<Group, 'plan' | 'count'>): string[] =>
  Array.from({ length: count }, (_, i) => replicaName(plan, i + 1))
