/**
 * The target of a request, checked before anything is decided by it. The edge routes by the path as it was sent; what is
 * behind it decodes and normalises a path (WHATWG URL and Hono, uvicorn and Starlette). A path that one of them would read
 * as another one is refused, so that authentication, routes and applications mean the same (decision 068).
 */

/** Most paths have none of these: what is not visible ASCII, a backslash, a fragment, an escape, a segment that begins with a dot. */
const CHECKED = /[^\x21-\x7e]|[\\#%]|\/\.|^\/\//
const HIDDEN = /[\x00-\x1f\x7f\\]/
const DOTS = /(^|\/)\.\.?(\/|$)/
const RAW = /[^\x21-\x7e]|#/

/**
 * One sentence for a path that is refused, else null. An encoded slash passes: for the edge and for Hono it is part of a
 * segment (docs/spec/http.md#paths), for Starlette it ends one. So what it encloses is checked as segments.
 */
export function targetFault(path: string): string | null {
  if (!CHECKED.test(path)) return null
  const decoded = decode(path)
  if (decoded === null) return 'The path is not properly percent-encoded'
  if (HIDDEN.test(decoded)) return 'The path contains a control character or a backslash'
  if (RAW.test(path)) return 'The path contains "#" or a character beyond ASCII: send it percent-encoded as UTF-8'
  if (DOTS.test(decoded)) return 'The path contains a segment "." or "..": send the path that it stands for'
  return decoded.startsWith('//') ? 'The path begins with two slashes' : null
}

/** Null when an escape is incomplete or no UTF-8. */
function decode(path: string): string | null {
  try {
    return decodeURIComponent(path)
  } catch {
    return null
  }
}

const ODD = /[^\x21\x22\x24-\x7e]/
const ODD_RUNS = /[^\x21\x22\x24-\x7e]+/g

/**
 * The query, with "#" and what is not visible ASCII percent-encoded: to URLSearchParams it is the same, and an application
 * gets all of it. "#" would end it there.
 */
export const plainQuery = (query: string): string =>
  ODD.test(query) ? query.replace(ODD_RUNS, odd => encodeURIComponent(odd)) : query
