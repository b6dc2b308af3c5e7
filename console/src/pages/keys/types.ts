/** Keys as the API has them (docs/authentication.md). */
export const SCOPES = [
  ['read', 'everything of the run plane, without changes'],
  ['run', 'also create threads, and create, join and cancel runs'],
  ['write', 'also everything else of the run plane but assistants'],
  ['assistants', 'read, and change assistants'],
  ['deployments', 'the control plane, but not the tokens of users'],
  ['oauth', 'the OAuth flow and its tokens'],
  ['admin', 'all of it, and keys'],
] as const
export type Scope = (typeof SCOPES)[number][0]

export interface Limits {
  requests_per_second: number | null
  running_runs: number | null
  open_streams: number | null
}
export const LIMITS: readonly [name: keyof Limits, label: string][] = [
  ['requests_per_second', 'Requests per second'],
  ['running_runs', 'Runs that have not ended'],
  ['open_streams', 'Open streams'],
]

export interface Key {
  id: string
  name: string
  scopes: Scope[]
  limits: Limits
  created_at: string
  expires_at: string | null
  last_used_at: string | null
  created_by: string
}
