/**
 * Records of the OAuth flow. Tokens, verifiers and client secrets are sealed; of a state only the SHA-256 is stored.
 * `parent` of flows and tokens is the record of the provider, that of a connection is the token.
 */
import { hash } from 'node:crypto'
import { v7 } from 'uuid'
import type { CallHead } from '../../../schemas/calls.js'
import { fail } from '../../../schemas/errors.js'
import { type JsonObject, time } from '../../../schemas/json.js'
import type { TokenEvent, TokenSummary } from '../../../schemas/oauth.js'
import type { RecordRow } from '../../../store/rows/records.js'
import type { Step } from '../../../store/steps.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import { newRecord } from '../rows/record.js'

export const FLOW = 'oauth_flow'
export const TOKEN = 'oauth_token'
export const CONNECTION = 'oauth_connection'
export const EVENT = 'oauth_event'

/** Whose token it is. */
export interface Subject {
  /** Null: the key `owner` itself. */
  user_id: string | null
  agent_id: string | null
  /** The key that began the flow: its id, or `control`. */
  owner: string
}

/** `name` is the SHA-256 of the state, `due_at` the expiry. */
export interface FlowBody extends Subject {
  provider_id: string
  scopes: string[]
  redirect_uri: string
  /** Sealed; null: no PKCE, or the state was used. */
  verifier: string | null
  is_default: boolean
  /** How the browser is bound: by the cookie of the start page, by the key of a POST, or not at all. */
  bound: 'cookie' | 'key' | 'none'
  /** `exchanging`: the state was used. */
  status: 'pending' | 'exchanging' | 'completed' | 'failed'
  /** Once completed. */
  token_id: string | null
  /** Once failed: an error code. */
  error: string | null
}

export interface TokenBody extends Subject {
  provider_id: string
  scopes: string[]
  /** Sealed. */
  access_token: string
  /** Sealed; null: the provider gave none. */
  refresh_token: string | null
  /** Milliseconds since the epoch; null: unlimited. */
  expires_at: number | null
  /** From then on a token with a refresh token is refreshed before it is used. */
  refresh_at: number | null
  is_default: boolean
  metadata: JsonObject
  provider_account_label: string | null
  /** The call that refreshes the token now, and until when no other one may (ms). */
  lease: { holder: string; until: number } | null
}

export interface Row<Body> {
  row: RecordRow
  body: Body
}

export const parse = <Body>(row: RecordRow): Row<Body> => ({ row, body: JSON.parse(row.body) as Body })

/** Keys of tokens and connections, for searches. */
export const subjectKey = (provider: RecordRow, { user_id, owner }: Subject): string =>
  hash('sha256', `${provider.id} ${user_id === null ? `key ${owner}` : `user ${user_id}`}`, 'base64url')
export const ownerKey = (owner: string): string => `by ${owner}`
export const agentKey = (agent_id: string): string => hash('sha256', `agent ${agent_id}`, 'base64url')

/** The key of the request: the id of a key, or `control`. Nothing is done for a caller that was not identified. */
export function callerOf({ by }: CallHead): string {
  if (by === undefined) throw fail('unauthorized')
  return by
}

/** The key of the control plane may act on every token, another key on those that it obtained. */
export const owns = (caller: string, { owner }: Pick<Subject, 'owner'>): boolean =>
  caller === 'control' || caller === owner

/** A change of the body, under the condition that nobody else has changed the record. */
export const patchOf = <Body>(
  { row, body }: Row<Body>,
  change: Partial<Body>,
  more: Partial<Pick<RecordRow, 'due_at' | 'keys'>> = {},
): Step => ({
  step: 'records.patch',
  kind: row.kind,
  id: row.id,
  where: { rev: row.rev },
  set: {
    body: JSON.stringify({ ...body, ...change }),
    updated_at: Math.max(clock.now(), row.updated_at + 1),
    ...more,
  },
})

/** The row after `patchOf` was applied. */
export const patched = <Body>({ row, body }: Row<Body>, change: Partial<Body>): Row<Body> => ({
  row: { ...row, rev: row.rev + 1, updated_at: Math.max(clock.now(), row.updated_at + 1) },
  body: { ...body, ...change },
})

const timeOrNull = (ms: number | null): string | null => (ms === null ? null : time(ms))

export const summaryOf = ({ row, body }: Row<TokenBody>): TokenSummary => ({
  id: row.id,
  provider_id: body.provider_id,
  user_id: body.user_id,
  agent_id: body.agent_id,
  provider_account_label: body.provider_account_label,
  scopes: body.scopes,
  expires_at: timeOrNull(body.expires_at),
  is_default: body.is_default,
  created_at: time(row.created_at),
  updated_at: time(row.updated_at),
})

const EVENTS_KEPT_MS = 90 * 24 * 3_600_000

type EventBody = Omit<TokenEvent, 'id' | 'created_at'>

/** The audit entry of a change, to be applied with it; also one line of the log. */
export function audit(
  deps: Deps,
  type: TokenEvent['type'],
  of: Subject & { provider_id: string },
  more: {
    token_id?: string
    error?: string
  },
): Step {
  const { provider_id, user_id, agent_id, owner } = of
  const { token_id = null, error = null } = more
  const body: EventBody = { type, provider_id, token_id, user_id, agent_id, by: owner, error }
  deps.link.log.info({ event: type, provider_id, token_id, by: owner, error }, 'oauth token event')
  const row = newRecord(EVENT, v7(), {
    keys: [ownerKey(owner)],
    body: JSON.stringify(body),
    due_at: clock.now() + EVENTS_KEPT_MS,
  })
  return { step: 'records.insert', row }
}

export const eventOut = ({ id, body, created_at }: RecordRow): TokenEvent => ({
  id,
  ...(JSON.parse(body) as EventBody),
  created_at: time(created_at),
})
