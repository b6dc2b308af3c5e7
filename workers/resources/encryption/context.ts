/** Which request is served, for the context of its encryption (docs/application.md#encryption). */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { AuthUser } from '../../../schemas/auth/auth.js'
import type { CallHead } from '../../../schemas/calls.js'
import { fail } from '../../../schemas/errors.js'
import { parseJson } from '../../../schemas/exact.js'
import { isObject, type JsonObject } from '../../../schemas/json.js'

export interface Served {
  /** The context of the header; null: the request has none. */
  header: JsonObject | null
  user: AuthUser | null
  /** The result of the `context` handler, after its first call. */
  context?: Promise<JsonObject>
}

const served = new AsyncLocalStorage<Served>()

/** Null outside of a request of a client: the context is then that of the row that is written. */
export const servedNow = (): Served | null => served.getStore() ?? null

/** Executes the work of a call with its context. Throws `invalid` for a header of another form. */
export function serving<T>({ encryption, identity, lease }: CallHead, work: () => T): T {
  if (lease !== undefined || (encryption === undefined && !identity)) return work()
  return served.run({ header: encryption === undefined ? null : headerOf(encryption), user: identity ?? null }, work)
}

/** Does work for which no client asked, such as the firing of a cron, with the context that was stored for it. */
export const withContext = <T>(context: JsonObject, work: () => T): T =>
  served.run({ header: context, user: null, context: Promise.resolve(context) }, work)

const MAX_HEADER = 4_096

function headerOf(text: string): JsonObject {
  if (text.length > MAX_HEADER)
    throw fail('invalid', `X-Encryption-Context: expected at most ${MAX_HEADER} characters, got ${text.length}`)
  try {
    const context: unknown = parseJson(Buffer.from(text, 'base64').toString())
    if (isObject(context)) return context
  } catch {
    // Refused below, as any other value.
  }
  throw fail('invalid', 'X-Encryption-Context: expected a JSON object as base64')
}
