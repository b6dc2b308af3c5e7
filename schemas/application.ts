/**
 * The configuration of an application, typed and checked: langgraph.json and the variables that may replace its keys
 * (docs/spec/application.md).
 */
import { resolve } from 'node:path'
import typia, { type IValidation, type tags } from 'typia'
import {
  AppConfigError,
  type AppSource,
  checkpointerOf,
  type Description,
  exportOf,
  type GraphSource,
  parse,
  readDescription,
  storeOf,
  VARIABLES,
} from './description.js'
import type { ItemTtlDefaults } from './items/items.js'
import { isObject, type JsonObject } from './json.js'
import { readable } from './problems.js'
import { type TtlDefaults, validateTtlDefaults } from './threads.js'
import {
  type WebhookConfig,
  type WebhookField,
  type WebhookSettings,
  type WebhookUrlRules,
  webhookHeaders,
} from './webhooks.js'

/** The settings of langgraph.json and the variables, with absolute paths. Absent keys have their documented defaults. */
export interface AppConfig extends Pick<Description, 'path' | 'folder' | 'env' | 'notes'> {
  graphs: GraphConfig[]
  /** The major version of Node.js that the application asks for. */
  node_version: string | null
  /** The version of Python that the application asks for, as `3.12`. */
  python_version: string | null
  /** Packages of Python: folders of the application, and requirements as pip takes them. */
  dependencies: string[]
  /** `checkpointer.path`: `file.py:export` of a checkpointer that gets a copy of each checkpoint; null: none does. */
  checkpointer: string | null
  /** `checkpointer.serde`: settings of the serialiser of Python graphs. */
  serde: JsonObject
  /** The loader of the files of the application: `tsx`, or a module for `--import`. */
  node_loader: string | null
  /** `checkpointer.ttl`. */
  ttl: TtlDefaults | null
  /** `store.ttl`. */
  item_ttl: ItemTtlDefaults | null
  /** `store.index`. */
  index: StoreIndex | null
  /** `store.path`: `file:export` of the store that the application brings; null: items are in the store of Weft. */
  store: string | null
  auth: AuthConfig | null
  /** `file.py:export` of the handlers that encrypt what is stored. */
  encryption: string | null
  http: HttpConfig
  webhooks: WebhookConfig
  /** Name of a component → its file; empty without `ui`. */
  ui: { [name: string]: string }
  /** `ui_config.shared`: packages that the page provides. */
  ui_shared: string[]
}

export interface GraphConfig extends GraphSource {
  /** Defaults of its system assistant (LANGGRAPH_CONFIG). */
  config: JsonObject
  context: JsonObject
}

/** Semantic search of the item store. */
export interface StoreIndex {
  dims: number & tags.Type<'uint32'> & tags.Minimum<1> & tags.Maximum<65536>
  /** `provider:model`, or `file:export`. */
  embed: string & tags.MinLength<1>
  /** Paths into the value; `$`, the whole value, when absent. */
  fields?: (string & tags.MinLength<1>)[]
}

export interface AuthConfig {
  /** `file:export`. */
  path: string & tags.MinLength<1>
  disable_studio_auth?: boolean
  allow_langsmith_api_keys?: boolean
  cache?: { cache_keys?: string[]; ttl_seconds?: number & tags.Minimum<0>; max_size?: number & tags.Minimum<0> }
  /** Security schemes and requirements for /openapi.json. */
  openapi?: JsonObject
}

/** Groups of routes that an application may switch off; they answer 404. */
export const ROUTE_GROUPS = [
  'assistants',
  'threads',
  'runs',
  'crons',
  'store',
  'meta',
  'ui',
  'mcp',
  'a2a',
  'webhooks',
] as const
export type RouteGroup = (typeof ROUTE_GROUPS)[number]

export interface HttpConfig {
  /** `file:export` of a fetch handler with routes of the application; null: none. */
  app: string | null
  cors: CorsConfig | null
  configurable_headers: HeaderPatterns
  logging_headers: HeaderPatterns
  middleware_order: 'middleware_first' | 'auth_first'
  enable_custom_route_auth: boolean
  /** In front of every path, as `/api`; '' when absent. */
  mount_prefix: string
  disabled: RouteGroup[]
}

