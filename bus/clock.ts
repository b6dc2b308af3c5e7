/** The clock of this host compared with the broker's: a resource worker with a wrong clock must not fire alarms. */
import { RUNS_STREAM } from '../schemas/subjects.js'
import type { Mux } from './mux.js'

/** An answer that took longer says too little about the moment it was written. */
const MAX_TRIP_MS = 1_000

/** How far the clock of this host is ahead of the broker's (ms); null when the broker does not answer in time. */
export async function clockAhead(mux: Mux): Promise<number | null> {
  const asked = Date.now()
  const answer = await mux.ask(`$JS.API.STREAM.INFO.${RUNS_STREAM}`, new Uint8Array()).catch(() => null)
  const trip = Date.now() - asked
  if (answer === null || trip > MAX_TRIP_MS) return null
  const { ts } = answer.json<{ ts?: string }>()
  const server = ts === undefined ? Number.NaN : Date.parse(ts)
  return Number.isNaN(server) ? null : asked + trip / 2 - server
}
