/** The address of a page is the hash: its path, and behind "?" what a page filters by. A link to a page has no filters. */
import { useSyncExternalStore } from 'react'
import { useHashLocation } from 'wouter/use-hash-location'

interface GoOptions {
  replace?: boolean
}

const parts = (): string[] => location.hash.slice(1).split('?')

function go(to: string, { replace = false }: GoOptions = {}): void {
  history[replace ? 'replaceState' : 'pushState'](null, '', `#${to}`)
  dispatchEvent(new HashChangeEvent('hashchange'))
}

function follow(listener: () => void): () => void {
  addEventListener('hashchange', listener)
  return () => removeEventListener('hashchange', listener)
}

/** As `useHashLocation` of the router, which would put the filters of one page before the hash of every page. */
export const useAddress = Object.assign(
  (): [string, typeof go] => {
    const [at] = useHashLocation()
    return [at.split('?', 1)[0]!, go]
  },
  {
    hrefs: (href: string): string => `#${href}`,
    searchHook: (): string => useSyncExternalStore(follow, () => parts()[1] ?? ''),
  },
)