export interface CorsConfig {
  allow_origins?: string[]
  /** Decides alone when present. */
  allow_origin_regex?: string
  allow_methods?: string[]
  allow_headers?: string[]
  allow_credentials?: boolean
  expose_headers?: string[]
  /** Seconds. */
  max_age?: number & tags.Type<'uint32'>
}

/** Names of request headers; `*` matches any text. `excludes` wins. */
export interface HeaderPatterns {
  includes: string[]
  excludes: string[]
}

/** Throws an AppConfigError. */
export function readAppConfig(source: AppSource): AppConfig {
  const { path, folder, graphs, env, variables, given, notes } = readDescription(source)
  const raw = withoutNulls({ ...given, graphs: null, env: null }) as JsonObject
  const sections = check(path, raw, variables)
  const { checkpointer, store, auth, http, webhooks, ui, ui_config, node_version, node_loader } = sections
  const { python_version, dependencies, encryption } = sections
  const defaults = assistantDefaults(variables.LANGGRAPH_CONFIG)
  const ownStore = storeOf(path, store)
  const ownCheckpointer = checkpointerOf(path, checkpointer, graphs)
  return {
    path,
    folder,
    graphs: graphs.map(graph => ({ ...graph, ...defaultsOf(graph.graph_id, defaults) })),
    env,
    node_version: node_version === undefined ? null : `${node_version}`,
    python_version: python_version === undefined ? null : `${python_version}`,
    dependencies: dependencies ?? [],
    checkpointer: ownCheckpointer.checkpointer,
    serde: checkpointer?.serde ?? {},
    node_loader: variables.LANGGRAPH_NODE_LOADER || (node_loader ?? null),
    ttl: threadTtl(variables.LANGGRAPH_THREAD_TTL) ?? checkpointer?.ttl ?? null,
    item_ttl: ownStore.item_ttl,
    index: ownStore.index,
    store: ownStore.store,
    auth: auth ?? null,
    encryption: encryptionOf(path, encryption),
    http: httpOf(http ?? {}, variables),
    webhooks: { env_prefix: 'LG_WEBHOOK_', headers: {}, url: {}, allowed_fields: null, ...webhooks },
    ui: Object.fromEntries(Object.entries(ui ?? {}).map(([name, file]) => [name, resolve(folder, file)])),
    ui_shared: ui_config?.shared ?? [],
    notes: [
      ...[...notes, ...ignoredIn(path, given, raw), ...withoutEffect(path, auth)],
      ...[...ownStore.notes, ...ownCheckpointer.notes],
    ],
  }
}

/**
 * The part of an application that resource workers and edges keep, as its hosts report it (schemas/host.ts, Hello). Throws a
 * RangeError for a header of webhooks whose variable is missing: the application is not served without it.
 */
export const settingsOf = (
  { auth, ttl, item_ttl, index, store, encryption, http, webhooks }: AppConfig,
  env: { readonly [name: string]: string | undefined },
) => ({
  auth,
  ttl,
  item_ttl,
  item_index: index,
  app_store: store,
  encryption,
  http,
  webhooks: {
    headers: webhookHeaders(webhooks, env),
    url: webhooks.url,
    disabled: http.disabled.includes('webhooks'),
    fields: webhooks.allowed_fields,
  } satisfies WebhookSettings,
})

/** The SDK for JavaScript has no class for it. */
function encryptionOf(path: string, section: { path: string } | undefined): string | null {
  if (section === undefined) return null
  if (exportOf(section.path, '/').language === 'python') return section.path
  throw new AppConfigError(
    `${path}: encryption.path must name an Encryption of the Python SDK, as "./encryption.py:encryption"; got ${section.path}.`,
  )
}

/** Keys of LangSmith are verified by a service that Weft does not have. */
const withoutEffect = (path: string, auth: AuthConfig | undefined): string[] =>
  auth?.allow_langsmith_api_keys
    ? [`${path}: auth.allow_langsmith_api_keys has no effect: every request is decided by auth.path.`]
    : []

