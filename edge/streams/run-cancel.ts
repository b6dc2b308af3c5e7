/**
 * Cancels a run (docs/spec/runs.md#cancel). With `wait` the answer comes when the run has ended, so the edge follows
 * its end before it asks.
 */
import { type RunId, token } from '../../schemas/ids.js'
import { isTrue } from '../../schemas/query.js'
import { isTerminal } from '../../schemas/runs.js'
import { forward } from '../calls.js'
import { type Edge, runPath } from '../context.js'
import type { Exchange } from '../http/exchange.js'
import type { Route } from '../routes.js'
import type { WatchEntry } from '../watch.js'

export async function cancelRun(edge: Edge, exchange: Exchange, route: Route): Promise<void> {
  const head = exchange.callHead()
  const run = token<'run'>('run', head.params!.run_id!)
  // A run that is deleted by force has to stop first.
  const waits = isTrue(new URLSearchParams(exchange.query).get(route.method === 'DELETE' ? 'force' : 'wait'))
  const { ended, release } = waits ? awaitEnd(edge, exchange, run) : { ended: null, release: () => {} }
  try {
    const answer = await edge.caller.call(route.subject, head)
    const { status, run: view } = answer.head
    if (status >= 400 || ended === null || view === undefined) return forward(exchange, answer)
    await ended
    const headers = route.method === 'DELETE' ? undefined : { Location: `${runPath(view)}/join` }
    if (!exchange.over) exchange.reply(204, null, headers)
  } finally {
    release()
  }
}

/** Resolves at the terminal event, or when the row is terminal or removed; also when the client leaves. */
function awaitEnd(edge: Edge, exchange: Exchange, run: RunId) {
  let end = () => {}
  const ended = new Promise<void>(done => (end = done))
  const entry: WatchEntry = {
    run,
    heardAt: performance.now(),
    onPeek: peek => {
      if (peek === null || isTerminal(peek.status)) end()
    },
    onReconnect: () => {},
  }
  const unfollow = edge.follower.follow(run, { onEnd: end })
  edge.watch.add(entry)
  exchange.onAbort = end
  return {
    ended,
    release() {
      unfollow()
      edge.watch.remove(entry)
    },
  }
}
