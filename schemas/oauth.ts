/**
 * The OAuth flow on the wire: consent, tokens, connections of agents (docs/spec/oauth.md). Only `authenticate`
 * and `wait` answer with a token.
 */
import typia, { type tags } from 'typia'
import type { JsonObject } from './json.js'

type Id = string & tags.MinLength<1> & tags.MaxLength<255>
type Scope = string & tags.MinLength<1> & tags.MaxLength<1024>
type Scopes = Scope[] & tags.MaxItems<100>
type TokenText = string & tags.MinLength<1> & tags.MaxLength<65536>
type Label = string & tags.MaxLength<255>

export interface Authenticate {
  /** The `provider_id` of an OAuth provider. */
  provider: Id
  /** A set. */
  scopes: Scopes
  /** The end user of the caller's application; absent: the key of the request stands for the user. */
  user_id?: Id | null
  ls_user_id?: Id | null
  agent_id?: Id | null
  /** Asks for consent although a stored token would do. */
  force_new?: boolean
  /** The token of a new consent replaces the default token of the same user and agent. */
  is_default?: boolean
  /** Only this stored token. */
  token_id?: (string & tags.Format<'uuid'>) | null
  redirect_uri?: (string & tags.MinLength<1> & tags.MaxLength<2048>) | null
}

export type Authenticated =
  | { status: 'completed'; token: string; user_id: string | null; metadata: JsonObject }
  /** `token_expired`: the token that was asked for by its id can no longer be used. */
  | { status: 'pending' | 'token_expired'; url: string; auth_id: string }

export interface Waited {
  /** `pending` answers timeout=0 only. `not_found`: unknown, expired or failed. */
  status: 'completed' | 'pending' | 'timeout' | 'not_found'
  token?: string
  /** The error code of a flow that failed. */
  error?: string
}

/** Body of rpc.oauth.peek, and of the event that a flow has ended. */
export interface AuthRef {
  auth_id: string
}

/** Body of POST callback: the answer of the provider, brought by the key that began the flow. */
export interface CallbackPost {
  code: string & tags.MinLength<1> & tags.MaxLength<8192>
  state: string & tags.MinLength<1> & tags.MaxLength<512>
  iss?: (string & tags.MaxLength<2048>) | null
}

/** Body of rpc.oauth.start and rpc.oauth.callback: what a browser has sent. */
export interface BrowserVisit {
  /** Raw, without "?". */
  query: string
  /** Cookies of OAuth flows, by name. */
  cookies: { [name: string]: string }
}

/** Answer of rpc.oauth.start: where the browser goes, and the cookie that binds it to the flow. */
export interface FlowStart {
  url: string
  cookie: { name: string; value: string; seconds: number }
}

/** Answer of rpc.oauth.callback: what the page tells the person. Plain text. */
export interface FlowEnd {
  ok: boolean
  title: string
  text: string
}

export interface TokenImport {
  provider_id: Id
  access_token: TokenText
  refresh_token?: TokenText | null
  expires_in_seconds?: (number & tags.Type<'uint32'> & tags.Minimum<1>) | null
  scopes?: Scopes | null
  metadata?: JsonObject | null
  is_default?: boolean | null
  user_id?: Id | null
  agent_id?: Id | null
}

export interface TokenPatch {
  provider_account_label?: Label | null
  is_default?: boolean | null
}

/** A stored token without its material. */
export interface TokenSummary {
  id: string
  provider_id: string
  user_id: string | null
  agent_id: string | null
  provider_account_label: string | null
  scopes: string[]
  expires_at: string | null
  is_default: boolean
  created_at: string
  updated_at: string
}

export interface ConnectionCreate {
  oauth_token_id: string & tags.Format<'uuid'>
}

/** An agent that may use the token of a user as if that was its own. */
export interface Connection {
  id: string
  agent_id: string
  oauth_token_id: string
  provider_id: string
  provider_account_label: string | null
  scopes: string[]
  expires_at: string | null
  created_by: string
  created_at: string
}

export type TokenEventType =
  | 'granted'
  | 'imported'
  | 'refreshed'
  | 'refresh_refused'
  | 'deleted'
  | 'expired'
  | 'consent_failed'

/** An entry of the audit list. */
export interface TokenEvent {
  id: string
  type: TokenEventType
  provider_id: string
  token_id: string | null
  user_id: string | null
  agent_id: string | null
  /** The key that caused it, or whose token it was. */
  by: string
  /** The error code of the provider. */
  error: string | null
  created_at: string
}

/** A provider that is found by the address of an MCP server. */
export interface McpDiscover {
  provider_id: string & tags.Pattern<'^[a-z0-9][a-z0-9_-]{0,62}$'>
  name: string & tags.MinLength<1> & tags.MaxLength<255>
  mcp_server_url: string & tags.MinLength<1> & tags.MaxLength<2048>
}

export const validateAuthenticate = typia.createValidate<Authenticate>()
export const validateAuthRef = typia.createValidate<AuthRef>()
export const validateCallbackPost = typia.createValidate<CallbackPost>()
export const validateBrowserVisit = typia.createValidate<BrowserVisit>()
export const validateTokenImport = typia.createValidate<TokenImport>()
export const validateTokenPatch = typia.createValidate<TokenPatch>()
export const validateConnectionCreate = typia.createValidate<ConnectionCreate>()
export const validateMcpDiscover = typia.createValidate<McpDiscover>()
