/** OAuth providers on the wire (docs/spec/oauth.md#providers). */
import typia, { type tags } from 'typia'

type Name = string & tags.MinLength<1> & tags.MaxLength<255>
type ClientId = string & tags.MinLength<1> & tags.MaxLength<2048>
type ClientSecret = string & tags.MinLength<1> & tags.MaxLength<16384>
type Url = string & tags.MinLength<1> & tags.MaxLength<2048>
type ChallengeMethod = 'S256' | 'plain'
type ProviderType = 'microsoft' | 'salesforce' | 'slack' | 'custom'
type ClientAuthentication = 'none' | 'client_secret_basic' | 'client_secret_post'

export interface ProviderPatch {
  name?: Name | null
  client_id?: ClientId | null
  client_secret?: ClientSecret | null
  auth_url?: Url | null
  token_url?: Url | null
  uses_pkce?: boolean | null
  code_challenge_method?: ChallengeMethod | null
  issuer?: Url | null
  revocation_url?: Url | null
}

export interface ProviderCreate {
  provider_id: string & tags.Pattern<'^[a-z0-9][a-z0-9_-]{0,62}$'>
  name: Name
  client_id: ClientId
  client_secret?: ClientSecret | null
  auth_url: Url
  token_url: Url
  uses_pkce?: boolean | null
  code_challenge_method?: ChallengeMethod | null
  provider_type?: ProviderType | null
  token_endpoint_auth_method?: ClientAuthentication | null
  /** The provider names itself in `iss` of its answers (RFC 9207); an answer without it is then refused. */
  issuer?: Url | null
  /** Where tokens are revoked (RFC 7009). */
  revocation_url?: Url | null
}

/** The answer; `client_secret` is never part of it. */
export interface Provider {
  id: string
  organization_id: string
  provider_id: string
  name: string
  client_id: string
  auth_url: string
  token_url: string
  uses_pkce: boolean
  code_challenge_method: ChallengeMethod
  created_at: string
  updated_at: string
  provider_type: ProviderType
  token_endpoint_auth_method: ClientAuthentication
  issuer: string | null
  revocation_url: string | null
  /** The MCP server that the provider was discovered from. */
  mcp_server_url: string | null
  /** The client was registered by this server (RFC 7591). */
  is_dynamic_client: boolean
}

export const validateProviderCreate = typia.createValidate<ProviderCreate>()
export const validateProviderPatch = typia.createValidate<ProviderPatch>()
