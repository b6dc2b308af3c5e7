/**
 * One connection per role. Half-open sockets are detected within 20 s; a server older than 2.12 is
 * refused, because it would silently drop the persist mode of the stored stream.
 *
 * `subscribe` is the only way to receive messages: the client calls a subscription's callback inside its parser, and an
 * exception there stops the parser until the pings fail (28 s in which the role receives nothing). What a message does
 * is therefore guarded here, and the type of the connection has no other way.
 */
import { randomBytes } from 'node:crypto'
import { accessSync, constants } from 'node:fs'
import { isIP } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { checkServerIdentity, type PeerCertificate } from 'node:tls'
import {
  type ConnectionOptions,
  connect,
  ErrorCode,
  Events,
  type Msg,
  type NatsConnection,
  type Subscription,
  type TlsOptions,
} from 'nats'
import type { Config } from '../schemas/config.js'
import { isLoopback } from '../schemas/loopback.js'
import type { Build } from '../schemas/protocol.js'
import { inboxPrefix, type Sender } from '../schemas/subjects.js'
import { type Figures, openFigures } from './figures.js'
import type { Log } from './log.js'
import { buildOf } from './versions.js'

export type Role = 'edge' | 'resources' | 'graphs' | 'deployer'

/** The roles that call graph workers. */
export const asksPools = (role: Role): boolean => role === 'edge' || role === 'resources'

/** The client without the methods that run a callback unguarded. */
type Connection = Omit<NatsConnection, 'subscribe' | 'request' | 'requestMany'>

export interface Link {
  nc: Connection
  role: Role
  /** Set for a graph worker. */
  sender: Sender | null
  log: Log
  /** How this process names its version to others. */
  build: Build
  /** The figures of this role. */
  figures: Figures
  /** Calls `onMessage` for each message. What it throws is logged and costs that message only. */
  subscribe(subject: string, onMessage: (message: Msg) => void, options?: { queue?: string }): Subscription
  /** Writes now what was sent in this turn of the event loop, instead of at its end. */
  push(): void
  /** A fresh inbox of this role's prefix, without wildcards. */
  inbox(): string
  /** Called after each reconnect. The returned function removes the listener. */
  onReconnect(listener: () => void): () => void
  /** False while the connection is lost. */
  connected(): boolean
  close(): Promise<void>
}

interface LinkOptions {
  /** nats:// or tls://user:password@host:port, or several, comma-separated. */
  url: string
  role: Role
  /** The application and pool that a graph worker serves. It names them in its calls; its user may name no others. */
  sender?: Sender
  log: Log
  /** In tests: the protocol that this process claims to have. */
  protocol?: number
  /** Refuses a broker without users on another machine; else it is a warning. */
  requireUsers?: boolean
  /** Files for tls://. */
  tls?: TlsFiles
}

/** Paths of PEM files; '' = not set. */
export interface TlsFiles {
  /** The authorities that may sign the server's certificate, instead of those of Node.js. */
  ca: string
  /** The certificate of this client and its key, for servers that require one. */
  cert: string
  key: string
}

/** The files for openLink, of the settings of a process. */
export const tlsFilesOf = ({ nats_ca, nats_cert, nats_key }: Pick<Config, 'nats_ca' | 'nats_cert' | 'nats_key'>) => ({
  ca: nats_ca,
  cert: nats_cert,
  key: nats_key,
})

/** A flood of unreadable messages is one line per second and link. */
const LOG_MS = 1_000

/** For resource workers that start together with this graph worker. */
const LET_IN_MS = 60_000
const REFUSED: readonly string[] = [ErrorCode.AuthenticationTimeout, ErrorCode.AuthorizationViolation]

