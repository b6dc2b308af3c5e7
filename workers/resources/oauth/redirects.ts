/**
 * Where a provider sends the browser back (docs/spec/oauth.md#flow, step 3). Only addresses of this server, and those of
 * WEFT_OAUTH_REDIRECTS, letter by letter: any other one would give the code away.
 */
import type { CallHead } from '../../../schemas/calls.js'
import type { Config } from '../../../schemas/config.js'
import { fail, InvalidFields } from '../../../schemas/errors.js'

export interface Redirect {
  uri: string
  /** The page behind it is not ours: it brings code and state with its key. */
  isForeign: boolean
}

/**
 * Throws InvalidFields for an address that is not among them, and bad_request for one of this server while nobody but the
 * client says where that is.
 */
export function redirectOf(
  { oauth_redirects }: Config,
  { origin = '', origin_is_claimed }: Pick<CallHead, 'origin' | 'origin_is_claimed'>,
  provider_id: string,
  given: string | null | undefined,
): Redirect {
  const own = PATHS.map(path => `${origin}${path}/${provider_id}`)
  const uri = given ?? own[0]!
  if (own.includes(uri)) {
    if (origin_is_claimed) throw fail('bad_request', CLAIMED)
    return { uri, isForeign: false }
  }
  const foreign = oauth_redirects.split(',').map(one => one.trim().replaceAll('{provider_id}', provider_id))
  if (uri !== '' && foreign.includes(uri)) return { uri, isForeign: true }
  const msg = 'expected the callback of this server, or an address that WEFT_OAUTH_REDIRECTS lists'
  throw new InvalidFields([{ loc: ['body', 'redirect_uri'], msg, type: 'redirect_uri' }])
}

const CLAIMED =
  'The address that providers send users back to must not come from the Host of a request: set WEFT_PUBLIC_URL to the address of this server, or WEFT_ALLOWED_HOSTS to its names'

/** Addresses of the callback: the first is the one that is used. */
const PATHS = ['/v2/auth/callback', '/api-host/v2/auth/callback', '/host-oauth-callback'] as const
