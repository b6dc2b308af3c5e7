/**
 * Finds the row of the route table for a raw path. Segments are matched before they are decoded, so an encoded slash is
 * part of a parameter (docs/spec/http.md#paths), and decoded exactly once.
 */
import { fail } from '../../schemas/errors.js'
import { isUuid, uuidOf } from '../../schemas/ids.js'
import type { Route } from '../routes.js'

export interface Match {
  route: Route
  /** Raw, in the order of the path's parameters. */
  values: string[]
}

interface Node {
  literal: Map<string, Node>
  parameter: Node | null
  methods: Map<string, Route>
  allow: string
  /** Switched off: as an unknown path, and no other route takes its place. */
  off: boolean
}

export interface Router {
  /** The row; the Allow header of a known path that lacks the method; null for an unknown path. */
  find(method: string, path: string): Match | string | null
}

const node = (): Node => ({ literal: new Map(), parameter: null, methods: new Map(), allow: '', off: false })

/** `serves`: whether a route is switched on. */
export function openRouter(routes: readonly Route[], serves: (route: Route) => boolean = () => true): Router {
  const root = node()
  for (const route of routes) {
    let at = root
    for (const segment of route.path.slice(1).split('/')) {
      if (segment.startsWith(':')) at = at.parameter ??= node()
      else {
        const known = at.literal.get(segment) ?? node()
        at.literal.set(segment, known)
        at = known
      }
    }
    if (at.methods.has(route.method)) throw new Error(`two routes for ${route.method} ${route.path}`)
    at.methods.set(route.method, route)
    at.allow = allowOf(at.methods)
    at.off = !serves(route)
  }
  return {
    find(method, path) {
      const values: string[] = []
      const at = walk(root, path.slice(1).split('/'), 0, values)
      if (at === null || at.off) return null
      const route = at.methods.get(method) ?? (method === 'HEAD' ? headRoute(at.methods.get('GET')) : undefined)
      return route === undefined ? at.allow : { route, values }
    },
  }
}

/** Tries the literal child first, then the parameter; backtracks when the literal has no match. */
function walk(at: Node, segments: string[], i: number, values: string[]): Node | null {
  if (i === segments.length) return at.methods.size > 0 ? at : null
  const segment = segments[i]!
  const literal = at.literal.get(segment)
  const found = literal === undefined ? null : walk(literal, segments, i + 1, values)
  if (found !== null || at.parameter === null || segment === '') return found
  values.push(segment)
  const other = walk(at.parameter, segments, i + 1, values)
  if (other === null) values.pop()
  return other
}

/** HEAD is not served for a stream or a wait: their headers depend on the body. */
const headRoute = (route: Route | undefined): Route | undefined =>
  route === undefined || route.answer.startsWith('join') || route.answer === 'socket' ? undefined : route

function allowOf(methods: Map<string, Route>): string {
  const names = [...methods.keys()]
  if (headRoute(methods.get('GET')) !== undefined) names.push('HEAD')
  return [...names, 'OPTIONS'].join(', ')
}

/** An id in a spelling that clients of other servers use; throws `invalid` for what is no UUID. */
function spelledId(name: string, value: string): string {
  const id = uuidOf(value)
  if (id === null) throw fail('invalid', `${name} must be a UUID`)
  return id
}

const IDS = new Set(['thread_id', 'run_id', 'cron_id'])

/** The parameters by name; a malformed id is 422. */
export function decodeParams({ route, values }: Match): { [name: string]: string } {
  const params: { [name: string]: string } = {}
  for (let i = 0; i < values.length; i++) {
    const name = route.params[i]!
    // The target was checked.
    const raw = values[i]!
    const value = raw.includes('%') ? decodeURIComponent(raw) : raw
    params[name] = IDS.has(name) && !isUuid(value) ? spelledId(name, value) : value
  }
  return params
}
