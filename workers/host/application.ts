/**
 * Loads the application that langgraph.json describes (API: langgraph.json). A graph that fails to load is reported,
 * and the other graphs are served. A file that cannot be read or parsed is reported in one sentence to its author.
 */
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { parseEnv } from 'node:util'
import type { IValidation } from 'typia'
import type { Hello } from '../../schemas/host.js'
import { type ItemTtlDefaults, validateItemTtlDefaults } from '../../schemas/items.js'
import type { JsonObject } from '../../schemas/json.js'
import { type TtlDefaults, validateTtlDefaults } from '../../schemas/threads.js'
import { refusalOf, warningOf } from './library-versions.js'
import {
  type Library,
  libraryOf,
  libraryVersion,
  prepareLoading,
  type SchemaTools,
  schemaToolsOf,
  storeWrapperOf,
  tuneLibrary,
} from './loading.js'
import { tuneStores } from './storage/item-queue.js'

/**
 * The members of a compiled graph that the host uses. Never use instanceof: the application may bring its own copy of
 * the library.
 */
export interface Graph {
  lg_is_pregel: true
  channels: { [name: string]: { lc_graph_name?: string } }
  builder?: { _inputDefinition?: object }
  stream(input: unknown, options: JsonObject): Promise<AsyncIterable<unknown>>
  streamEvents(input: unknown, options: JsonObject): AsyncIterable<unknown>
  _streamIterator?(input: unknown, options: JsonObject): AsyncIterable<unknown>
  getState(config: JsonObject, options?: { subgraphs?: boolean }): Promise<Snapshot>
  getStateHistory(config: JsonObject, options: JsonObject): AsyncIterable<Snapshot>
  bulkUpdateState(
    config: JsonObject,
    supersteps: { updates: { values: unknown; asNode?: string }[] }[],
  ): Promise<{ configurable?: JsonObject }>
}

/** The library's StateSnapshot. */
export interface Snapshot {
  values: unknown
  next: string[]
  config: { configurable?: JsonObject }
  metadata?: JsonObject
  createdAt?: string
  parentConfig?: { configurable?: JsonObject }
  tasks: {
    id: string
    name: string
    path?: unknown[]
    error?: unknown
    interrupts?: { id?: string; value?: unknown }[]
    state?: Snapshot | { configurable?: JsonObject }
    result?: unknown
  }[]
}

export type GraphOf = (config: JsonObject) => Graph | Promise<Graph>

export interface Application {
  hello: Hello
  graphs: Map<string, GraphOf>
  library: Library | null
  /** Loads the functions that derive schemas; null if the library of the application has none. */
  schemaTools(): Promise<SchemaTools | null>
  /** Added to the metadata of each run of the graph. */
  execution: Execution
}

/** Describes the environment that executes a run (API: threads-and-runs 8.3, added at execution; decision 026). */
export interface Execution {
  /** Version of the library that executes the graphs. */
  langgraph_version: string
  langgraph_plan: string
  langgraph_host: string
  /** Absent if no public address of the server is configured. */
  langgraph_api_url?: string
}

/** Values that the platform sets, as for a self-hosted server without a licence. */
function executionOf(langgraph_version: string): Execution {
  const { LANGGRAPH_API_URL: langgraph_api_url } = process.env
  return {
    langgraph_version,
    langgraph_plan: 'developer',
    langgraph_host: 'self-hosted',
    ...(langgraph_api_url ? { langgraph_api_url } : {}),
  }
}

/** Loads everything and never throws; `hello` carries the errors. */
export async function loadApplication(path: string): Promise<Application> {
  const graphs = new Map<string, GraphOf>()
  try {
    const { entries, folder, ttl, item_ttl } = readDescription(path)
    const files = entries.flatMap(entry => entry.file ?? [])
    await prepareLoading(folder, files)
    const version = libraryVersion(folder, files)
    const refusal = refusalOf(version, folder)
    if (refusal !== null) throw new Error(refusal)
    const warning = warningOf(version)
    if (warning !== null) console.warn(warning)
    const library = await libraryOf(folder, files)
    const hello: Hello = { error: null, graphs: [], library: version, ttl, item_ttl }
    const loadIn = loadTimes()
    const loading: Promise<Awaited<ReturnType<typeof load>>>[] = []
    for (const { graph_id, file, name, error } of entries) {
      const work = error === null ? loadIn(graph_id, file!, load(graph_id, file!, name)) : Promise.resolve(error)
      loading.push(work)
      // Graphs load one after the other, but a graph that hangs does not delay the others.
      await Promise.race([work, sleep(TURN_MS)])
    }
    for (const [n, { graph_id, description }] of entries.entries()) {
      const loaded = await loading[n]!
      if (typeof loaded === 'string') hello.graphs.push({ graph_id, description, error: loaded })
      else {
        graphs.set(graph_id, loaded.graphOf)
        hello.graphs.push({ graph_id, description, error: null, ...(loaded.inputs && { inputs: loaded.inputs }) })
      }
    }
    await tuneLibrary(folder, files)
    tuneStores(await storeWrapperOf(folder, files))
    const schemaTools = () => schemaToolsOf(folder, files)
    return { hello, graphs, library, schemaTools, execution: executionOf(version) }
  } catch (error) {
    const hello = { error: (error as Error).message, graphs: [] }
    return { hello, graphs, library: null, schemaTools: async () => null, execution: executionOf('unknown') }
  }
}

