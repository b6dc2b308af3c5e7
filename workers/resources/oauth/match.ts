/** Which stored token serves a request (docs/spec/oauth.md#authenticate). */
import type { Store } from '../../../store/port.js'
import { each } from '../rows/record.js'
import type { ProviderBody } from './provider-row.js'
import { agentKey, CONNECTION, parse, type Row, type Subject, subjectKey, TOKEN, type TokenBody } from './rows.js'

/**
 * Tokens of the user at the provider that have the scopes, best first: those of the agent, those it is connected to,
 * those of no agent; each with the default one first, then the newest.
 */
export async function matchingTokens(
  store: Store,
  provider: Row<ProviderBody>,
  subject: Subject,
  scopes: readonly string[],
): Promise<Row<TokenBody>[]> {
  const { agent_id } = subject
  const connected = agent_id === null ? new Set<string>() : await connectedTokens(store, agent_id)
  const found: { token: Row<TokenBody>; rank: number }[] = []
  for await (const row of each(store, { kind: TOKEN, keys: [subjectKey(provider.row, subject)] })) {
    const token = parse<TokenBody>(row)
    const { body } = token
    // The key is a hash: it only narrows the search.
    if (body.user_id !== subject.user_id || (body.user_id === null && body.owner !== subject.owner)) continue
    const rank = body.agent_id === agent_id ? 0 : connected.has(row.id) ? 1 : body.agent_id === null ? 2 : null
    if (rank !== null && hasScopes(provider.body, body, scopes)) found.push({ token, rank })
  }
  const order = ({ token: { body, row }, rank }: (typeof found)[number]) => [
    rank,
    body.is_default ? 0 : 1,
    -row.created_at,
  ]
  return found
    .map(one => ({ ...one, order: order(one) }))
    .sort((a, b) => a.order.reduce((sign, value, i) => sign || value - b.order[i]!, 0))
    .map(({ token }) => token)
}

/** Tokens of any user that this agent is connected to. */
async function connectedTokens(store: Store, agent_id: string): Promise<Set<string>> {
  const found = new Set<string>()
  for await (const { parent, name } of each(store, { kind: CONNECTION, keys: [agentKey(agent_id)] }))
    if (name !== null) found.add(parent)
  return found
}

/**
 * Providers answer some scopes in another form, and an exact comparison would ask for consent again and again. One that
 * issues a refresh token has granted offline access, although many do not list that scope; Microsoft leaves out the
 * address of the API; Google adds one to `email` and `profile`.
 */
function hasScopes(
  { provider_type }: ProviderBody,
  { scopes: granted, refresh_token }: TokenBody,
  wanted: readonly string[],
): boolean {
  const form = (scope: string) =>
    provider_type === 'microsoft' ? scope.slice(scope.lastIndexOf('/') + 1).toLowerCase() : scope.replace(GOOGLE, '')
  const have = new Set(granted.map(form))
  if (refresh_token !== null) for (const scope of OFFLINE) have.add(scope)
  return wanted.every(scope => have.has(form(scope)))
}

const GOOGLE = /^https:\/\/www\.googleapis\.com\/auth\/userinfo\./
const OFFLINE = ['offline_access', 'refresh_token']
