/**
 * `auth` of langgraph.json: the handlers of the SDK's Auth, called for one request (docs/spec/auth.md#handlers).
 * It fails closed: any result of a handler that is not documented as a permission refuses the request.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { getHeapStatistics } from 'node:v8'
import type { CheckCall } from '../../../schemas/app-host.js'
import {
  type AuthEvent,
  type AuthUser,
  type CheckAnswer,
  type Filters,
  handlerNames,
  MAX_USER,
  userOf,
} from '../../../schemas/auth/auth.js'
import { compileFilter } from '../../../schemas/auth/filter.js'
import { type Fired, openCheck } from '../../../schemas/auth/values.js'
import { ERRORS, WeftError } from '../../../schemas/errors.js'
import { jsonText, parseJson } from '../../../schemas/exact.js'
import { clientFault, isObject, type JsonObject, MAX_VALUES } from '../../../schemas/json.js'
import { pack } from '../../../schemas/packed.js'

/** The handlers of an Auth. `callbacks` by the names of `handlerNames`; they may change the `value` of their event. */
export interface AuthHandlers {
  authenticate?: (call: CheckCall, body: Uint8Array) => unknown
  callbacks?: { [event: string]: (event: JsonObject) => unknown }
  /** They take integers that a number cannot hold: those of Python. */
  exact?: boolean
}

/** The handlers that an Auth of the JavaScript SDK holds. */
interface HandlerCache extends Pick<AuthHandlers, 'callbacks'> {
  authenticate?: (request: Request) => unknown
}

type Refused = Extract<CheckAnswer, { refused: object }>['refused']
type Passed = Extract<CheckAnswer, { passed: object }>['passed']

/** The request is answered with this instead of being carried out. */
class Refusal extends Error {
  constructor(readonly refused: Refused) {
    super(refused.detail)
  }
}

const FAILED = 'The authentication of the application failed'
/** Members and elements of a body: as values they take an eighth of the heap at most (workers/child/app-host.ts). */
const MOST = Math.min(MAX_VALUES, Math.floor(getHeapStatistics().heap_size_limit / 8 / 64))
/** The steps of a check of a larger body are a turn of the event loop each: others are answered between them. */
const LARGE = 1024 * 1024
const encoder = new TextEncoder()
const strict = new TextDecoder('utf-8', { fatal: true })

/** The handlers of an export. An Auth is known by its member: the application may have its own copy of the SDK. */
export function handlersOf(exported: unknown, path: string): AuthHandlers {
  const handlers = isObject(exported) ? exported['~handlerCache'] : undefined
  if (!isObject(handlers))
    throw new Error(`auth.path: ${path} is no Auth; expected an instance of Auth of @langchain/langgraph-sdk/auth.`)
  const { authenticate, callbacks } = handlers as HandlerCache
  return {
    ...(authenticate === undefined
      ? {}
      : { authenticate: (call: CheckCall, body: Uint8Array) => authenticate(requestOf(call, body)) }),
    ...(callbacks === undefined ? {} : { callbacks }),
  }
}

function requestOf({ method, url, headers }: CheckCall, body: Uint8Array): Request {
  const hasBody = method !== 'GET' && method !== 'HEAD' && body.length > 0
  return new Request(url, { method, headers, ...(hasBody ? { body: new Uint8Array(body) } : {}) })
}

/** Checks one request; the answer is a packed CheckAnswer, with the body where a handler changed it. Never rejects. */
export async function check(handlers: AuthHandlers, call: CheckCall, body: Uint8Array): Promise<Uint8Array> {
  try {
    return await pass(handlers, call, body)
  } catch (error) {
    return pack({ refused: refusalOf(error) } satisfies CheckAnswer)
  }
}