/** Sections as they are written; unknown members are allowed. */
interface Sections {
  node_version?: string | number
  python_version?: string | number
  dependencies?: (string & tags.MinLength<1>)[]
  node_loader?: string & tags.MinLength<1>
  checkpointer?: { ttl?: TtlDefaults; serde?: JsonObject; path?: ExportPath; backend?: string }
  store?: { ttl?: ItemTtlDefaults; index?: StoreIndex; path?: ExportPath }
  auth?: AuthConfig
  encryption?: { path: string & tags.MinLength<1> }
  http?: HttpSection
  webhooks?: WebhooksSection
  ui?: { [name: string]: string }
  ui_config?: { shared?: string[] }
}

type ExportPath = string & tags.MinLength<1>

interface HttpSection {
  app?: string & tags.MinLength<1>
  cors?: CorsConfig
  configurable_headers?: PatternSection
  logging_headers?: PatternSection
  middleware_order?: 'middleware_first' | 'auth_first'
  enable_custom_route_auth?: boolean
  mount_prefix?: MountPrefix
  disable_assistants?: boolean
  disable_threads?: boolean
  disable_runs?: boolean
  disable_crons?: boolean
  disable_store?: boolean
  disable_meta?: boolean
  disable_ui?: boolean
  disable_mcp?: boolean
  disable_a2a?: boolean
  disable_webhooks?: boolean
}

type MountPrefix = string & tags.Pattern<'^(/[A-Za-z0-9._~-]+)*/?$'>

interface WebhooksSection {
  env_prefix?: string & tags.MinLength<1>
  headers?: { [name: string]: string }
  url?: WebhookUrlRules
  /** An empty list would send everything on other servers, and nothing if it was taken literally. */
  allowed_fields?: WebhookField[] & tags.MinItems<1>
}

interface PatternSection {
  includes?: string[]
  include?: string[]
  excludes?: string[]
  exclude?: string[]
}

const validateSections = typia.createValidate<Sections>()
const validateMountPrefix = typia.createValidate<MountPrefix>()
const validateDefaults = typia.createValidate<Defaults>()
const validateCors = typia.createValidate<CorsConfig>()

/** The keys of each section that are used; an empty list: all of them. */
const USED: { readonly [key: string]: readonly string[] } = {
  graphs: [],
  env: [],
  node_version: [],
  python_version: [],
  dependencies: [],
  node_loader: [],
  checkpointer: ['ttl', 'serde', 'path', 'backend'],
  store: ['ttl', 'index', 'path'],
  auth: ['path', 'disable_studio_auth', 'allow_langsmith_api_keys', 'cache', 'openapi'],
  encryption: ['path'],
  http: [
    ...['app', 'cors', 'configurable_headers', 'logging_headers', 'middleware_order', 'enable_custom_route_auth'],
    ...['mount_prefix', ...ROUTE_GROUPS.map(group => `disable_${group}`)],
  ],
  webhooks: ['env_prefix', 'headers', 'url', 'allowed_fields'],
  ui: [],
  ui_config: ['shared'],
  // Keys of images: cli/commands/dockerfile.ts.
  base_image: [],
  dockerfile_lines: [],
  pip_config_file: [],
  source: [],
}

/** One sentence with all keys that have no effect. `$schema` is for editors. */
function ignoredIn(path: string, described: JsonObject, raw: JsonObject): string[] {
  const keys = Object.keys(described).flatMap(key => {
    const used = USED[key]
    if (used === undefined) return key === '$schema' ? [] : [key]
    const section = raw[key]
    if (used.length === 0 || !isObject(section)) return []
    return Object.keys(section).flatMap(member => (used.includes(member) ? [] : [`${key}.${member}`]))
  })
  return keys.length === 0 ? [] : [`${path}: these keys are ignored: ${keys.join(', ')}.`]
}

