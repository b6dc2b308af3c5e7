/**
 * A token that is about to expire is refreshed by one call at a time, in the whole cluster: the record of the token holds
 * a lease, and the new tokens are stored only by the call that still holds it. All other calls wait and get the same new
 * token. Two refreshes at once would use one refresh token twice, which providers take for a theft.
 *
 * `invalid_grant` means that the grant has ended, or that somebody else has used the refresh token: the token is removed
 * and revoked, and the next call asks for consent (RFC 9700, 4.14). So is it after a worker died between the answer of
 * the provider and the store: the new refresh token is lost then.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import PQueue from 'p-queue'
import { fail, WeftError } from '../../../schemas/errors.js'
import type { TokenEvent } from '../../../schemas/oauth.js'
import type { Step } from '../../../store/steps.js'
import { TOTAL_MS } from '../../outbound.js'
import { clock } from '../clock.js'
import type { Deps } from '../context.js'
import { tokenPlace } from '../keys/ring.js'
import { type Granted, isUnreachable, ProviderRefused, reasonOf, refreshGrant, revokeAtProvider } from './client.js'
import { type ProviderBody, providerOf } from './provider-row.js'
import { audit, CONNECTION, parse, patchOf, type Row, TOKEN, type TokenBody } from './rows.js'

/** A token that is valid for less is refreshed (docs/spec/oauth.md#tokens); a short-lived one in its last half. */
const EARLY_MS = 60_000
const TRIES = 3
const PAUSE_MS = 500
/** Longer than all tries (10 s each): nobody else may use the refresh token while an answer may still come. */
const LEASE_MS = 45_000
/** How often a call looks whether another worker has finished. */
const LOOK_MS = 200
/** Refresh tokens of a provider that are revoked at the same time. */
const REVOCATIONS = 8

/** The token, valid for a minute at least if the provider allows; null: it was removed. Throws bad_gateway. */
export async function freshToken(
  deps: Deps,
  id: string,
): Promise<{ token: Row<TokenBody>; access_token: string } | null> {
  for (;;) {
    const found = await findToken(deps, id)
    if (found === null) return null
    if (!isDue(found)) return opened(deps, found)
    const done = await deps.serialize(`oauth token ${id}`, () => refreshIfDue(deps, id), LEASE_MS)
    if (done === 'removed') return null
    if (done === 'held') await sleep(LOOK_MS)
    if (done !== 'refreshed') continue
    // However short it lives: no second refresh for the same call.
    const refreshed = await findToken(deps, id)
    return refreshed === null ? null : opened(deps, refreshed)
  }
}

export async function findToken({ store }: Deps, id: string): Promise<Row<TokenBody> | null> {
  const row = await store.records.get(TOKEN, id)
  return row === null ? null : parse<TokenBody>(row)
}

/** Without a refresh token it serves until it expires. */
function isDue({ body: { expires_at, refresh_at, refresh_token } }: Row<TokenBody>): boolean {
  const due_at = refresh_token === null ? expires_at : refresh_at
  return due_at !== null && due_at <= clock.now()
}

const opened = ({ ring }: Deps, token: Row<TokenBody>) => ({
  token,
  access_token: ring.open(token.body.access_token, tokenPlace(token.row.id, 'access_token')),
})

/** `held`: another worker refreshes it. `refreshed`: this call did. */
async function refreshIfDue(deps: Deps, id: string): Promise<'ready' | 'refreshed' | 'held' | 'removed'> {
  const token = await findToken(deps, id)
  if (token === null) return 'removed'
  if (!isDue(token)) return 'ready'
  const { refresh_token, lease } = token.body
  const provider = await providerOf(deps.store, token.row)
  if (provider === null || refresh_token === null) {
    await removeToken(deps, token, 'expired')
    return 'removed'
  }
  if (lease !== null && lease.until > clock.now()) return 'held'
  const mine: Lease = { holder: randomUUID(), until: clock.now() + LEASE_MS }
  if ((await deps.store.apply([patchOf(token, { lease: mine })])) !== -1) return 'held'
  return refresh(deps, provider, token, mine, deps.ring.open(refresh_token, tokenPlace(id, 'refresh_token')))
}

