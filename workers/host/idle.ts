import { performance } from 'node:perf_hooks'

/** How long code of the application may wait at the top level of its modules. Time in which it computes does not count. */
export const LOAD_IDLE_MS = 40_000
const LOOK_MS = 1_000

/** Resolves when the event loop of this process has been idle for `ms`, from now on. */
export async function idleFor(ms: number): Promise<void> {
  const idle = () => performance.eventLoopUtilization().idle
  const until = idle() + ms
  while (idle() < until) await new Promise<void>(resolve => setTimeout(resolve, Math.min(LOOK_MS, ms)).unref())
}
