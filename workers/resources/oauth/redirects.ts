/**
 * Where a provider sends the browser back (API: control-plane 9.4, step 3). Only addresses of this server, and those of
 * WEFT_OAUTH_REDIRECTS, letter by letter: any other one would give the code away.
 */
import type { Config } from '../../../schemas/config.js'
import { InvalidFields } from '../../../schemas/errors.js'

export interface Redirect {
  uri: string
  /** The page behind it is not ours: it brings code and state with its key. */
  isForeign: boolean
}

/** Throws InvalidFields for an address that is not among them. `origin`: where clients reach this server. */
export function redirectOf(
  { oauth_redirects }: Config,
  origin: string,
  provider_id: string,
  given: string | null | undefined,
): Redirect {
  const own = PATHS.map(path => `${origin}${path}/${provider_id}`)
  if (given === undefined || given === null) return { uri: own[0]!, isForeign: false }
  if (own.includes(given)) return { uri: given, isForeign: false }
  const foreign = oauth_redirects.split(',').map(one => one.trim().replaceAll('{provider_id}', provider_id))
  if (given !== '' && foreign.includes(given)) return { uri: given, isForeign: true }
  const msg = 'expected the callback of this server, or an address that WEFT_OAUTH_REDIRECTS lists'
  throw new InvalidFields([{ loc: ['body', 'redirect_uri'], msg, type: 'redirect_uri' }])
}

/** Of the callback: the first is the one that is used. */
const PATHS = ['/v2/auth/callback', '/api-host/v2/auth/callback', '/host-oauth-callback'] as const
