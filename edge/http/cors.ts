/**
 * Which browser pages may read the answers (API: assistants 7.2). A wildcard never comes with credentials; the headers
 * that the SDKs read are always exposed.
 */
export interface Cors {
  /** Whether pages of this origin may call. */
  allows(origin: string): boolean
  /** Headers of an answer to this origin, flat; empty for an origin that is not allowed. */
  answer(origin: string): readonly string[]
  /** Further headers of the answer to a preflight. */
  preflight(origin: string, headers: string): readonly string[]
}

const EXPOSE = 'Content-Location, Location, X-Pagination-Total, X-Pagination-Next, X-Request-Id'
const METHODS = 'GET, POST, PUT, PATCH, DELETE, OPTIONS, HEAD'
const HEADER_LIST = /^[A-Za-z0-9_\-, ]{1,2048}$/
const NONE: readonly string[] = []

/** `list` is a comma list of origins; `*` in it is ignored unless `wildcards`. */
export function openCors(list: string, { wildcards = true } = {}): Cors {
  const origins = new Set(list.split(',').flatMap(one => one.trim() || []))
  const any = wildcards && origins.has('*')
  const exposed = ['Access-Control-Expose-Headers', EXPOSE]
  const wildcard = ['Access-Control-Allow-Origin', '*', ...exposed]
  const answer = (origin: string): readonly string[] => {
    if (origin === '') return NONE
    if (any) return wildcard
    if (!origins.has(origin)) return ['Vary', 'Origin']
    return [
      'Access-Control-Allow-Origin',
      origin,
      'Vary',
      'Origin',
      'Access-Control-Allow-Credentials',
      'true',
      ...exposed,
    ]
  }
  const allows = (origin: string) => any || origins.has(origin)
  return {
    allows,
    answer,
    preflight(origin, headers) {
      if (!allows(origin)) return NONE
      // Echoed, because `*` does not cover Authorization.
      const allowed = HEADER_LIST.test(headers) ? headers : 'Content-Type, X-Api-Key, Last-Event-ID'
      return [
        ...['Access-Control-Allow-Methods', METHODS],
        ...['Access-Control-Allow-Headers', allowed],
        ...['Access-Control-Max-Age', '600'],
      ]
    },
  }
}