type Lease = NonNullable<TokenBody['lease']>

async function refresh(
  deps: Deps,
  provider: Row<ProviderBody>,
  { row: { id }, body }: Row<TokenBody>,
  { holder, until }: Lease,
  refresh_token: string,
): Promise<'ready' | 'refreshed' | 'removed'> {
  let granted: Granted
  try {
    granted = await withTries(() => refreshGrant(deps, provider, refresh_token), until)
  } catch (error) {
    if (!(error instanceof ProviderRefused) || error.code !== 'invalid_grant') {
      await storeIfHeld(deps, id, holder, { lease: null })
      throw notRefreshed(deps, id, body.provider_id, error)
    }
    const current = await heldBy(deps, id, holder)
    if (current === null) return 'ready'
    await revokeToken(deps, provider, current)
    await removeToken(deps, current, 'refresh_refused', error.code)
    return 'removed'
  }
  const change = { ...materialOf(deps, id, granted), scopes: granted.scopes ?? body.scopes, lease: null }
  const event = audit(deps, 'refreshed', body, { token_id: id })
  if (await storedBy(until, () => storeIfHeld(deps, id, holder, change, event))) return 'refreshed'
  if ((await findToken(deps, id)) !== null) return 'ready'
  // Deleted meanwhile: nobody else will revoke the new tokens.
  await revoke(deps, provider, id, () => granted)
  return 'removed'
}

/** The old refresh token is used up: a database that fails for a moment must not lose the new one. */
async function storedBy<T>(until: number, work: () => Promise<T>): Promise<T> {
  for (;;)
    try {
      return await work()
    } catch (error) {
      if (clock.now() + PAUSE_MS > until) throw error
      await sleep(PAUSE_MS)
    }
}

function notRefreshed({ link }: Deps, token_id: string, provider_id: string, error: unknown): Error {
  if (error instanceof WeftError) return error
  link.log.warn({ reason: reasonOf(error), token_id, provider_id }, 'a token could not be refreshed')
  const why = error instanceof ProviderRefused ? `answered ${error.code}` : 'gave no valid answer'
  return fail('bad_gateway', `OAuth provider ${provider_id} ${why}: the token could not be refreshed`)
}

/**
 * A request that the provider refuses is not repeated. Nothing is sent when an answer might come after `until` (ms), as after a
 * pause of this process: another worker may use the refresh token then.
 */
async function withTries(work: () => Promise<Granted>, until: number): Promise<Granted> {
  for (let tries = 1; ; tries++)
    try {
      if (clock.now() + TOTAL_MS > until) throw fail('unavailable')
      return await work()
    } catch (error) {
      if (error instanceof ProviderRefused || error instanceof WeftError || tries === TRIES) throw error
      await sleep(PAUSE_MS * tries)
    }
}

type Material = Pick<TokenBody, 'access_token' | 'expires_at' | 'refresh_at'> &
  Partial<Pick<TokenBody, 'refresh_token'>>

/** The sealed tokens of a grant. A provider that does not rotate leaves out the refresh token: the old one stays. */
export function materialOf({ ring }: Deps, id: string, granted: Granted): Material {
  const { access_token, refresh_token, expires_at } = granted
  const now = clock.now()
  return {
    access_token: ring.seal(access_token, tokenPlace(id, 'access_token')),
    ...(refresh_token === null ? {} : { refresh_token: ring.seal(refresh_token, tokenPlace(id, 'refresh_token')) }),
    expires_at,
    refresh_at: expires_at === null ? null : expires_at - Math.min(EARLY_MS, Math.max(0, expires_at - now) / 2),
  }
}

/** The token while this call holds its lease; null: another call took it over, or the token was removed. */
async function heldBy(deps: Deps, id: string, holder: string): Promise<Row<TokenBody> | null> {
  const token = await findToken(deps, id)
  return token?.body.lease?.holder === holder ? token : null
}

