/** Exits of replicas while their revision is deployed: three in a minute are a crash loop. */
import { Fault } from './fault.js'

const LOOP_EXITS = 3
const LOOP_MS = 60_000

/** The times of exits that still count, with one more, which has happened now. */
export const withExit = (exits: readonly number[]): number[] => [...recent(exits), performance.now()]

/** Throws a Fault when the replicas can never become ready. `broken`: why one of them cannot start. */
export function throwIfCrashing({ broken, exits }: { broken: string | null; exits: readonly number[] }): void {
  if (broken !== null) throw new Fault(`deploy: a replica cannot start: ${broken}`)
  if (recent(exits).length >= LOOP_EXITS) throw new Fault('deploy: the replicas exit repeatedly; see the runtime log')
}

const recent = (exits: readonly number[]): number[] => exits.filter(at => at > performance.now() - LOOP_MS)
