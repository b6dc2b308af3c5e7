/** The OpenAPI 3.1 document of the routes (docs/spec/http.md#system), with schemas derived from the types. */
import type { JsonObject } from '../../schemas/json.js'
import { type BodyName, bodySchema, components } from '../../schemas/openapi.js'
import type { Route } from '../routes.js'
import { type Operation, operationOf, QUERY } from './operations.js'

export interface DocumentOptions {
  routes: readonly Route[]
  version: string
  /** Where the routes are, other than those of the control plane. */
  base: string
  /** `auth.openapi` of langgraph.json: security schemes and requirements. */
  security: JsonObject | null
}

export function documentOf({ routes, version, base, security }: DocumentOptions): JsonObject {
  const paths: { [path: string]: JsonObject } = {}
  for (const route of routes) {
    const operation = operationOf(route)
    if (operation === null) continue
    const path = route.path.replace(/:(\w+)/g, '{$1}')
    paths[path] = {
      ...(route.control ? { servers: [{ url: '/' }] } : {}),
      ...paths[path],
      [route.method.toLowerCase()]: operationText(route, operation),
    }
  }
  const { securitySchemes, security: required } = (security ?? {}) as { securitySchemes?: object; security?: unknown }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Weft',
      version,
      description: 'The HTTP API of LangGraph Platform, for LangGraph applications.',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: base }],
    tags: [...new Set(routes.map(tagOf))].map(name => ({ name })),
    paths,
    components: {
      schemas: components(),
      securitySchemes: { ...securitySchemes, controlKey: { type: 'apiKey', in: 'header', name: 'X-Api-Key' } },
    },
    ...(required === undefined ? {} : { security: required }),
  }
}

function operationText(route: Route, operation: Operation): JsonObject {
  const { summary, body, optional, query = [] } = operation
  const parameters = [
    ...route.params.map(name => ({ name, in: 'path', required: true, schema: pathSchema(name) })),
    ...query.map(name => ({ name, in: 'query', required: false, schema: QUERY[name] })),
  ]
  const content = body === undefined ? {} : contentOf(body)
  return {
    operationId: idOf(route),
    summary,
    tags: [tagOf(route)],
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === undefined ? {} : { requestBody: { required: optional !== true, content } }),
    ...(route.auth === 'control' ? { security: [{ controlKey: [] }] } : {}),
    responses: { ...answerOf(operation), default: errorOf(operation) },
  }
}

function answerOf({ answer, status = answer === null ? 204 : 200, also }: Operation): JsonObject {
  if (answer === null)
    return { [status]: { description: 'Done' }, ...(also && { [also]: { description: 'Accepted' } }) }
  return { [status]: { description: 'OK', content: contentOf(answer) } }
}

/** A request that reaches no route, because of its path for example, is refused in JSON also where the route answers pages. */
const errorOf = ({ error = 'ErrorBody' }: Operation): JsonObject => ({
  description: 'An error, in one sentence',
  content: { ...contentOf(error), ...(typeof error === 'string' ? {} : contentOf('ErrorBody')) },
})

const contentOf = (body: BodyName | { types: readonly string[] }): JsonObject =>
  typeof body === 'string'
    ? { 'application/json': { schema: bodySchema(body) } }
    : Object.fromEntries(body.types.map(type => [type, { schema: {} }]))

const UUIDS = new Set(['thread_id', 'run_id', 'cron_id', 'deployment_id', 'revision_id', 'upload_id'])
const pathSchema = (name: string): JsonObject =>
  UUIDS.has(name) ? { type: 'string', format: 'uuid' } : { type: 'string', minLength: 1 }

const tagOf = ({ path, control }: Route): string => {
  if (control) return 'control plane'
  const first = path.split('/')[1]!
  if (path.includes('/crons')) return 'crons'
  if (/^\/threads\/:thread_id\/(runs|stream|commands)/.test(path)) return 'runs'
  return ['assistants', 'threads', 'runs', 'store'].includes(first) ? first : 'system'
}

/** Stable, so that generated clients keep the names of their functions. */
const idOf = ({ method, path }: Route): string =>
  [method.toLowerCase(), ...path.split('/').filter(Boolean)]
    .map(part => part.replace(/^:/, 'by_').replace(/\W+/g, '_'))
    .join('_')