/** The log names a graph that is still loading after this time. */
const SLOW_MS = 5_000
/** The next graph starts to load after this time. */
const TURN_MS = 10_000
/** Graphs that have not loaded this long after the start are not served: the launcher waits 60 s. */
const LOAD_MS = 40_000

const sleep = (ms: number) => new Promise<void>(resolve => setTimeout(resolve, ms).unref())

/** Logs the names of graphs that load slowly. A graph that does not load in time results in a sentence. */
function loadTimes(): <T>(graph_id: string, file: string, work: Promise<T>) => Promise<T | string> {
  const deadline = performance.now() + LOAD_MS
  return (graph_id, file, work) => {
    const slow = setTimeout(() => console.warn(`Still loading graph "${graph_id}" (${file}).`), SLOW_MS)
    const late = sleep(Math.max(SLOW_MS, deadline - performance.now())).then(
      () =>
        `Graph "${graph_id}" (${file}) did not finish loading in time: something at the top level of its module waits without end.`,
    )
    return Promise.race([work, late]).finally(() => clearTimeout(slow))
  }
}

interface Entry {
  graph_id: string
  description: string | null
  file: string | null
  name: string
  error: string | null
}

/** An application that asks for these keys must not be served without them. */
const GUARDS = ['auth', 'encryption']
/** Documented keys that Weft does not support yet. Unknown keys are ignored (API: langgraph.json). */
const TO_COME = ['http', 'webhooks', 'ui']

interface Description {
  folder: string
  entries: Entry[]
  ttl: TtlDefaults | null
  item_ttl: ItemTtlDefaults | null
}

function readDescription(path: string): Description {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch {
    throw new Error(`The application description ${path} cannot be read.`)
  }
  let described: unknown
  try {
    described = JSON.parse(text)
  } catch (error) {
    throw new Error(`${path} is not valid JSON: ${(error as Error).message}.`)
  }
  if (!isObject(described)) throw new Error(`${path} must hold a JSON object.`)
  if (!isObject(described.graphs) || Object.keys(described.graphs).length === 0)
    throw new Error(`${path} names no graphs: "graphs" must map a name to "file:export".`)
  for (const key of GUARDS)
    if (key in described)
      throw new Error(`${path} asks for "${key}", which Weft does not have yet: it is not served without it.`)
  for (const key of TO_COME)
    if (key in described) console.warn(`"${key}" in langgraph.json is not available yet; it is ignored.`)
  const wanted = described.node_version
  if (wanted !== undefined && `${wanted}` !== process.versions.node.split('.')[0])
    console.warn(`langgraph.json asks for Node ${wanted}, this is ${process.versions.node}.`)
  const folder = dirname(path)
  applyEnvironment(described.env, folder)
  const entries = Object.entries(described.graphs).map(([id, value]) => entryOf(id, value, folder))
  return {
    folder,
    entries,
    ttl: ttlIn(path, 'checkpointer', described.checkpointer, validateTtlDefaults),
    item_ttl: ttlIn(path, 'store', described.store, validateItemTtlDefaults),
  }
}

/**
 * `checkpointer.ttl` and `store.ttl` (API: assistants-crons-store 10.3). A wrong value would delete too early or never.
 */
function ttlIn<Ttl>(
  path: string,
  name: 'checkpointer' | 'store',
  section: unknown,
  validate: (input: unknown) => IValidation<Ttl>,
): Ttl | null {
  const { ttl, ...others } = isObject(section) ? section : {}
  for (const key of Object.keys(others)) console.warn(`"${name}.${key}" in langgraph.json is ignored.`)
  if (ttl === undefined || ttl === null) return null
  const checked = validate(ttl)
  if (checked.success) return checked.data
  const { path: at, expected } = checked.errors[0]!
  throw new Error(`${path}: ${at.replace('$input', `${name}.ttl`)} must be ${expected}.`)
}

