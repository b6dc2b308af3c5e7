/**
 * Which deployment a request is for (API: control-plane 12): `/deployments/{slug}` before the path, or the header
 * X-Deployment-Id. The SDKs' base URL contains the prefix, so no header of an answer does.
 */
export type Mount = { slug: string } | { id: string }

const PREFIX = '/deployments/'
const NAME = /^[A-Za-z0-9_-]{1,64}$/

/** The path within the deployment, and which one; null is the built-in application. A path without a valid slug is left as it is. */
export function unmount(path: string, id: string): { path: string; mount: Mount | null } {
  if (path.startsWith(PREFIX)) {
    const end = path.indexOf('/', PREFIX.length)
    const slug = path.slice(PREFIX.length, end === -1 ? undefined : end)
    if (NAME.test(slug)) return { path: end === -1 ? '/' : path.slice(end), mount: { slug } }
  }
  return { path, mount: NAME.test(id) ? { id } : null }
}
