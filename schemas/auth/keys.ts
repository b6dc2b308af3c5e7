/**
 * Built-in keys: for what no authentication of an application guards. A key is `weft_<id>_<secret>`; the store has its
 * SHA-256 only.
 */
import typia, { type tags } from 'typia'
import type { AuthEvent, AuthUser } from './auth.js'

/**
 * read: everything of the run plane. run: also create threads, and create, join and cancel runs. write: also everything
 * else of the run plane but assistants. assistants: read, and change assistants. deployments: the control plane, but not
 * the tokens of users. oauth: the OAuth flow and its tokens. admin: all of these.
 */
export const SCOPES = ['read', 'run', 'write', 'assistants', 'deployments', 'oauth', 'admin'] as const
export type Scope = (typeof SCOPES)[number]

/** Limits of one key; null: none. */
export interface KeyLimits {
  /** On each edge. */
  requests_per_second: (number & tags.ExclusiveMinimum<0>) | null
  /** Runs that are pending or running, in the whole cluster. */
  running_runs: (number & tags.Type<'uint32'> & tags.Minimum<1>) | null
  /** Streams, waits and WebSockets, on each edge. */
  open_streams: (number & tags.Type<'uint32'> & tags.Minimum<1>) | null
}

export interface KeyCreate {
  name: string & tags.MinLength<1> & tags.MaxLength<200>
  scopes: Scope[] & tags.MinItems<1>
  /** ISO 8601; null or absent: it does not expire. */
  expires_at?: (string & tags.Format<'date-time'>) | null
  limits?: Partial<KeyLimits>
}

/** A key as operators see it. Times are ISO 8601; `last_used_at` is exact to a minute. */
export interface KeyInfo {
  id: string
  name: string
  scopes: Scope[]
  limits: KeyLimits
  created_at: string
  expires_at: string | null
  last_used_at: string | null
  /** The id of a key; `control`: the key of the control plane; `command`: the command `weft keys`. */
  created_by: string
}

/** The answer of a creation. */
export interface KeyCreated extends KeyInfo {
  /** The key itself: it is shown once and not stored. */
  key: string
}

/** The answer of a revocation. */
export interface KeyRevoked {
  id: string
  /** Crons that fired with the key; null: they could not be read, and each is paused at its next time. */
  paused_crons: number | null
}

export interface KeyPage {
  resources: KeyInfo[]
  /** Where the next page begins. */
  offset: number
}

/** A key as edges get it, to verify secrets against. */
export interface KeyRecord {
  id: string
  name: string
  scopes: Scope[]
  limits: KeyLimits
  /** Milliseconds since the epoch. */
  expires_at: number | null
  /** SHA-256 of the whole key, hex. */
  sha256: string
}

export interface KeyRef {
  id: string
}

/** Body of rpc.keys.used: keys that this edge verified since its last report, and when (ms). */
export interface KeysUsed {
  used: { id: string; at: number & tags.Minimum<0> }[] & tags.MaxItems<10000>
}

export const validateKeyCreate = typia.createValidate<KeyCreate>()
export const validateKeyRef = typia.createValidate<KeyRef>()
export const validateKeysUsed = typia.createValidate<KeysUsed>()

const KEY = /^weft_([0-9a-f]{16})_[A-Za-z0-9_-]{43}$/

/** The id in the text of a key; null for a text that is no key. */
export const keyIdOf = (key: string): string | null => KEY.exec(key)?.[1] ?? null

/** Whether a caller is a key, as the edge describes it: for rows of earlier versions, which do not say it. */
export const isKeyUser = ({ identity, permissions }: AuthUser): boolean =>
  /^[0-9a-f]{16}$/.test(identity) &&
  permissions.length > 0 &&
  permissions.every(one => (SCOPES as readonly string[]).includes(one))

const READS = /:(read|search|get|list_namespaces)$/

/** The scopes that a request needs, all of them: as the row of its route says, else by the events that it may fire. */
export function scopesFor({
  auth,
  scope,
}: {
  auth: readonly AuthEvent[] | 'public' | 'control' | 'signed'
  scope?: Scope | readonly Scope[]
}): Scope[] {
  if (auth === 'public' || auth === 'signed') return []
  if (scope !== undefined) return typeof scope === 'string' ? [scope] : [...scope]
  if (auth === 'control') return ['deployments']
  return [...new Set(auth.map(scopeOf))]
}

function scopeOf(event: AuthEvent): Scope {
  if (READS.test(event)) return 'read'
  if (event === 'threads:create' || event === 'threads:create_run') return 'run'
  return event.startsWith('assistants:') ? 'assistants' : 'write'
}

/** The scopes that include this one. */
const INCLUDED_IN: { readonly [scope in Scope]: readonly Scope[] } = {
  read: ['read', 'run', 'write', 'assistants', 'admin'],
  run: ['run', 'write', 'admin'],
  write: ['write', 'admin'],
  assistants: ['assistants', 'admin'],
  deployments: ['deployments', 'admin'],
  oauth: ['oauth', 'admin'],
  admin: ['admin'],
}

/** Whether a key with these scopes may do what needs `wanted`. */
export const allows = (scopes: readonly Scope[], wanted: readonly Scope[]): boolean =>
  wanted.every(one => INCLUDED_IN[one].some(scope => scopes.includes(scope)))