/** Connects, or throws an Error with one sentence: wrong URL, unreachable, refused, no TLS, too old. */
export async function openLink(options: LinkOptions): Promise<Link> {
  const { url, role, sender, log, requireUsers = false, tls = NO_FILES, protocol } = options
  const { servers, user, pass, secure } = parseUrl(url)
  const files = tlsOptions(tls, secure)
  const exposed = servers.filter(server => !isLoopback(new URL(`nats://${server}`).hostname))
  if (!secure && pass !== undefined && exposed.length > 0)
    log.warn({ servers: exposed }, 'the broker password is sent unencrypted; use tls:// in NATS_URL between machines')
  const prefix = inboxPrefix(role, sender?.pool)
  let nc: NatsConnection
  try {
    nc = await connectFirst(sender === undefined ? null : log, {
      servers,
      ...(user === undefined ? {} : { user, pass }),
      // With this option the client refuses a server without TLS; it never falls back to an unencrypted connection.
      ...(secure ? { tls: { ...files, ...identityOf(servers) } } : {}),
      name: `weft-${role}`,
      inboxPrefix: prefix,
      pingInterval: 10_000,
      maxPingOut: 2,
      maxReconnectAttempts: -1,
      // The user of a pool is refused while no resource worker is there to say who it is (bus/pool-users.ts).
      ignoreAuthErrorAbort: sender !== undefined,
      reconnectTimeWait: 250,
      reconnectJitter: 100,
      // The broker waits for 5 s for what a resource worker says about the user of a pool.
      timeout: sender === undefined ? 5_000 : 10_000,
      waitOnFirstConnect: false,
    })
  } catch (error) {
    const { code, message } = error as { code?: string; message: string }
    if (secure && code === ErrorCode.ServerOptionNotAvailable)
      throw new Error(`the NATS server at ${servers.join(', ')} has no TLS, but NATS_URL says tls://`)
    throw new Error(`no NATS server answers as "${role}" at ${servers.join(', ')}: ${message}`)
  }
  const version = nc.info?.version ?? '0'
  if (!isAtLeast(version, 2, 12)) {
    await nc.close()
    throw new Error(`the NATS server at ${servers.join(', ')} is ${version}; Weft needs 2.12 or newer`)
  }
  if (nc.info?.auth_required !== true && exposed.length > 0) {
    const sentence = `the NATS server at ${exposed.join(', ')} has no users: everybody who reaches it can do everything, create keys too; "weft nats config" prints users for it`
    if (requireUsers) {
      await nc.close()
      throw new Error(sentence)
    }
    log.warn(sentence)
  }
  const figures = openFigures()
  figures.count('weft_broker_disconnects_total', { role }, 0)
  figures.count('weft_broker_refusals_total', { role }, 0)
  let isConnected = true
  const listeners = new Set<() => void>()
  void (async () => {
    for await (const { type, data } of nc.status()) {
      if (type === Events.Disconnect) {
        isConnected = false
        figures.count('weft_broker_disconnects_total', { role })
      }
      if (type === Events.Reconnect) {
        isConnected = true
        for (const listener of listeners) listener()
      }
      if (type === Events.Disconnect || type === Events.Reconnect) log.warn({ type, data }, 'broker connection')
      else if (type === Events.Error) {
        figures.count('weft_broker_refusals_total', { role })
        log.error({ type, data }, 'the broker refused an operation')
      }
    }
  })()
  const push = writeOncePerTurn(nc)
  let n = 0
  const base = `${prefix}.${randomBytes(9).toString('hex')}`
  return {
    nc,
    role,
    sender: sender ?? null,
    log,
    build: buildOf(protocol),
    figures,
    subscribe(subject, onMessage, { queue } = {}) {
      const receiver = { onMessage }
      const callback = guarded(log, subject, receiver)
      const subscription = nc.subscribe(subject, { ...(queue === undefined ? {} : { queue }), callback })
      // The client has a Map of subscriptions, which keeps ended ones for a while (schemas/transient.ts).
      void subscription.closed.then(() => (receiver.onMessage = ignore))
      return subscription
    },
    push,
    inbox: () => `${base}${++n}`,
    onReconnect: listener => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    connected: () => isConnected && !nc.isClosed(),
    close() {
      push()
      return nc.close()
    },
  }
}

/** False when the broker keeps the answers from the user of this connection: calls have an effect that nobody learns of. */
export async function receivesAnswers({ nc, inbox }: Pick<Link, 'nc' | 'inbox'>): Promise<boolean> {
  let refused: Error | null = null
  const callback = (error: Error | null) => (refused = error)
  const subscription = (nc as NatsConnection).subscribe(inbox(), { callback })
  // The broker handles what a connection sends in order: when it has answered, it has accepted or refused.
  await nc.flush()
  subscription.unsubscribe()
  return refused === null
}

/**
 * The first connection. Resource workers let the user of a pool in, so its graph worker (with `log`) waits for the first of
 * them: the broker gives a missing answer and a wrong password the same name.
 */
async function connectFirst(log: Log | null, options: ConnectionOptions): Promise<NatsConnection> {
  const until = performance.now() + LET_IN_MS
  for (let tries = 1; ; tries++) {
    try {
      return await connect(options)
    } catch (error) {
      const { code = '' } = error as { code?: string }
      if (log === null || !REFUSED.includes(code) || performance.now() > until) throw error
      if (tries === 1)
        log.warn('the broker refuses this pool: no resource worker runs, or the password is wrong; trying again')
      await sleep(1_000)
    }
  }
}

