/**
 * The `value` that authorization handlers get, and how their changes to it change the request
 * (docs/spec/auth.md#events). One table: a row per event. The resource worker validates the changed request like every
 * other one.
 */

import { fail } from '../errors.js'
import { jsonText } from '../exact.js'
import { canonicalId } from '../ids.js'
import { isObject, type JsonObject } from '../json.js'
import { cancelsByLeaving, readBoolean } from '../query.js'
import type { AuthEvent } from './auth.js'

/** A request while its handlers run. */
interface Draft {
  params: { [name: string]: string }
  query: URLSearchParams
  /** The object that the value is made of: the body, an element of a batch, or the parameters of a command. */
  body: JsonObject
}

/** An event that the request fires, with the value for its handler. */
export interface Fired {
  event: AuthEvent
  value: JsonObject
}

export interface AuthRequest {
  events: readonly AuthEvent[]
  params: { [name: string]: string }
  /** Without "?". */
  query: string
  /** The parsed body, which becomes the handlers' own; undefined without one. */
  body: unknown
}

export interface OpenCheck {
  /** In the order in which they are fired. */
  fired: readonly Fired[]
  /** The request as the handlers left it: members that changed. Throws `internal` for a value that cannot be applied. */
  finish(): { query?: string; body?: unknown }
}

/** The events of a request. What handlers do to the values is part of the request after `finish`. */
export function openCheck({ events, params, query, body }: AuthRequest): OpenCheck {
  const wanted = new URLSearchParams(query)
  // An absent body and null are both `{}` for the resource worker.
  const whole = body ?? undefined
  const before = { query: wanted.toString(), body: jsonText(whole) }
  const all: (Fired & { draft: Draft })[] = []
  const isCopy = events.includes('threads:create') && events.includes('threads:read')
  for (const part of partsOf(events, whole)) {
    if (isCopy) delete part.metadata
    const draft = { params, query: wanted, body: part }
    for (const event of eventsOf(events, draft, whole)) {
      const { value } = ROWS[event]
      all.push({ event, value: value(draft), draft })
    }
  }
  return {
    fired: all,
    finish() {
      for (const { event, value, draft } of all) ROWS[event].apply?.(value, draft)
      // A request without a body gets none, but what handlers add to a body that may be left out counts.
      const given =
        whole === undefined ? all.find(({ draft }) => Object.keys(draft.body).length > 0)?.draft.body : whole
      return {
        ...(wanted.toString() === before.query ? {} : { query: wanted.toString() }),
        ...(jsonText(given) === before.body ? {} : { body: given }),
      }
    },
  }
}

const isCommand = (events: readonly AuthEvent[]): boolean =>
  events.includes('threads:create_run') && events.includes('threads:read')

/** To leave a run that one has joined may cancel it. */
const isJoin = (events: readonly AuthEvent[]): boolean =>
  events.includes('threads:read') && events.includes('threads:update')

/** The objects of the body that events are about: several in a batch of runs. */
function partsOf(events: readonly AuthEvent[], whole: unknown): JsonObject[] {
  if (Array.isArray(whole) && events.includes('threads:create_run')) return whole.filter(isObject)
  if (!isObject(whole)) return [{}]
  return [isCommand(events) && isObject(whole.params) ? whole.params : whole]
}

/** Commands of protocol v2 that create a run. */
const CREATES_RUN: readonly unknown[] = ['run.start', 'input.respond', 'state.fork']

/** Which of the route's events the request fires. Throws `invalid` for a query that the resource worker refuses. */
function eventsOf(events: readonly AuthEvent[], { query }: Draft, whole: unknown): readonly AuthEvent[] {
  if (isCommand(events)) {
    const creates = isObject(whole) && CREATES_RUN.includes(whole.method)
    return events.filter(event => (event === 'threads:read') !== creates)
  }
  if (isJoin(events) && !cancelsByLeaving(query)) return ['threads:read']
  if (events.includes('assistants:delete') && !readBoolean(query, 'delete_threads')) return ['assistants:delete']
  return events
}

interface Row {
  value(draft: Draft): JsonObject
  apply?(value: JsonObject, draft: Draft): void
}

const ASSISTANT = ['assistant_id', 'graph_id', 'config', 'context', 'name', 'description'] as const
const PAGE = ['limit', 'offset'] as const
const RUN = ['assistant_id', 'multitask_strategy', 'if_not_exists', 'after_seconds'] as const
/** Members of a run, or of the template of a cron, beside its metadata. */
const PAYLOAD = [
  'input',
  'command',
  'config',
  'context',
  'checkpoint',
  'checkpoint_id',
  'interrupt_before',
  'interrupt_after',
  'stream_mode',
  'stream_subgraphs',
  'stream_resumable',
  'webhook',
  'durability',
  'checkpoint_during',
  'strict_resume',
] as const
const TEMPLATE = ['assistant_id', ...PAYLOAD, 'multitask_strategy'] as const