/** Other changes of the record, as of its label, are kept. False: this call holds the lease no more. */
async function storeIfHeld(
  deps: Deps,
  id: string,
  holder: string,
  change: Partial<TokenBody>,
  ...more: Step[]
): Promise<boolean> {
  for (;;) {
    const token = await heldBy(deps, id, holder)
    if (token === null) return false
    if ((await deps.store.apply([patchOf(token, change), ...more])) !== 0) return true
  }
}

/** Removes the token from the store, and agents' connections to it. */
export async function removeToken(
  deps: Deps,
  { row, body }: Row<TokenBody>,
  why: TokenEvent['type'],
  error?: string,
): Promise<void> {
  await deps.store.apply(removal(deps, { row, body }, why, error))
}

/** The first step decides; `where`: only as it was read. */
const removal = (
  deps: Deps,
  { row: { id }, body }: Row<TokenBody>,
  why: TokenEvent['type'],
  error?: string,
  where: { rev?: number } = {},
): Step[] => [
  { step: 'records.remove', kind: TOKEN, id, where },
  { step: 'records.clear', kind: CONNECTION, parent: id },
  audit(deps, why, body, { token_id: id, error }),
]

/**
 * Revokes and removes the token, also the one that a refresh stores meanwhile. `isReachable`: false leaves out the provider;
 * `provider`: null when there is none. Resolves to whether it can still be reached.
 */
export async function endToken(
  deps: Deps,
  provider: Row<ProviderBody> | null,
  token: Row<TokenBody>,
  isReachable = true,
): Promise<boolean> {
  let revoked: string | null = null
  for (let current: Row<TokenBody> | null = token; current !== null; current = await findToken(deps, token.row.id)) {
    const { access_token } = current.body
    if (provider !== null && isReachable && access_token !== revoked)
      isReachable = await revokeToken(deps, provider, current)
    revoked = access_token
    const { rev } = current.row
    if ((await deps.store.apply(removal(deps, current, 'deleted', undefined, { rev }))) === -1) break
  }
  return isReachable
}

/** At the provider, as far as it lets us: what it does not revoke expires there. False: it could not be reached. */
export async function revokeToken(
  deps: Deps,
  provider: Row<ProviderBody>,
  { row: { id }, body }: Row<TokenBody>,
): Promise<boolean> {
  const open = (member: 'access_token' | 'refresh_token', sealed: string) =>
    deps.ring.open(sealed, tokenPlace(id, member))
  return revoke(deps, provider, id, () => ({
    access_token: open('access_token', body.access_token),
    refresh_token: body.refresh_token === null ? null : open('refresh_token', body.refresh_token),
  }))
}

/** The refresh token ends the whole grant. */
async function revoke(
  deps: Deps,
  provider: Row<ProviderBody>,
  token_id: string,
  read: () => Pick<Granted, 'access_token' | 'refresh_token'>,
): Promise<boolean> {
  try {
    const { access_token, refresh_token } = read()
    const hint = refresh_token === null ? 'access_token' : 'refresh_token'
    await revokeAtProvider(deps, provider, refresh_token ?? access_token, hint)
    return true
  } catch (error) {
    deps.link.log.warn({ reason: reasonOf(error), token_id }, 'a token was not revoked')
    return !isUnreachable(error)
  }
}

/** Revokes and removes tokens of one provider. Once it could not be reached, it is not asked again. Resolves to their number. */
export async function endTokens(
  deps: Deps,
  provider: Row<ProviderBody>,
  tokens: AsyncIterable<Row<TokenBody>>,
): Promise<number> {
  const all: Row<TokenBody>[] = []
  for await (const token of tokens) all.push(token)
  let isReachable = true
  const end = async (token: Row<TokenBody>) => {
    const answered = await endToken(deps, provider, token, isReachable)
    isReachable &&= answered
  }
  await new PQueue({ concurrency: REVOCATIONS }).addAll(all.map(token => () => end(token)))
  return all.length
}
