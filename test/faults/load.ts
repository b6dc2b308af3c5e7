/** Load for tests that stop and kill processes: each run that was answered 2xx is recorded and must end. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Roles } from '../helpers/cluster.js'
import { lines } from '../helpers/sdk.js'

const RUNS_MS = 90_000
const LOOK_MS = 100

/** The body of the next run. */
type Input = () => { assistant_id: string; input: object }

/** Callers at the same time, so that a fault meets several calls in flight. */
const CALLERS = 4
/** Pause of each caller between two runs: 16 runs a second at most, together. */
const PAUSE_MS = 250

/** Four callers create runs, each one after the other, until `stop`; a run that was answered 2xx must end as success. */
export function load(roles: Pick<Roles, 'urls'>, input: Input = () => ({ assistant_id: 'slow', input: { ms: 300 } })) {
  const accepted: { thread_id: string; run_id: string }[] = []
  const refused: number[] = []
  let on = true
  let slowest = 0
  const one = async (i: number) => {
    const url = roles.urls[i % roles.urls.length]!
    const headers = { 'content-type': 'application/json' }
    const thread = await fetch(`${url}/threads`, { method: 'POST', headers, body: '{}' })
    if (!thread.ok) return void refused.push(thread.status)
    const { thread_id } = (await thread.json()) as { thread_id: string }
    const body = JSON.stringify(input())
    const run = await fetch(`${url}/threads/${thread_id}/runs`, { method: 'POST', headers, body })
    if (run.ok) accepted.push((await run.json()) as { thread_id: string; run_id: string })
    else refused.push(run.status)
    await Promise.all([run.bodyUsed || run.arrayBuffer(), thread.bodyUsed || thread.arrayBuffer()])
  }
  const calls = async (caller: number) => {
    for (let i = caller; on && i < 2_000; i += CALLERS) {
      // A connection closed by a stopping edge is no answer; only answers count.
      const since = Date.now()
      await one(i).catch(() => refused.push(0))
      slowest = Math.max(slowest, Date.now() - since)
      await sleep(PAUSE_MS)
    }
  }
  const ended = Promise.all(Array.from({ length: CALLERS }, (_, caller) => calls(caller)))
  return {
    accepted,
    refused,
    /** Milliseconds that the slowest pair of calls took. */
    slowest: () => slowest,
    async stop() {
      on = false
      await ended
    },
  }
}

/**
 * The statuses of the runs when all have ended, or after 90 s. One run after the other: looks at all of them, again and
 * again, would keep a core busy until the last one has ended.
 */
export async function finalStatuses(
  url: string,
  runs: readonly { thread_id: string; run_id: string }[],
): Promise<string[]> {
  const client = lines[0]!.connect(url)
  const end = Date.now() + RUNS_MS
  const statuses: string[] = []
  for (const { thread_id, run_id } of runs)
    for (;;) {
      const { status } = await client.runs.get(thread_id, run_id)
      if (!['pending', 'running'].includes(status) || Date.now() > end) {
        statuses.push(status)
        break
      }
      await sleep(LOOK_MS)
    }
  return statuses
}