/** Bytes that are not kept until the end of a turn. */
const WRITE_BYTES = 32 * 1024

/**
 * Makes one write of what a turn of the event loop sends. The client writes after each callback, and each write wakes the
 * broker, which takes 0.1 ms: of short runs, every request had a write for its subscription alone. The method is not public:
 * without it the client writes as before. The result writes at once.
 */
function writeOncePerTurn(nc: NatsConnection): () => void {
  const { protocol } = nc as unknown as { protocol?: { flushPending?(): void; outbound: { size(): number } } }
  if (protocol?.flushPending === undefined) return () => {}
  const write = protocol.flushPending.bind(protocol)
  let isDue = false
  const atEnd = () => {
    isDue = false
    write()
  }
  protocol.flushPending = () => {
    if (protocol.outbound.size() >= WRITE_BYTES) return write()
    if (isDue) return
    isDue = true
    setImmediate(atEnd)
  }
  return write
}

interface Receiver {
  onMessage(message: Msg): void
}
const ignore = () => {}

function guarded(log: Log, subject: string, receiver: Receiver) {
  let loggedAt = -Infinity
  let unlogged = 0
  return (refused: Error | null, message: Msg): void => {
    if (refused !== null) return log.error({ err: refused, subject }, 'the broker refused a subscription')
    try {
      receiver.onMessage(message)
    } catch (error) {
      unlogged++
      if (performance.now() - loggedAt < LOG_MS) return
      loggedAt = performance.now()
      log.error({ err: error, subject: message.subject, messages: unlogged }, 'a message could not be handled')
      unlogged = 0
    }
  }
}

const NO_FILES: TlsFiles = { ca: '', cert: '', key: '' }

/**
 * The client reads the files at each connection, so that new certificates need no restart. Throws an Error with one sentence
 * when a file cannot be read or the URL has no use for it.
 */
function tlsOptions({ ca, cert, key }: TlsFiles, secure: boolean): TlsOptions {
  const files = { WEFT_NATS_CA: ca, WEFT_NATS_CERT: cert, WEFT_NATS_KEY: key }
  for (const [name, file] of Object.entries(files)) {
    if (file === '') continue
    if (!secure) throw new Error(`${name} is set, but NATS_URL has no TLS: write tls:// instead of nats://`)
    try {
      accessSync(file, constants.R_OK)
    } catch (error) {
      throw new Error(`${name} cannot be read: ${(error as Error).message}`)
    }
  }
  if ((cert === '') !== (key === '')) throw new Error('WEFT_NATS_CERT and WEFT_NATS_KEY must be set together')
  return { ...(ca === '' ? {} : { caFile: ca }), ...(cert === '' ? {} : { certFile: cert, keyFile: key }) }
}

/**
 * For servers that are named by addresses: the client names none to the check of a certificate, which then expects
 * "localhost". The certificate must be valid for one of the addresses instead.
 */
function identityOf(servers: readonly string[]): object {
  const names = servers.map(server => new URL(`nats://${server}`).hostname.replace(/^\[|\]$/g, ''))
  const addresses = names.filter(name => isIP(name) !== 0)
  if (addresses.length === 0) return {}
  return {
    checkServerIdentity(name: string, certificate: PeerCertificate) {
      const faults = [...(names.includes(name) ? [name] : []), ...addresses].map(one =>
        checkServerIdentity(one, certificate),
      )
      return faults.includes(undefined) ? undefined : faults[0]
    },
  }
}

const SCHEMES = ['nats:', 'tls:']

interface Address {
  /** host:port */
  servers: string[]
  user: string | undefined
  pass: string | undefined
  /** All URLs say tls://. */
  secure: boolean
}

/** Throws an Error with one sentence, without the credentials, for a URL that is not understood. */
function parseUrl(url: string): Address {
  const urls = url.split(',').map(one => {
    const text = one.includes('://') ? one.trim() : `nats://${one.trim()}`
    if (!URL.canParse(text) || new URL(text).host === '')
      throw new Error('NATS_URL is not a URL such as nats://user:password@host:4222')
    const parsed = new URL(text)
    if (!SCHEMES.includes(parsed.protocol))
      throw new Error(`NATS_URL begins with ${parsed.protocol}//; Weft supports nats:// and tls://`)
    return parsed
  })
  const first = urls[0]!
  if (urls.some(({ protocol }) => protocol !== first.protocol))
    throw new Error('NATS_URL mixes nats:// and tls://: use one of them for all servers')
  return {
    secure: first.protocol === 'tls:',
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