function entryOf(graph_id: string, value: unknown, folder: string): Entry {
  const path = typeof value === 'string' ? value : isObject(value) ? value.path : null
  const description = isObject(value) && typeof value.description === 'string' ? value.description : null
  const entry: Entry = { graph_id, description, file: null, name: 'default', error: null }
  if (typeof path !== 'string' || !path.includes(':')) {
    entry.error = `Graph "${graph_id}" must be given as "file:export".`
    return entry
  }
  const colon = path.lastIndexOf(':')
  const file = resolve(folder, path.slice(0, colon))
  entry.name = path.slice(colon + 1) || 'default'
  if (/\.pyi?$/.test(file))
    entry.error = `Graph "${graph_id}" is a Python graph (${path}): Weft runs JavaScript and TypeScript graphs only.`
  else if (!existsSync(file)) entry.error = `Graph "${graph_id}": the file ${file} does not exist.`
  else entry.file = file
  return entry
}

/** Variables that the process already has take precedence (API: langgraph.json, env). */
function applyEnvironment(env: unknown, folder: string): void {
  let variables: NodeJS.Dict<string> = {}
  if (typeof env === 'string') {
    const file = resolve(folder, env)
    if (existsSync(file)) variables = parseEnv(readFileSync(file, 'utf8'))
    else console.warn(`The environment file ${file} does not exist.`)
  } else if (isObject(env)) {
    for (const [name, value] of Object.entries(env)) variables[name] = String(value)
  } else if (env !== undefined && env !== null) {
    console.warn('"env" in langgraph.json must be a path or a map; it is ignored.')
  }
  for (const [name, value] of Object.entries(variables)) process.env[name] ??= value
}

/** Returns the graph of an export, or a sentence with the reason for its absence. */
async function load(
  graph_id: string,
  file: string,
  name: string,
): Promise<{ graphOf: GraphOf; inputs?: string[] } | string> {
  try {
    const module = (await import(pathToFileURL(file).href)) as JsonObject & { default?: JsonObject }
    // A TypeScript file of a CommonJS package has its exports under `default` only.
    const exported = await (module[name] ?? (name === 'default' ? undefined : module.default?.[name]))
    if (exported === undefined || exported === null)
      return `Graph "${graph_id}": ${file} has no export named "${name}".`
    const graph = compiled(nested(exported, name))
    if (graph !== null) return { graphOf: () => graph, inputs: inputsOf(graph) }
    if (typeof exported === 'function')
      return { graphOf: factory(graph_id, exported as (config: JsonObject) => unknown) }
    return `Graph "${graph_id}": the export "${name}" of ${file} is not a graph.`
  } catch (error) {
    console.error(error)
    return `Graph "${graph_id}" cannot be loaded: ${error instanceof Error ? error.message : String(error)}${adviceOn(error, file)}`
  }
}

/** For a package that is not installed: returns the command that installs it. */
function adviceOn(error: unknown, file: string): string {
  const { code, message = '' } = error as { code?: string; message?: string }
  const isMissing = code === 'ERR_MODULE_NOT_FOUND' || code === 'MODULE_NOT_FOUND'
  if (!isMissing || !/^Cannot find (package|module) '[^./]/.test(message)) return ''
  let folder = dirname(file)
  while (!existsSync(join(folder, 'package.json')) && folder !== dirname(folder)) folder = dirname(folder)
  const isPackage = existsSync(join(folder, 'package.json'))
  const [, name = ''] = /'((?:@[^/']+\/)?[^/']+)/.exec(message) ?? []
  return isPackage ? ` (run npm install in ${folder})` : ` (run npm init -y && npm install ${name} in ${dirname(file)})`
}

/** `export default` of a CommonJS module is nested one level deeper. */
const nested = (exported: unknown, name: string): unknown =>
  name === 'default' && isObject(exported) && compiled(exported) === null && exported.default !== undefined
    ? exported.default
    : exported

/** Returns the keys of a graph's input: from its input schema if the library reports one, else from its state. */
function inputsOf({ builder, channels }: Graph): string[] {
  return Object.keys(builder?._inputDefinition ?? channels).filter(name => !/^(__|branch:)/.test(name))
}

function factory(graph_id: string, make: (config: JsonObject) => unknown): GraphOf {
  return async config => {
    const graph = compiled(await make(config))
    if (graph === null) throw new TypeError(`The factory of graph "${graph_id}" returned no graph.`)
    return graph
  }
}

/** Returns a compiled graph, compiles a builder, unwraps an agent; null for other values. */
function compiled(value: unknown): Graph | null {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return null
  const found = value as { lg_is_pregel?: boolean; compile?: unknown; graph?: unknown }
  if (found.lg_is_pregel === true) return value as Graph
  if (typeof found.compile === 'function') return compiled(found.compile())
  return typeof value === 'object' && found.graph !== undefined ? compiled(found.graph) : null
}

const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
