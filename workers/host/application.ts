/**
 * Loads the application that langgraph.json describes (docs/spec/application.md). A graph that fails to load is reported,
 * and the other graphs are served. A file that cannot be read or parsed is reported in one sentence to its author.
 */
import { existsSync, readFileSync, realpathSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type GraphConfig, readAppConfig, settingsOf } from '../../schemas/application.js'
import type { Hello } from '../../schemas/host.js'
import { isObject } from '../../schemas/json.js'
import { idleFor, LOAD_IDLE_MS } from './idle.js'
import { type LangSmith, openLangSmith } from './library/langsmith.js'
import { refusalOf, warningOf } from './library/library-versions.js'
import { registerLogger } from './library/logger.js'
import type { Graph, GraphOf, Library, SchemaTools } from './library/types.js'
import {
  extractionsOf,
  hasLoader,
  importExport,
  libraryOf,
  libraryVersion,
  prepareLoading,
  schemaToolsOf,
  storeWrapperOf,
  tracerOf,
  tuneLibrary,
  useBundle,
  withoutSourceMaps,
} from './loading.js'
import { openSchemaCache, schemaFolder } from './schemas/schema-cache.js'
import { openStaticSchemas, PROGRAM, type StaticSchemas } from './schemas/static-schemas.js'

export interface Application {
  hello: Hello
  /** The folders of its code: first that of langgraph.json. Without symbolic links, as stacks name files. */
  folders: string[]
  graphs: Map<string, GraphOf>
  library: Library | null
  /** The class that the library puts around the store of a run. */
  storeWrapper: { prototype: object } | undefined
  langsmith: LangSmith
  /** Loads the functions that derive schemas; null if the library of the application has none. */
  schemaTools(): Promise<SchemaTools | null>
  /** Schemas from the types of TypeScript graphs. */
  types: StaticSchemas
  /** Added to the metadata of each run of the graph. */
  execution: Execution
}

/** Describes the environment that executes a run (docs/spec/runs.md#configuration; decision 026). */
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
    const app = readAppConfig({ path, env: process.env, read: textOf })
    const { folder, notes } = app
    // Variables that the process already has take precedence (docs/spec/application.md).
    for (const [name, value] of Object.entries(app.env)) process.env[name] ??= value
    notes.push(...versionNotes(app.node_version))
    const settings = settingsOf(app, process.env)
    // Graphs of Python have hosts of their own.
    const entries = app.graphs.filter(({ language }) => language === 'javascript').map(existing)
    const files = entries.flatMap(entry => entry.file ?? [])
    let library: Library | null = null
    registerLogger(() => library?.getConfig(), process.env.LOG_LEVEL)
    const version = libraryVersion(folder, files)
    const refusal = refusalOf(version, folder)
    if (refusal !== null) throw new Error(refusal)
    const warning = warningOf(version)
    if (warning !== null) notes.push(warning)
    // Before hooks are registered: behind them each of its modules costs a message to their thread and back, together
    // 0.35 s of CPU per host. A loader of the application may want to see the library.
    if (!hasLoader(app.node_loader)) {
      useBundle(folder, files)
      library = await withoutSourceMaps(() => libraryOf(folder, files))
    }
    await prepareLoading(folder, files, app.node_loader, process.env)
    library ??= await libraryOf(folder, files)
    const hello: Hello = {
      error: null,
      graphs: [],
      library: version,
      ...settings,
      notes,
    }
    const loadIn = loadTimes()
    const loading: Promise<Awaited<ReturnType<typeof load>>>[] = []
    for (const { graph_id, file, name, error } of entries) {
      const work = error === null ? loadIn(graph_id, file!, load(graph_id, file!, name)) : Promise.resolve(error)
      loading.push(work)
      // Graphs load one after the other, but a graph that hangs does not delay the others.
      await Promise.race([work, sleep(TURN_MS)])
    }
    for (const [n, { graph_id, description, config, context }] of entries.entries()) {
      const loaded = await loading[n]!
      const given = { graph_id, description, config, context }
      if (typeof loaded === 'string') hello.graphs.push({ ...given, error: loaded })
      else {
        graphs.set(graph_id, loaded.graphOf)
        hello.graphs.push({ ...given, error: null, ...(loaded.inputs && { inputs: loaded.inputs }) })
      }
    }
    await tuneLibrary(folder, files)
    const storeWrapper = await storeWrapperOf(folder, files)
    const schemaTools = () => schemaToolsOf(folder, files)
    const langsmith = openLangSmith(process.env, () => tracerOf(folder, files))
    const extractions = extractionsOf(folder, entries)
    const cache = openSchemaCache(extractions, fileURLToPath(PROGRAM), schemaFolder(process.env))
    const types = openStaticSchemas(extractions, { cache, env: process.env })
    return {
      hello,
      folders: foldersOf(folder, files),
      graphs,
      library,
      storeWrapper,
      langsmith,
      schemaTools,
      types,
      execution: executionOf(version),
    }
  } catch (error) {
    const hello = { error: (error as Error).message, graphs: [] }
    return {
      hello,
      folders: [],
      graphs,
      library: null,
      storeWrapper: undefined,
      langsmith: openLangSmith({}, async () => null),
      schemaTools: async () => null,
      types: openStaticSchemas([]),
      execution: executionOf('unknown'),
    }
  }
}

