/**
 * Authentication and authorization by the `auth` of an application (docs/spec/auth.md): one question to its
 * app host per request. It fails closed: a request passes only with an answer that says so.
 */
import { KEY_ID } from '../../schemas/app-host.js'
import type { AuthConfig } from '../../schemas/application.js'
import type { AuthEvent, AuthUser, CheckAsk } from '../../schemas/auth/auth.js'
import type { CallHead } from '../../schemas/calls.js'
import type { Ask } from './ask.js'

/** The subject of a check: a request, or a command of a WebSocket with the request that opened it. */
export type Asked = Omit<CheckAsk, 'events'>

export interface Passed {
  head: Pick<CallHead, 'identity' | 'filters' | 'checked'>
  query: string
  body: Uint8Array
}

export interface Refused {
  refused: { status: number; detail: string; headers?: { [name: string]: string } }
}

/** Rejects with a WeftError when the app host gives no answer. */
export type Check = (
  asked: Asked,
  events: readonly AuthEvent[],
  body: Uint8Array,
  /** The user of the run whose code asks: who the caller is needs no authentication. */
  runUser?: AuthUser | null,
) => Promise<Passed | Refused>

interface Options {
  /** The application whose `auth` it is. */
  app: string
  auth: AuthConfig
  /** Requests of LangGraph Studio pass without `authenticate`; handlers still decide. */
  studio: boolean
}

export function openCheck(ask: Ask, { app, auth, studio }: Options): Check {
  const users = openUsers(auth.cache)
  const isStudio = (asked: Asked) =>
    studio && !auth.disable_studio_auth && headerOf(asked, 'x-auth-scheme') === 'langsmith'
  return async (asked, events, body, runUser = null) => {
    const key = runUser === null ? users.keyOf(asked) : null
    const user = runUser ?? (isStudio(asked) ? STUDIO_USER : users.get(key))
    const call = { ...asked, events, ...(user === undefined ? {} : { user }) }
    const { answer, body: changed } = await ask(call, body)
    if ('refused' in answer) return answer
    const { passed } = answer
    // Without `authenticate` there is no user, and no handler runs.
    if (passed.user === null) return { head: { checked: app }, query: asked.query, body }
    if (user === undefined) users.set(key, passed.user)
    return {
      head: { checked: app, identity: passed.user, filters: passed.filters },
      query: passed.query ?? asked.query,
      body: passed.body ? changed : body,
    }
  }
}

/** docs/spec/auth.md#studio. */
const STUDIO_USER: AuthUser = {
  kind: 'StudioUser',
  identity: 'langgraph-studio-user',
  display_name: 'langgraph-studio-user',
  permissions: [],
  is_authenticated: true,
}

const DEFAULT_KEYS = ['authorization', 'x-api-key']
const DEFAULT_TTL_SECS = 30
const DEFAULT_SIZE = 1_000

/** Users by the headers that `auth.cache` names; none are kept without that section. */
function openUsers(config: AuthConfig['cache']) {
  const { cache_keys = DEFAULT_KEYS, ttl_seconds = DEFAULT_TTL_SECS, max_size = DEFAULT_SIZE } = config ?? {}
  // A key of Weft is not among the headers; its id is.
  const names = [...cache_keys.map(name => name.toLowerCase()), KEY_ID]
  const users = new Map<string, { user: AuthUser; until: number }>()
  return {
    /** Null for a request with none of the headers, whose user is not kept. */
    keyOf(asked: Asked): string | null {
      if (config === undefined || max_size < 1) return null
      const values = names.map(name => headerOf(asked, name))
      return values.every(value => value === undefined) ? null : JSON.stringify(values)
    },
    get(key: string | null): AuthUser | undefined {
      const found = key === null ? undefined : users.get(key)
      return found !== undefined && found.until > performance.now() ? found.user : undefined
    },
    set(key: string | null, user: AuthUser): void {
      if (key === null) return
      users.delete(key)
      users.set(key, { user, until: performance.now() + ttl_seconds * 1_000 })
      // The entry that was written first has expired first.
      if (users.size > max_size) users.delete(users.keys().next().value!)
    },
  }
}

const headerOf = ({ headers }: Asked, name: string): string | undefined =>
  headers.find(([known]) => known === name)?.[1]
