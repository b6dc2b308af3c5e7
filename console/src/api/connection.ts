/** Whether the server answers. A failed call says that it does not; then it is asked until it does. */
import { base } from './base'
import { createStore } from './store'

export interface Connection {
  /** When the connection was lost, in ms; null while it is there. */
  lostAt: number | null
  /** How long it was lost, for a moment after it came back. */
  lostFor: number | null
  /** Raised when data should be loaded again. */
  epoch: number
}

export const connection = createStore<Connection>({ lostAt: null, lostFor: null, epoch: 0 })

const RETRY_MS = 1_000
const SHOWN_MS = 6_000
const CHECK_MS = 10_000

export function lost(): void {
  if (connection.get().lostAt !== null) return
  connection.change({ lostAt: Date.now(), lostFor: null })
  setTimeout(check, RETRY_MS)
}

function restored(): void {
  const { lostAt, epoch } = connection.get()
  if (lostAt === null) return
  connection.change({ lostAt: null, lostFor: Date.now() - lostAt, epoch: epoch + 1 })
  setTimeout(() => connection.change({ lostFor: null }), SHOWN_MS)
}

export async function check(): Promise<void> {
  try {
    await fetch(`${base}/ok`, { signal: AbortSignal.timeout(5_000) })
    restored()
  } catch {
    if (connection.get().lostAt === null) lost()
    else setTimeout(check, RETRY_MS)
  }
}

/** A page that asks for nothing notices, too. */
export function watchConnection(): void {
  setInterval(() => {
    if (document.visibilityState === 'visible' && connection.get().lostAt === null) void check()
  }, CHECK_MS)
  addEventListener('offline', lost)
}

export const reloadAll = (): void => connection.change({ epoch: connection.get().epoch + 1 })
