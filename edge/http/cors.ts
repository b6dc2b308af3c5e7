/**
 * Which browser pages may read the answers (docs/spec/application.md#cors). A wildcard never comes with credentials;
 * the headers that the SDKs read are always exposed.
 */
import type { CorsConfig } from '../../schemas/application.js'
import { openOriginPattern } from './origin-pattern.js'

export interface Cors {
  /** Whether pages of this origin may call. */
  allows(origin: string): boolean
  /** Headers of an answer to this origin, flat; empty for an origin that is not allowed. */
  answer(origin: string): readonly string[]
  /** Further headers of the answer to a preflight. `isPrivate`: it asks for a server of a private network. */
  preflight(origin: string, headers: string, isPrivate?: boolean): readonly string[]
}

const EXPOSE = ['Content-Location', 'Location', 'X-Pagination-Total', 'X-Pagination-Next', 'X-Request-Id']
const METHODS = 'GET, POST, PUT, PATCH, DELETE, OPTIONS, HEAD'
const HEADER_LIST = /^[A-Za-z0-9_\-, ]{1,2048}$/
const USUAL_HEADERS = 'Content-Type, X-Api-Key, Last-Event-ID'
const MAX_AGE_SECS = 600
const NONE: readonly string[] = []

interface CorsOptions {
  /** Whether `*` counts. */
  wildcards?: boolean
  /** `http.cors` of the application: what it gives replaces the list and the defaults. */
  config?: CorsConfig | null
}

/** `list` is a comma list of origins. */
export function openCors(list: string, { wildcards = true, config }: CorsOptions = {}): Cors {
  const origins = new Set(config?.allow_origins ?? list.split(',').flatMap(one => one.trim() || []))
  const matches = config?.allow_origin_regex === undefined ? null : openOriginPattern(config.allow_origin_regex)
  // Who gives a pattern only does not mean the default, which is everybody.
  const any = wildcards && origins.has('*') && (matches === null || config?.allow_origins !== undefined)
  const allows = (origin: string) => any || origins.has(origin) || matches?.(origin) === true
  const exposed = ['Access-Control-Expose-Headers', namesOf(EXPOSE, config?.expose_headers)]
  // Listed origins are trusted with credentials unless the application says otherwise; a wildcard never is.
  const credentials =
    (config?.allow_credentials ?? config == null) ? ['Access-Control-Allow-Credentials', 'true'] : NONE
  const wildcard = ['Access-Control-Allow-Origin', '*', ...exposed]
  const { allow_headers: headers, max_age = MAX_AGE_SECS } = config ?? {}
  // A name that is none could end the header.
  const methods = config?.allow_methods?.filter(name => name === '*' || HEADER_LIST.test(name))
  const fixed = headers === undefined || headers.includes('*') ? null : namesOf(SIMPLE_HEADERS, headers)
  return {
    allows,
    answer(origin) {
      if (origin === '') return NONE
      if (any) return wildcard
      if (!allows(origin)) return ['Vary', 'Origin']
      return ['Access-Control-Allow-Origin', origin, 'Vary', 'Origin', ...credentials, ...exposed]
    },
    preflight(origin, wanted, isPrivate = false) {
      if (!allows(origin)) return NONE
      return [
        ...[
          'Access-Control-Allow-Methods',
          methods === undefined || methods.includes('*') ? METHODS : methods.join(', '),
        ],
        // Echoed, because `*` does not cover Authorization.
        ...['Access-Control-Allow-Headers', fixed ?? (HEADER_LIST.test(wanted) ? wanted : USUAL_HEADERS)],
        ...['Access-Control-Max-Age', `${max_age}`],
        ...(isPrivate ? ['Access-Control-Allow-Private-Network', 'true'] : NONE),
      ]
    },
  }
}

/** Always allowed; browsers ask for them only with unusual values. */
const SIMPLE_HEADERS = ['Accept', 'Accept-Language', 'Content-Language', 'Content-Type']

/** Without a name twice; header names that cannot be written are left out. */
function namesOf(required: readonly string[], more: readonly string[] = []): string {
  const known = new Set(required.map(name => name.toLowerCase()))
  return [...required, ...more.filter(name => HEADER_LIST.test(name) && !known.has(name.toLowerCase()))].join(', ')
}
