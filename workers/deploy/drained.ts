import { setTimeout as sleep } from 'node:timers/promises'

/** A worker that has not received the cutover yet may still queue a run in the pool. */
const QUIET_MS = 10_000
const LOOK_MS = 1_000

/** Resolves when the pool has been empty for QUIET_MS, at the deadline, or when the signal is aborted. */
export async function waitUntilDrained(
  empty: () => Promise<boolean>,
  deadline_ms: number,
  signal?: AbortSignal,
): Promise<void> {
  const until = performance.now() + deadline_ms
  let since = performance.now()
  while (performance.now() < Math.min(since + QUIET_MS, until) && !signal?.aborted) {
    if (!(await empty().catch(() => false))) since = performance.now()
    await sleep(LOOK_MS, undefined, { signal }).catch(() => {})
  }
}
