/** What every door of the edge works with; made once in edge.ts. */
import type { Caller } from '../bus/call.js'
import type { Link } from '../bus/connect.js'
import type { Follower } from '../bus/follow.js'
import type { Versions } from '../bus/versions.js'
import type { Disconnect } from '../schemas/calls.js'
import type { Config } from '../schemas/config.js'
import type { RunHead } from '../schemas/runs.js'
import { rpc } from '../schemas/subjects.js'
import type { Control } from './control-key.js'
import type { Budget } from './http/body.js'
import type { Exchange } from './http/exchange.js'
import type { Stalls } from './http/outlet.js'
import type { Watch } from './watch.js'
import type { Wheel } from './wheel.js'

export interface Edge {
  config: Config
  link: Link
  caller: Caller
  follower: Follower
  wheel: Wheel
  watch: Watch
  stalls: Stalls
  bodies: Budget
  versions: Versions
  control: Control
  /** Requests without an answer yet, and open streams. */
  open: Set<Exchange>
  /** Open WebSockets. */
  sockets: Set<{ restart(): void }>
  /** Once true, a closed connection says nothing about the client. */
  stopping: boolean
}

const encoder = new TextEncoder()
const TRIES = 3

/**
 * Tells that a connection is gone whose end may cancel the run: that of who made it, or of a reader. What follows from
 * it is decided where the run is kept.
 */
export async function reportDisconnect(edge: Edge, run: RunHead, reader: boolean): Promise<void> {
  const { run_id, joined_at } = run
  const body = encoder.encode(JSON.stringify({ run_id, reader, joined_at } satisfies Disconnect))
  const head = { request_id: `disconnect-${run.run_id}`, params: { run_id: run.run_id } }
  for (let i = 1; !edge.stopping; i++) {
    try {
      await edge.caller.ask(rpc('runs', 'disconnect'), head, body)
      return
    } catch (error) {
      if (i < TRIES) continue
      edge.link.log.warn({ err: error, run_id: run.run_id }, 'a disconnect could not be reported')
      return
    }
  }
}

/** Path of a run, as the SDKs cut ids out of it: nothing behind the run id (API: threads-and-runs 9). */
export const runPath = ({ run_id, thread_id, stateless }: RunHead): string =>
  stateless ? `/runs/${run_id}` : `/threads/${thread_id}/runs/${run_id}`
