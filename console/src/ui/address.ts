/**
 * The address of the console: path and query in the fragment, as in `#/runs?status=error`. The query of one page ends with
 * a link to another, which it would not before the fragment.
 */
import { useSyncExternalStore } from 'react'

const text = (): string => location.hash.replace(/^#?\/?/, '/')
const path = (): string => text().split('?', 1)[0]!
const query = (): string => text().slice(path().length + 1)

function follow(listener: () => void): () => void {
  addEventListener('hashchange', listener)
  return () => removeEventListener('hashchange', listener)
}

function navigate(to: string, { replace = false, state = null }: { replace?: boolean; state?: unknown } = {}): void {
  const oldURL = location.href
  history[replace ? 'replaceState' : 'pushState'](state, '', `#${to}`)
  dispatchEvent(new HashChangeEvent('hashchange', { oldURL, newURL: location.href }))
}

/** The path, as the router of the console takes it. */
export const useAddress = Object.assign(
  (): [string, typeof navigate] => [useSyncExternalStore(follow, path), navigate],
  {
    hrefs: (href: string) => `#${href}`,
  },
)

/** What follows the question mark. */
export const useQuery = (): string => useSyncExternalStore(follow, query)