async function pass(handlers: AuthHandlers, call: CheckCall, body: Uint8Array): Promise<Uint8Array> {
  const { authenticate } = handlers
  // First of all: code of the application may parse it, too.
  const fault = clientFault(body, MOST)
  if (fault !== null) throw new Refusal({ status: ERRORS[fault.code].status, detail: fault.detail })
  // Without `authenticate` there is no user, and no handler runs (docs/spec/auth.md#handlers).
  if (authenticate === undefined) return pack({ passed: { user: null, filters: {} } } satisfies CheckAnswer)
  const turn = async () => void (body.length > LARGE && (await nextTurn()))
  await turn()
  const user = call.user ?? (await identify(authenticate, call, body))
  const { events, params, query } = call
  // Without a handler the body may be of any format, as that of a route of the application.
  if (!events.some(event => handlerOf(handlers, event) !== undefined))
    return packed({ user, filters: Object.fromEntries(events.map(event => [event, null])) })
  await turn()
  const parsed = parse(body, handlers.exact === true)
  await turn()
  const { fired, finish } = openCheck({ events, params, query, body: parsed })
  await turn()
  const filters: Filters = {}
  for (const one of fired) {
    const filter = await authorize(handlers, one, user)
    const { event } = one
    // A batch fires an event for each of its runs: what every one of them demands holds for all.
    filters[event] =
      filters[event] && filter !== null ? { $and: [filters[event], filter] } : (filter ?? filters[event] ?? null)
  }
  await turn()
  const changed = finish()
  const passed = { user, filters, ...(changed.query === undefined ? {} : { query: changed.query }) }
  if (!('body' in changed)) return packed(passed)
  return packed({ ...passed, body: true }, encoder.encode(jsonText(changed.body)))
}

function packed(passed: Passed, ...body: Uint8Array[]): Uint8Array {
  if (jsonText(passed).length > MAX_USER)
    throw new TypeError(`the user and the filters exceed ${MAX_USER} characters as JSON`)
  return pack({ passed } satisfies CheckAnswer, body)
}

async function identify(
  handler: NonNullable<AuthHandlers['authenticate']>,
  call: CheckCall,
  body: Uint8Array,
): Promise<AuthUser> {
  const user = userOf(await handler(call, body))
  if (user === null)
    throw new TypeError('authenticate must return an identity: a string, or an object with the member identity')
  return user
}

/** The name of the handler that decides about the event. */
const handlerOf = ({ callbacks = {} }: AuthHandlers, event: AuthEvent): string | undefined =>
  handlerNames(event).find(name => Object.hasOwn(callbacks, name))

/** The filter that the handler of the event returned; null: none. */
async function authorize(handlers: AuthHandlers, { event, value }: Fired, user: AuthUser): Promise<JsonObject | null> {
  const name = handlerOf(handlers, event)
  if (name === undefined) return null
  const [resource, action] = event.split(':')
  const result = await handlers.callbacks![name]!({
    event,
    resource,
    action,
    value,
    user,
    permissions: user.permissions,
  })
  if (result === false) throw new Refusal({ status: 403, detail: 'Forbidden' })
  if (isObject(result)) return checked(result)
  if (result === null || result === undefined || result === true) return null
  throw new TypeError(`the handler of ${name} must return nothing, true, false or a filter`)
}

/** The filter. Throws for one that is not understood, or that would lose a member on its way: it would then let more pass. */
function checked(filter: JsonObject): JsonObject {
  compileFilter(filter)
  if (!isDeepStrictEqual(parseJson(jsonText(filter)), filter))
    throw new TypeError('a handler returned a filter that is no JSON, such as one with a member that is undefined')
  return filter
}

/** Throws a Refusal for a body that is no JSON in UTF-8: the handlers cannot decide about it. */
function parse(body: Uint8Array, exact: boolean): unknown {
  if (body.length === 0) return undefined
  try {
    const text = strict.decode(body)
    return exact ? parseJson(text) : JSON.parse(text)
  } catch {
    throw new Refusal({ status: 400, detail: 'The body is not JSON in UTF-8' })
  }
}

/** An HTTPException of the SDK has a status and headers; any other error is logged and answered without its message. */
function refusalOf(error: unknown): Refused {
  if (error instanceof Refusal) return error.refused
  const { status, headers, message } = (typeof error === 'object' && error !== null ? error : {}) as JsonObject
  if (error instanceof WeftError) {
    if (error.code === 'internal') console.error('The auth of the application failed:', error)
    return { status: error.status, detail: error.message }
  }
  if (typeof status === 'number' && headers !== undefined && Number.isInteger(status) && status >= 400 && status < 600)
    return { status, detail: String(message || 'Unauthorized'), headers: plainHeaders(headers) }
  console.error('The auth of the application failed:', error)
  return { status: 500, detail: FAILED }
}

function plainHeaders(headers: unknown): { [name: string]: string } {
  try {
    return Object.fromEntries(new Headers((headers ?? {}) as ConstructorParameters<typeof Headers>[0]))
  } catch {
    return {}
  }
}
