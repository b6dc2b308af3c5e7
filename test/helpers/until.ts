import { setTimeout as sleep } from 'node:timers/promises'

/** A poll waits a fifth of the time so far: short waits end soon, and long ones cost little. */
const SHARE = 0.2
const LEAST_MS = 5
const MOST_MS = 200

/** Polls until there is a value other than undefined and false, and resolves to it; throws after `ms`. */
export async function until<T>(look: () => T | Promise<T>, ms = 90_000): Promise<Exclude<T, undefined | false>> {
  const since = performance.now()
  for (;;) {
    const found = await look()
    if (found !== undefined && found !== false) return found as Exclude<T, undefined | false>
    const waited = performance.now() - since
    if (waited > ms) throw new Error(`the condition is still false after ${ms} ms`)
    await sleep(Math.min(MOST_MS, Math.max(LEAST_MS, waited * SHARE)))
  }
}
