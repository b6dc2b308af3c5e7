/**
 * One connection per role. Half-open sockets are found within 20 s (reliability 2.3); a server older than 2.12 is
 * refused, because the stored stream's persist mode would be dropped silently.
 */
import { connect, Events, type NatsConnection } from 'nats'
import type { Log } from './log.js'

export type Role = 'edge' | 'resources' | 'graphs' | 'deployer'

export interface Link {
  nc: NatsConnection
  role: Role
  log: Log
  /** A fresh inbox of this role's prefix, without wildcards. */
  inbox(): string
  /** Called after each reconnect. */
  onReconnect(listener: () => void): () => void
  /** False while the connection is down. */
  connected(): boolean
  close(): Promise<void>
}

export interface LinkOptions {
  /** nats://user:password@host:port, or several, comma-separated. */
  url: string
  role: Role
  log: Log
}

/** Connects, or throws an Error with one sentence: unreachable, refused, too old. */
export async function openLink({ url, role, log }: LinkOptions): Promise<Link> {
  const { servers, user, pass } = parseUrl(url)
  const inboxPrefix = `_INBOX_${role}`
  let nc: NatsConnection
  try {
    nc = await connect({
      servers,
      ...(user === undefined ? {} : { user, pass }),
      name: `weft-${role}`,
      inboxPrefix,
      pingInterval: 10_000,
      maxPingOut: 2,
      maxReconnectAttempts: -1,
      reconnectTimeWait: 250,
      reconnectJitter: 100,
      timeout: 5_000,
      waitOnFirstConnect: false,
    })
  } catch (error) {
    throw new Error(`no NATS server answers as "${role}" at ${servers.join(', ')}: ${(error as Error).message}`)
  }
  const version = nc.info?.version ?? '0'
  if (!isAtLeast(version, 2, 12)) {
    await nc.close()
    throw new Error(`the NATS server at ${servers.join(', ')} is ${version}; Weft needs 2.12 or newer`)
  }
  let up = true
  const listeners = new Set<() => void>()
  void (async () => {
    for await (const { type, data } of nc.status()) {
      if (type === Events.Disconnect) up = false
      if (type === Events.Reconnect) {
        up = true
        for (const listener of listeners) listener()
      }
      if (type === Events.Disconnect || type === Events.Reconnect) log.warn({ type, data }, 'broker connection')
      else if (type === Events.Error) log.error({ type, data }, 'broker refused something')
    }
  })()
  let n = 0
  const base = `${inboxPrefix}.${Math.random().toString(36).slice(2)}${process.pid.toString(36)}`
  return {
    nc,
    role,
    log,
    inbox: () => `${base}${++n}`,
    onReconnect: listener => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    connected: () => up && !nc.isClosed(),
    close: () => nc.close(),
  }
}

function parseUrl(url: string): { servers: string[]; user: string | undefined; pass: string | undefined } {
  const urls = url.split(',').map(one => new URL(one.includes('://') ? one : `nats://${one}`))
  const first = urls[0]!
  return {
    servers: urls.map(one => one.host),
    user: first.username ? decodeURIComponent(first.username) : undefined,
    pass: first.username ? decodeURIComponent(first.password) : undefined,
  }
}

/** True when `version` ("2.15.1", "2.12.0-beta.1") is at least major.minor. */
export function isAtLeast(version: string, major: number, minor: number): boolean {
  const [a = 0, b = 0] = version.split('.').map(Number)
  return a > major || (a === major && b >= minor)
}
