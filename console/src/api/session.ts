/** The credentials that a person entered; they end with the tab. */
import { createStore } from './store'

export interface Credentials {
  kind: 'key' | 'bearer'
  value: string
}

export interface Session {
  credentials: Credentials | null
  /** Why the server refused the last call; null: it did not. */
  refused: string | null
  /** The key of the control plane. */
  controlKey: string
}

const STORED = 'weft.credentials'
const STORED_CONTROL = 'weft.control-key'

export const session = createStore<Session>({
  credentials: read(),
  refused: null,
  controlKey: sessionStorage.getItem(STORED_CONTROL) ?? '',
})

function read(): Credentials | null {
  try {
    const { kind, value } = JSON.parse(sessionStorage.getItem(STORED) ?? 'null') as Credentials
    return typeof value === 'string' && (kind === 'key' || kind === 'bearer') ? { kind, value } : null
  } catch {
    return null
  }
}

export function signIn(credentials: Credentials): void {
  sessionStorage.setItem(STORED, JSON.stringify(credentials))
  session.change({ credentials, refused: null })
}

export function signOut(): void {
  sessionStorage.removeItem(STORED)
  session.change({ credentials: null })
}

export function setControlKey(controlKey: string): void {
  sessionStorage.setItem(STORED_CONTROL, controlKey)
  session.change({ controlKey })
}

export const headersOf = ({ kind, value }: Credentials): { [name: string]: string } =>
  kind === 'key' ? { 'X-Api-Key': value } : { Authorization: `Bearer ${value}` }
