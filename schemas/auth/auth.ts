/**
 * Who calls, and what the application's authorization handlers allow (docs/spec/auth.md). The edge asks once
 * per request; the answer travels in the head of the call, and the resource worker applies it to rows.
 */
import type { JsonObject } from '../json.js'

/** The events that handlers are registered for (docs/spec/auth.md#events). */
export type AuthEvent =
  | `assistants:${'create' | 'read' | 'update' | 'delete' | 'search'}`
  | `threads:${'create' | 'read' | 'update' | 'delete' | 'search' | 'create_run'}`
  | `crons:${'create' | 'read' | 'update' | 'delete' | 'search'}`
  | `store:${'put' | 'get' | 'delete' | 'search' | 'list_namespaces'}`

/** The authenticated caller, as handlers and graphs see it: at least these members, and what `authenticate` added. */
export interface AuthUser extends JsonObject {
  identity: string
  permissions: string[]
  display_name: string
  is_authenticated: boolean
}

/** The result of a handler for an event: a filter (schemas/auth/filter.ts), or null for no restriction. */
export type Filters = { [event in AuthEvent]?: JsonObject | null }

/** One request, as the edge asks an app host about it. The body travels beside it as bytes. */
export interface CheckAsk {
  method: string
  /** Absolute. */
  url: string
  headers: [name: string, value: string][]
  /** Events that the route may fire; the body and the query decide which of them do. */
  events: readonly AuthEvent[]
  /** Decoded path parameters. */
  params: { [name: string]: string }
  /** Without "?". */
  query: string
}

/**
 * refused: the answer to the client. passed: the caller (null: the application has no `authenticate`), the filters of
 * the events that were fired, and the request as the handlers changed it. With `body`, the new body travels beside it.
 */
export type CheckAnswer =
  | { refused: { status: number; detail: string; headers?: { [name: string]: string } } }
  | { passed: { user: AuthUser | null; filters: Filters; query?: string; body?: true } }

/** Largest user object and filters as JSON text: they travel with every call. */
export const MAX_USER = 64 * 1024

/**
 * The result of `authenticate` in full (docs/spec/auth.md#handlers); null when it is neither a text nor an object with
 * an identity.
 */
export function userOf(returned: unknown): AuthUser | null {
  const given = typeof returned === 'string' ? { identity: returned } : returned
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return null
  const { identity, permissions, display_name, is_authenticated } = given as Partial<AuthUser>
  if (typeof identity !== 'string' || identity === '') return null
  if (permissions != null && !(Array.isArray(permissions) && permissions.every(one => typeof one === 'string')))
    return null
  return {
    ...given,
    identity,
    permissions: permissions ?? [],
    display_name: typeof display_name === 'string' ? display_name : identity,
    is_authenticated: typeof is_authenticated === 'boolean' ? is_authenticated : true,
  }
}

/**
 * The names under which a handler for the event is looked up; the first that is registered decides
 * (docs/spec/auth.md#events).
 */
export function handlerNames(event: AuthEvent): string[] {
  const [resource, action] = event.split(':') as [string, string]
  return [event, resource, `*:${action}`, '*']
}