const foldersOf = (folder: string, files: string[]): string[] => [
  ...new Set([folder, ...files.map(file => dirname(file))].map(each => realpathSync(each))),
]

/** The log names a graph that is still loading after this time. */
const SLOW_MS = 5_000
/** The next graph starts to load after this time. */
const TURN_MS = 10_000

const sleep = (ms: number) => new Promise<void>(resolve => setTimeout(resolve, ms).unref())

/**
 * Logs the names of graphs that load slowly. A graph that only waits, as one that waits for what never comes, results in a
 * sentence; one that computes is waited for.
 */
function loadTimes(): <T>(graph_id: string, file: string, work: Promise<T>) => Promise<T | string> {
  const idle = idleFor(LOAD_IDLE_MS)
  return (graph_id, file, work) => {
    const slow = setTimeout(() => console.warn(`Still loading graph "${graph_id}" (${file}).`), SLOW_MS)
    const late = Promise.all([idle, sleep(SLOW_MS)]).then(
      () =>
        `Graph "${graph_id}" (${file}) did not finish loading in time: something at the top level of its module waits without end.`,
    )
    return Promise.race([work, late]).finally(() => clearTimeout(slow))
  }
}

const textOf = (path: string): string | null => (existsSync(path) ? readFileSync(path, 'utf8') : null)

const versionNotes = (wanted: string | null): string[] =>
  wanted === null || Number.parseInt(process.versions.node, 10) >= Number(wanted)
    ? []
    : [`langgraph.json asks for Node ${wanted}, this is ${process.versions.node}.`]

/** A graph whose file does not exist has an error. */
function existing(source: GraphConfig): GraphConfig {
  const { graph_id, file } = source
  if (file === null || existsSync(file)) return source
  return { ...source, file: null, error: `Graph "${graph_id}": the file ${file} does not exist.` }
}

/** Returns the graph of an export, or a sentence with the reason for its absence. */
async function load(
  graph_id: string,
  file: string,
  name: string,
): Promise<{ graphOf: GraphOf; inputs?: string[] } | string> {
  try {
    const exported = await importExport(file, name)
    if (exported === undefined || exported === null)
      return `Graph "${graph_id}": ${file} has no export named "${name}".`
    const graph = compiled(nested(exported, name))
    if (graph !== null) return { graphOf: () => graph, inputs: inputsOf(graph) }
    if (typeof exported === 'function') return { graphOf: factory(graph_id, exported as Parameters<typeof factory>[1]) }
    return `Graph "${graph_id}": the export "${name}" of ${file} is not a graph.`
  } catch (error) {
    console.error(error)
    return `Graph "${graph_id}" cannot be loaded: ${error instanceof Error ? error.message : String(error)}${adviceOn(error, file)}`
  }
}

/** For a package that is not installed: returns the command that installs it. No package is named like `@/lib` or `~/lib`. */
function adviceOn(error: unknown, file: string): string {
  const { code, message = '' } = error as { code?: string; message?: string }
  const isMissing = code === 'ERR_MODULE_NOT_FOUND' || code === 'MODULE_NOT_FOUND'
  if (!isMissing || !/^Cannot find (package|module) '[^./]/.test(message)) return ''
  let folder = dirname(file)
  while (!existsSync(join(folder, 'package.json')) && folder !== dirname(folder)) folder = dirname(folder)
  const isPackage = existsSync(join(folder, 'package.json'))
  const [, name = ''] = /'((?:@[^/']+\/)?[^/']+)/.exec(message) ?? []
  if (['@', '~'].includes(name)) return ` (the paths of tsconfig.json in ${folder} do not resolve it)`
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

function factory(graph_id: string, make: (...given: Parameters<GraphOf>) => unknown): GraphOf {
  return async (config, runtime) => {
    const graph = compiled(await make(config, runtime))
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
