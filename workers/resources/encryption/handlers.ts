/**
 * Questions to the encryption handlers of an application (`encryption` of langgraph.json). Its code runs in an app host of a
 * graph worker of the application, as its embedder does; without one nothing is stored and nothing is shown.
 */
import type { Caller } from '../../../bus/call.js'
import { unpackAs } from '../../../bus/decode.js'
import {
  type CipherValue,
  type ContextCall,
  type EncryptCall,
  validateContextAnswer,
  validateEncryptAnswer,
} from '../../../schemas/app-host.js'
import type { AuthUser } from '../../../schemas/auth/auth.js'
import { fail } from '../../../schemas/errors.js'
import { token } from '../../../schemas/ids.js'
import type { JsonObject } from '../../../schemas/json.js'
import { cutter, pack } from '../../../schemas/packed.js'
import { host } from '../../../schemas/subjects.js'
import type { Apps } from '../apps.js'
import { type AppHandlers, type AppSettings, activeSettings } from '../rows/app-settings.js'
import type { OwnCipher } from './own.js'

export interface HandlerDeps {
  caller: Caller
  apps: Apps
  settings: AppSettings
  own: OwnCipher
}

export interface Value extends Omit<CipherValue, 'size'> {
  bytes: Uint8Array
}

/** A key service is called over a network. */
const HANDLERS_MS = 30_000
/** A graph worker that gives no sign for this time is not the one that answers. */
const SILENCE_MS = 2_000
/** Bytes of one question, unless a single value is larger. */
const AT_ONCE = 4 * 1024 * 1024

/** The handlers of the revision that serves now; null: the application has none. */
export const handlersOf = (deps: HandlerDeps, app: string): Promise<AppHandlers | null> =>
  activeSettings(deps, 'encryption', app)

/** The results in the order of the values. Throws `unavailable` without a graph worker, and what a handler refused. */
export async function callHandlers(
  deps: HandlerDeps,
  { pool }: AppHandlers,
  values: readonly Value[],
): Promise<Uint8Array[]> {
  const results: Uint8Array[] = []
  for (let at = 0; at < values.length; ) {
    let [end, size] = [at, 0]
    while (end < values.length && (end === at || size + values[end]!.bytes.length <= AT_ONCE))
      size += values[end++]!.bytes.length
    results.push(...(await callOnce(deps, pool, values.slice(at, end))))
    at = end
  }
  return results
}

async function callOnce({ caller }: HandlerDeps, pool: string, values: readonly Value[]): Promise<Uint8Array[]> {
  const heads = values.map(({ bytes, ...head }) => ({ ...head, size: bytes.length }))
  const call: EncryptCall = { verb: 'encrypt', values: heads }
  const body = await ask(
    caller,
    pool,
    pack(
      call,
      values.map(({ bytes }) => bytes),
    ),
  )
  const { head, rest } = unpackAs(body, validateEncryptAnswer)
  if (head.sizes.length !== values.length) throw fail('unavailable', FOREIGN)
  const cut = cutter(rest)
  return head.sizes.map(size => cut(size))
}

/** The result of the `context` handler for the user and the header of a request. */
export async function contextFor(
  { caller }: HandlerDeps,
  { pool }: AppHandlers,
  user: AuthUser,
  context: JsonObject,
): Promise<JsonObject> {
  const call: ContextCall = { verb: 'encryption_context', user, context }
  return unpackAs(await ask(caller, pool, pack(call)), validateContextAnswer).head.context
}

async function ask(caller: Caller, pool: string, call: Uint8Array): Promise<Uint8Array> {
  const options = { timeout: HANDLERS_MS, silence: SILENCE_MS, repeat: true }
  return (await caller.ask(host(token('pool', pool), 'encrypt'), { request_id: '' }, call, options)).body
}

const FOREIGN = 'The encryption handlers answered other values than were asked for: the application is being changed'
