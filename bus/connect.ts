/**
 * One connection per role. Half-open sockets are detected within 20 s (reliability 2.3); a server older than 2.12 is
 * refused, because it would silently drop the persist mode of the stored stream.
 *
 * `subscribe` is the only way to receive messages: the client calls a subscription's callback inside its parser, and an
 * exception there stops the parser until the pings fail (28 s in which the role receives nothing). What a message does
 * is therefore guarded here, and the type of the connection has no other way.
 */
import { connect, Events, type Msg, type NatsConnection, type Subscription } from 'nats'
import type { Log } from './log.js'

export type Role = 'edge' | 'resources' | 'graphs' | 'deployer'

/** The client without the methods that run a callback unguarded. */
type Connection = Omit<NatsConnection, 'subscribe' | 'request' | 'requestMany'>

export interface Link {
  nc: Connection
  role: Role
  log: Log
  /** Calls `onMessage` for each message. What it throws is logged and costs that message only. */
  subscribe(subject: string, onMessage: (message: Msg) => void, options?: { queue?: string }): Subscription
  /** A fresh inbox of this role's prefix, without wildcards. */
  inbox(): string
  /** Called after each reconnect. The returned function removes the listener. */
  onReconnect(listener: () => void): () => void
  /** False while the connection is lost. */
  connected(): boolean
  close(): Promise<void>
}

interface LinkOptions {
  /** nats://user:password@host:port, or several, comma-separated. */
  url: string
  role: Role
  log: Log
}

/** A flood of unreadable messages is one line per second and link. */
const LOG_MS = 1_000

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
  let isConnected = true
  const listeners = new Set<() => void>()
  void (async () => {
    for await (const { type, data } of nc.status()) {
      if (type === Events.Disconnect) isConnected = false
      if (type === Events.Reconnect) {
        isConnected = true
        for (const listener of listeners) listener()
      }
      if (type === Events.Disconnect || type === Events.Reconnect) log.warn({ type, data }, 'broker connection')
      else if (type === Events.Error) log.error({ type, data }, 'the broker refused an operation')
    }
  })()
  let n = 0
  const base = `${inboxPrefix}.${Math.random().toString(36).slice(2)}${process.pid.toString(36)}`
  return {
    nc,
    role,
    log,
    subscribe: (subject, onMessage, { queue } = {}) =>
      nc.subscribe(subject, { ...(queue === undefined ? {} : { queue }), callback: guarded(log, subject, onMessage) }),
    inbox: () => `${base}${++n}`,
    onReconnect: listener => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    connected: () => isConnected && !nc.isClosed(),
    close: () => nc.close(),
  }
}

function guarded(log: Log, subject: string, onMessage: (message: Msg) => void) {
  let loggedAt = 0
  let unlogged = 0
  return (refused: Error | null, message: Msg): void => {
    if (refused !== null) return log.error({ err: refused, subject }, 'the broker refused a subscription')
    try {
      onMessage(message)
    } catch (error) {
      unlogged++
      if (Date.now() - loggedAt < LOG_MS) return
      loggedAt = Date.now()
      log.error({ err: error, subject: message.subject, messages: unlogged }, 'a message could not be handled')
      unlogged = 0
    }
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
function isAtLeast(version: string, major: number, minor: number): boolean {
  const [a = 0, b = 0] = version.split('.').map(Number)
  return a > major || (a === major && b >= minor)
}
