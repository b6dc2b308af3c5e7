/**
 * Verifies built-in keys (schemas/auth/keys.ts). The resource worker has their digests; this caches them, so that a revoked or
 * expired key stops working within half a minute, for requests and for open streams. Limits of a key are counted here.
 */
import { createHmac, hash, timingSafeEqual } from 'node:crypto'
import type { Caller } from '../bus/call.js'
import type { Link } from '../bus/connect.js'
import { type KeyRecord, type KeysUsed, keyIdOf } from '../schemas/auth/keys.js'
import { event, rpc } from '../schemas/subjects.js'

export interface Keys {
  /** The key, once its secret is verified; null for a text that is no valid key. Rejects with `unavailable` when no worker can tell. */
  find(text: string, request_id: string): Key | null | Promise<Key | null>
  /**
   * A text that stands for the key in requests that an application passes on to any edge. The digest of the key signs it,
   * which no code of applications knows.
   */
  ticketOf(key: Key, app: string): string
  /** The key that a ticket for this application stands for; null for anything else. */
  redeem(ticket: Ticket, request_id: string): Key | null | Promise<Key | null>
  close(): void
}

export interface Ticket {
  text: string
  /** The application that the request came from. */
  app: string
}

/** A key that was verified. */
export interface Key {
  readonly record: KeyRecord
  /** Counts one request; seconds to wait when there were too many, else 0. */
  take(): number
  /** Takes a place for a stream, which `end` ends when the key is revoked; null when it has too many. */
  openStream(end: () => void): (() => void) | null
}

/** Lifetime of a cached key. */
const CACHE_MS = 30_000
/** Lifetime of the knowledge that there is no key with an id. */
const MISSING_MS = 1_000
const MAX_CACHED = 10_000
const REPORT_MS = 60_000
/** Lifetime of a ticket, longer than middleware holds a request. */
const TICKET_MS = 3_600_000
const TICKET = /^([0-9a-f]{16})\.([0-9a-z]{1,11})\.([\w-]{43})$/

interface Entry extends Key {
  record: KeyRecord
  digest: Buffer
  fetchedAt: number
  usedAt: number
  streams: Set<() => void>
}