function check(path: string, raw: JsonObject, env: Description['variables']): Sections {
  const checked = validateSections(raw)
  if (checked.success) return checked.data
  const [, key = '', rest = ''] = /^\$input\.(\w+)(.*)$/.exec(checked.errors[0]!.path) ?? []
  const variable = Object.keys(VARIABLES).find(name => VARIABLES[name] === key && env[name])
  throw wrong(variable ?? path, variable === undefined ? `${key}${rest}` : rest.replace(/^\./, ''), checked.errors)
}

/** `at` is the key within the place; '' is the whole of it. */
function wrong(place: string, at: string, [error]: readonly IValidation.IError[]): AppConfigError {
  const what = at === '' ? `${place} must be` : `${place}: ${at} must be`
  return new AppConfigError(`${what} ${readable(error!.expected)}.`)
}

type Defaults = { [graph_id: string]: { context?: JsonObject } & JsonObject }

function defaultsOf(graph_id: string, defaults: Defaults): Pick<GraphConfig, 'config' | 'context'> {
  const { context = {}, ...config } = Object.hasOwn(defaults, graph_id) ? defaults[graph_id]! : {}
  return { config, context }
}

function assistantDefaults(text: string | undefined): Defaults {
  if (!text) return {}
  const name = 'LANGGRAPH_CONFIG'
  const checked = validateDefaults(parse(name, text))
  if (checked.success) return checked.data
  throw wrong(name, checked.errors[0]!.path.replace(/^\$input\.?/, ''), checked.errors)
}

/** LANGGRAPH_THREAD_TTL: minutes, or an object as `checkpointer.ttl`. */
function threadTtl(text: string | undefined): TtlDefaults | null {
  if (!text) return null
  const name = 'LANGGRAPH_THREAD_TTL'
  const given = parse(name, text)
  const checked = validateTtlDefaults(typeof given === 'number' ? { strategy: 'delete', default_ttl: given } : given)
  if (checked.success) return checked.data
  throw wrong(name, typeof given === 'number' ? '' : checked.errors[0]!.path.replace(/^\$input\.?/, ''), checked.errors)
}

function corsOf(text: string | undefined): CorsConfig | null {
  if (!text) return null
  const name = 'CORS_CONFIG'
  const checked = validateCors(withoutNulls(parse(name, text)))
  if (checked.success) return checked.data
  throw wrong(name, checked.errors[0]!.path.replace(/^\$input\.?/, ''), checked.errors)
}

function httpOf(section: HttpSection, env: Description['variables']): HttpConfig {
  const { app, configurable_headers, logging_headers } = section
  const cors = corsOf(env.CORS_CONFIG) ?? section.cors
  const prefix = validateMountPrefix(section.mount_prefix ?? env.MOUNT_PREFIX ?? '')
  if (!prefix.success) throw wrong('MOUNT_PREFIX', '', prefix.errors)
  if (cors?.allow_origin_regex !== undefined && !isPattern(cors.allow_origin_regex))
    throw new AppConfigError(
      `${env.CORS_CONFIG ? 'CORS_CONFIG: ' : 'http.cors.'}allow_origin_regex must be a regular expression.`,
    )
  return {
    app: app ?? null,
    cors: cors ?? null,
    configurable_headers: patternsOf(configurable_headers),
    logging_headers: patternsOf(logging_headers),
    middleware_order: section.middleware_order ?? 'middleware_first',
    enable_custom_route_auth: section.enable_custom_route_auth ?? false,
    mount_prefix: prefix.data.replace(/\/$/, ''),
    disabled: ROUTE_GROUPS.filter(group => section[`disable_${group}`] === true),
  }
}

const patternsOf = ({ includes, include, excludes, exclude }: PatternSection = {}): HeaderPatterns => ({
  includes: includes ?? include ?? [],
  excludes: excludes ?? exclude ?? [],
})

function isPattern(source: string): boolean {
  try {
    return new RegExp(source) instanceof RegExp
  } catch {
    return false
  }
}

/** A key that is null is absent, at every depth of a section. */
function withoutNulls(value: unknown): unknown {
  if (!isObject(value)) return value
  const kept = Object.entries(value).filter(([, member]) => member !== null)
  return Object.fromEntries(kept.map(([key, member]) => [key, withoutNulls(member)]))
}
