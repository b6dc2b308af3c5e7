/** Calls of the control plane: with the key that a person entered for it, or with the key of the session. */
import { type Asked, ask, Refusal } from './client'
import { session, setControlKey } from './session'

const UNAUTHORIZED = 401
const FORBIDDEN = 403

/**
 * Sends a request as `ask` does, with the first key of this tab that has the right. Rejects with a Refusal of status 401 when
 * the tab has no key. The tab forgets a key that the server does not know.
 */
export async function control<T>(path: string, asked: Asked = {}): Promise<T> {
  const { controlKey, credentials } = session.get()
  const keys = [controlKey, credentials?.kind === 'key' ? credentials.value : ''].filter(Boolean)
  let refused = new Refusal(UNAUTHORIZED, 'This page needs a key, also on this machine.')
  for (const key of keys)
    try {
      return await ask<T>(path, { ...asked, headers: { ...asked.headers, 'X-Api-Key': key } })
    } catch (error) {
      if (!(error instanceof Refusal && (error.status === UNAUTHORIZED || error.status === FORBIDDEN))) throw error
      if (error.status === UNAUTHORIZED && key === controlKey) setControlKey('')
      refused = error
    }
  throw refused
}

/** A page of a list, as every list of the control plane has them. */
export interface Listed<T> {
  resources: T[]
  offset: number
}

const PAGE = 100
const MAX_PAGES = 10

/** The first thousand rows of a list. */
export async function listAll<T>(path: string, signal?: AbortSignal): Promise<T[]> {
  const rows: T[] = []
  for (let i = 0; i < MAX_PAGES; i++) {
    const { resources } = await control<Listed<T>>(`${path}?limit=${PAGE}&offset=${rows.length}`, { signal })
    rows.push(...resources)
    if (resources.length < PAGE) break
  }
  return rows
}