const ROWS: { readonly [event in AuthEvent]: Row } = {
  'assistants:create': { value: of(...ASSISTANT, 'if_exists'), apply: setMetadata },
  'assistants:read': {
    value: ({ params, body }) => ({ assistant_id: idIn('assistant_id', params, body), metadata: {} }),
  },
  'assistants:update': { value: of(...ASSISTANT, 'version'), apply: setMetadata },
  'assistants:delete': { value: ({ params }) => ({ assistant_id: params.assistant_id }) },
  'assistants:search': { value: of('graph_id', 'name', ...PAGE), apply: setMetadata },
  'threads:create': { value: of('thread_id', 'if_exists', 'ttl'), apply: setMetadata },
  'threads:read': { value: of('thread_id', 'run_id') },
  'threads:update': { value: of('thread_id', 'run_id', 'run_ids', 'status', 'ttl'), apply: setMetadata },
  'threads:delete': { value: of('thread_id', 'thread_ids', 'run_id', 'strategy') },
  'threads:search': { value: of('thread_id', 'ids', 'status', 'values', ...PAGE), apply: setMetadata },
  'threads:create_run': {
    value: draft => ({
      ...of('thread_id', ...RUN)(draft),
      status: 'pending',
      prevent_insert_if_inflight: true,
      kwargs: pick(draft.body, PAYLOAD),
    }),
    apply(value, draft) {
      setMetadata(value, draft)
      setAll(draft.body, value.kwargs, PAYLOAD)
    },
  },
  'crons:create': { value: cronValue, apply: setCron },
  'crons:read': { value: of('cron_id') },
  'crons:update': { value: cronValue, apply: setCron },
  'crons:delete': { value: of('cron_id') },
  'crons:search': { value: of('assistant_id', 'thread_id', 'enabled', ...PAGE), apply: setMetadata },
  'store:put': {
    value: ({ body }) => pick(body, ['namespace', 'key', 'value', 'index', 'ttl']),
    apply(value, { body }) {
      if (value.namespace !== undefined) labels(value.namespace)
      setAll(body, value, ['namespace', 'key', 'value', 'index', 'ttl'])
    },
  },
  'store:get': {
    value: ({ query }) => ({ namespace: namespaceIn(query), key: query.get('key') ?? '' }),
    apply({ namespace, key }, { query }) {
      const path = labels(namespace)
      if (path.some(label => label === '' || label.includes('.')))
        throw fail('invalid', 'namespace: expected labels that are not empty and have no dot')
      if (typeof key !== 'string') throw fail('internal', 'The key of an item must be a text')
      if (path.join('.') !== namespaceIn(query).join('.')) {
        query.delete('namespace')
        query.set('namespace', path.join('.'))
      }
      if (key !== query.get('key')) query.set('key', key)
    },
  },
  'store:delete': {
    value: ({ body }) => ({ namespace: body.namespace ?? [], key: body.key }),
    apply(value, { body }) {
      setAll(body, { namespace: labels(value.namespace), key: value.key }, ['namespace', 'key'])
    },
  },
  'store:search': {
    value: ({ body }) => ({ namespace: body.namespace_prefix ?? [], ...pick(body, ['filter', 'query', ...PAGE]) }),
    apply(value, { body }) {
      setAll(body, value, ['filter', 'query', ...PAGE])
      body.namespace_prefix = labels(value.namespace)
    },
  },
  'store:list_namespaces': {
    value: ({ body }) => ({ namespace: body.prefix ?? null, ...pick(body, ['suffix', 'max_depth', ...PAGE]) }),
    apply(value, { body }) {
      setAll(body, value, ['suffix', 'max_depth', ...PAGE])
      body.prefix = value.namespace == null ? null : labels(value.namespace)
    },
  },
}

/** The named members of path and body, and the metadata of the body: `{}` when it has none, so that handlers can add to it. */
function of(...names: readonly string[]): (draft: Draft) => JsonObject {
  return ({ params, body }) => {
    const value = pick(body, names)
    for (const name of names) {
      const id = idIn(name, params, body)
      if (id !== undefined) value[name] = id
    }
    return { ...value, metadata: isObject(body.metadata) ? body.metadata : {} }
  }
}

/** An id of the path wins; ids of threads, runs and crons are compared in lower case. */
function idIn(name: string, params: Draft['params'], body: JsonObject): unknown {
  const given = Object.hasOwn(params, name) ? params[name] : body[name]
  return typeof given === 'string' && /^(thread|run|cron)_id$/.test(name) ? canonicalId(given) : given
}

function setMetadata({ metadata }: JsonObject, { body }: Draft): void {
  if (metadata === undefined || metadata === null) delete body.metadata
  else if (!isObject(metadata)) throw fail('internal', 'A handler made metadata that is no object')
  else if (Object.keys(metadata).length > 0 || isObject(body.metadata)) body.metadata = metadata
}

function cronValue(draft: Draft): JsonObject {
  const { body } = draft
  const value = of('cron_id', 'thread_id', 'schedule', 'end_time', 'enabled')(draft)
  return { ...value, payload: pick(body, TEMPLATE) }
}

function setCron(value: JsonObject, draft: Draft): void {
  setMetadata(value, draft)
  setAll(draft.body, value.payload, TEMPLATE)
}

/** Sets the named members of `body` to those of `value`: one that is missing there is removed. */
function setAll(body: JsonObject, value: unknown, names: readonly string[]): void {
  if (!isObject(value)) throw fail('internal', 'A handler replaced an object by another value')
  for (const name of names)
    if (value[name] === undefined) delete body[name]
    else body[name] = value[name]
}

const pick = (body: JsonObject, names: readonly string[]): JsonObject =>
  Object.fromEntries(names.filter(name => body[name] !== undefined).map(name => [name, body[name]]))

const namespaceIn = (query: URLSearchParams): string[] =>
  query.getAll('namespace').flatMap(text => (text === '' ? [] : text.split('.')))

/** A namespace that a handler gave. */
function labels(namespace: unknown): string[] {
  if (!Array.isArray(namespace) || !namespace.every(label => typeof label === 'string'))
    throw fail('internal', 'A handler made a namespace that is no list of texts')
  return namespace as string[]
}
