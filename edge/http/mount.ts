/**
 * Which deployment a request is for (docs/spec/control-plane.md#run-plane): `/deployments/{slug}` before the path, or
 * the header X-Deployment-Id. The SDKs' base URL contains the prefix, so no header of an answer does. The path that
 * comes out of here is the only one: by it a request is routed, authenticated and passed on.
 */
import { CONTROL, CONTROL_PREFIX } from '../routes.js'

export type Mount = { slug: string } | { id: string }

export const PREFIX = '/deployments/'
const NAME = /^[A-Za-z0-9_-]{1,64}$/

/** Whether a request is for a deployment: a path that only looks like one counts, too. */
export const isMounted = (path: string, id: string): boolean => id !== '' || path.startsWith(PREFIX)

/**
 * The path within the deployment, and which one; null is the built-in application. A path without a valid slug is left as
 * it is. `prefix` is in front of the paths of the built-in application, not of deployments and of the control plane.
 */
export function unmount(path: string, id: string, prefix: string): { path: string; mount: Mount | null } {
  if (path.startsWith(PREFIX)) {
    const end = path.indexOf('/', PREFIX.length)
    const slug = path.slice(PREFIX.length, end === -1 ? undefined : end)
    if (NAME.test(slug)) {
      const inner = routed(end === -1 ? '/' : path.slice(end))
      // A deployment has no control plane.
      return { path: CONTROL.test(inner) ? NO_PATH : inner, mount: { slug } }
    }
  }
  if (NAME.test(id)) return { path: routed(path), mount: { id } }
  return { path: routed(prefix === '' ? path : withoutPrefix(path, prefix)), mount: null }
}

/** The path of the route table. The control plane is also served below its prefix; no other route is. */
export function routed(path: string): string {
  // Clients write both (docs/spec/protocols.md#mcp).
  if (path === '/mcp/') return '/mcp'
  if (!path.startsWith(CONTROL_PREFIX)) return path
  const inner = path.slice(CONTROL_PREFIX.length)
  return CONTROL.test(inner) ? inner : path
}

/**
 * A path that ends with one slash too many, without it. The reference is relative to the path, so that it is right behind
 * every prefix, also behind that of a proxy.
 */
export function withoutSlash(path: string): { path: string; reference: string } | null {
  const segment = /[^/]\/$/.test(path) ? path.slice(path.lastIndexOf('/', path.length - 2) + 1, -1) : ''
  return segment === '' ? null : { path: path.slice(0, -1), reference: `../${segment}` }
}

function withoutPrefix(path: string, prefix: string): string {
  if (path === prefix) return '/'
  if (path.startsWith(prefix) && path[prefix.length] === '/') return path.slice(prefix.length)
  return OF_THE_SERVER.test(path) ? path : NO_PATH
}

/** Served without the prefix: probes, the control plane, calls for tests. */
const OF_THE_SERVER = /^\/(ok|ready)$|^\/(v[12]|api-host|internal)\//
/** No route has it, and no request: the target is checked. */
export const NO_PATH = '//'