export function openKeys(link: Link, caller: Caller): Keys {
  const cached = new Map<string, Entry>()
  const missing = new Map<string, number>()
  const asking = new Map<string, Promise<Entry | null>>()
  let reportedAt = Date.now()

  /** Asks the resource worker; one question at a time for one id. */
  function fetch(id: string, request_id: string): Promise<Entry | null> {
    const asked = asking.get(id)
    if (asked !== undefined) return asked
    const work = ask(id, request_id).finally(() => asking.delete(id))
    asking.set(id, work)
    return work
  }

  async function ask(id: string, request_id: string): Promise<Entry | null> {
    const { body } = await caller.ask(rpc('keys', 'get'), { request_id }, Buffer.from(JSON.stringify({ id })))
    const record = JSON.parse(Buffer.from(body).toString()) as KeyRecord | null
    const known = cached.get(id)
    if (record === null || isExpired(record)) {
      forget(id, known)
      if (missing.size >= MAX_CACHED) missing.clear()
      missing.set(id, performance.now() + MISSING_MS)
      return null
    }
    if (known !== undefined)
      return Object.assign(known, { record, digest: digestOf(record), fetchedAt: performance.now() })
    if (cached.size >= MAX_CACHED)
      for (const [other, entry] of cached) if (entry.streams.size === 0) cached.delete(other)
    const entry = newEntry(record)
    cached.set(id, entry)
    return entry
  }

  /** The key is revoked or has expired. */
  function forget(id: string, entry: Entry | undefined): void {
    cached.delete(id)
    for (const end of [...(entry?.streams ?? [])]) end()
  }

  function recheck(entries: Iterable<Entry>): void {
    for (const { record } of entries)
      fetch(record.id, 'key-recheck').catch(error =>
        link.log.warn({ err: error, key_id: record.id }, 'a key could not be checked again'),
      )
  }

  const timer = setInterval(() => {
    const now = Date.now()
    recheck([...cached.values()].filter(entry => entry.streams.size > 0))
    if (now - reportedAt < REPORT_MS) return
    const used = [...cached.values()].filter(({ usedAt }) => usedAt >= reportedAt)
    reportedAt = now
    if (used.length === 0) return
    const report: KeysUsed = { used: used.map(({ record, usedAt }) => ({ id: record.id, at: usedAt })) }
    caller
      .ask(rpc('keys', 'used'), { request_id: 'keys-used' }, Buffer.from(JSON.stringify(report)))
      .catch(error => link.log.debug({ err: error }, 'the use of keys could not be reported'))
  }, CACHE_MS)
  timer.unref()
  const changed = link.subscribe(event('keys', 'changed'), () => {
    missing.clear()
    for (const entry of cached.values()) entry.fetchedAt = -Infinity
    recheck([...cached.values()].filter(entry => entry.streams.size > 0))
  })

  /** The key with this id, if it passes. */
  function lookUp(
    id: string,
    request_id: string,
    passes: (entry: Entry) => boolean,
  ): Entry | null | Promise<Entry | null> {
    const verify = (entry: Entry | null): Entry | null => {
      if (entry === null || !passes(entry) || isExpired(entry.record)) return null
      entry.usedAt = Date.now()
      return entry
    }
    const entry = cached.get(id)
    if (entry !== undefined && performance.now() - entry.fetchedAt < CACHE_MS) return verify(entry)
    if ((missing.get(id) ?? 0) > performance.now()) return null
    return fetch(id, request_id).then(verify)
  }

  return {
    find(text, request_id) {
      const id = keyIdOf(text)
      return id === null ? null : lookUp(id, request_id, ({ digest }) => isDigestOf(text, digest))
    },
    ticketOf({ record }, app) {
      const at = Date.now().toString(36)
      return `${record.id}.${at}.${signatureOf(digestOf(record), app, at)}`
    },
    redeem({ text, app }, request_id) {
      const [, id, at, signature] = TICKET.exec(text) ?? []
      if (id === undefined || Math.abs(Date.now() - Number.parseInt(at!, 36)) > TICKET_MS) return null
      return lookUp(id, request_id, ({ digest }) =>
        timingSafeEqual(Buffer.from(signatureOf(digest, app, at!)), Buffer.from(signature!)),
      )
    },
    close() {
      clearInterval(timer)
      changed.unsubscribe()
    },
  }
}

function isDigestOf(text: string, digest: Buffer): boolean {
  given.write(hash('sha256', text, 'binary'), 'binary')
  return timingSafeEqual(given, digest)
}

const signatureOf = (digest: Buffer, app: string, at: string): string =>
  createHmac('sha256', digest).update(`caller ${at} ${app}`).digest('base64url')

export const isExpired = ({ expires_at }: KeyRecord): boolean => expires_at !== null && expires_at <= Date.now()
const digestOf = ({ sha256 }: KeyRecord): Buffer => Buffer.from(sha256, 'hex')
/** The digest of the key that is verified: a new buffer for each would cost more than the digest. */
const given = Buffer.alloc(32)

function newEntry(record: KeyRecord): Entry {
  /** Requests that may come at once, refilled at the rate of the limit. */
  let tokens = Number.NaN
  let filledAt = 0
  const entry: Entry = {
    record,
    digest: digestOf(record),
    fetchedAt: performance.now(),
    usedAt: 0,
    streams: new Set(),
    take() {
      const rate = entry.record.limits.requests_per_second
      if (rate === null) return 0
      const now = performance.now()
      const most = Math.max(1, rate)
      tokens = Number.isNaN(tokens) ? most : Math.min(most, tokens + ((now - filledAt) / 1_000) * rate)
      filledAt = now
      if (tokens < 1) return Math.ceil((1 - tokens) / rate)
      tokens--
      return 0
    },
    openStream(end) {
      const most = entry.record.limits.open_streams
      if (most !== null && entry.streams.size >= most) return null
      // Each stream has a function of its own.
      const own = () => end()
      entry.streams.add(own)
      return () => void entry.streams.delete(own)
    },
  }
  return entry
}
