/**
 * Resolves the imports of user code: TypeScript through tsx, only if the application has TypeScript files, and the
 * libraries from the application's folder, else from Weft's.
 */
import { existsSync, readFileSync } from 'node:fs'
import { createRequire, register } from 'node:module'
import { dirname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { GraphConfig } from '../../schemas/application.js'
import type { JsonObject } from '../../schemas/json.js'
import { bundledModules, packageAt } from './library/bundled.js'
import { type Provider, shareUntracedRun } from './library/context.js'
import type { TracerClass } from './library/langsmith.js'
import { resolveFromWeft } from './library/lending.js'
import type { Library, SchemaTools } from './library/types.js'
import type { Extraction } from './schemas/extract.js'

const TYPESCRIPT = /\.[cm]?tsx?$/
const LIBRARY = '@langchain/langgraph'
const CORE = '@langchain/core'
const SDK = '@langchain/langgraph-sdk'
const CHECKPOINT = '@langchain/langgraph-checkpoint'

/** URLs of modules of the bundle, by those of the installed files that they replace; empty without the bundle. */
let bundled: ReadonlyMap<string, string> = new Map()

/** For hosts of graphs, before anything is imported: when the library of all graphs is Weft's, it comes from its bundle. */
export function useBundle(folder: string, files: readonly string[]): void {
  const entry = ours.resolve(LIBRARY)
  if (foldersOf(folder, files).every(each => (resolveFrom(each, LIBRARY) ?? entry) === entry))
    bundled = bundledModules()
}

/**
 * Must run before the first file of the application is imported. `loader`: `node_loader` of langgraph.json; `env`: the
 * variables of the process. Throws an Error with one sentence when the loader or tsconfig.json cannot be loaded.
 */
export async function prepareLoading(
  folder: string,
  files: readonly string[],
  loader: string | null,
  env: { [name: string]: string | undefined },
): Promise<void> {
  const isMissing = (each: string) => resolveFrom(each, LIBRARY) === null || resolveFrom(each, 'zod') === null
  resolveFromWeft(foldersOf(folder, files).some(isMissing), bundled)
  if (hasLoader(loader)) return registerLoader(folder, loader)
  if (!files.some(file => TYPESCRIPT.test(file))) return
  const tsconfig = env[TSCONFIG] ?? tsconfigOf(files)
  // The CommonJS half of tsx takes it from here only.
  if (tsconfig !== null) env[TSCONFIG] = tsconfig
  // cjs first: esm alone fails on an application without "type": "module" (ERR_REQUIRE_CYCLE_MODULE).
  const [cjs, esm] = await Promise.all([import('tsx/cjs/api'), import('tsx/esm/api')])
  try {
    cjs.register()
    esm.register(tsconfig === null ? {} : { tsconfig })
  } catch (error) {
    // Most often `extends` names a package of the development dependencies.
    const why = `${(error as Error).message.replace(/\.$/, '')} (run npm install in ${folder}, with its devDependencies)`
    throw new Error(`${tsconfig ?? `A tsconfig.json of ${folder}`} cannot be used: ${why}`)
  }
}

/** Whether `node_loader` of langgraph.json names another loader than the one that Weft uses without it. */
export const hasLoader = (loader: string | null): loader is string => loader !== null && loader !== 'tsx'

const TSCONFIG = 'TSX_TSCONFIG_PATH'

/**
 * The tsconfig.json that is nearest to every graph, as editors choose it: its path aliases and JSX settings apply. Null
 * when there is none or several: then tsx takes that of the application's folder.
 */
function tsconfigOf(files: readonly string[]): string | null {
  const found = new Set(files.filter(file => TYPESCRIPT.test(file)).map(nearestTsconfig))
  const [only = null] = found
  return found.size === 1 ? only : null
}

const nearestTsconfig = (file: string) => nearest(file, 'tsconfig.json')

/** The file with this name in the folder of the given one, or in the closest folder above. */
function nearest(file: string, name: string): string | null {
  for (let folder = dirname(file); ; folder = dirname(folder)) {
    const path = join(folder, name)
    if (existsSync(path)) return path
    if (folder === dirname(folder)) return null
  }
}

/** An import of the client of the API, not of its types only. */
const IMPORTS_SDK = /^import (?!type\b)[^'"]*['"]@langchain\/langgraph-sdk['"]/m

/**
 * Loads the client of the API if one of the files imports it as an ES module. Call this before `prepareLoading`: behind
 * its hooks each module costs a message to their thread and back, together 0.35 s of CPU for this package. Never throws:
 * the import of the application reports the error.
 */
export async function preloadSdk(files: readonly string[]): Promise<void> {
  try {
    const file = files.find(each => isEsModule(each) && IMPORTS_SDK.test(readFileSync(each, 'utf8')))
    if (file === undefined) return
    const entry = resolveFrom(dirname(file), SDK) ?? ours.resolve(SDK)
    await withoutSourceMaps(() => importEntry(entry, SDK))
  } catch {}
}

function isEsModule(file: string): boolean {
  if (/\.[cm][jt]sx?$/.test(file)) return /\.m[jt]sx?$/.test(file)
  const manifest = nearest(file, 'package.json')
  return manifest !== null && JSON.parse(readFileSync(manifest, 'utf8')).type === 'module'
}

/** Stacks show lines of a library as they are installed: the 400 maps of LangGraph cost each host 0.05 s of CPU. */
export async function withoutSourceMaps<T>(load: () => Promise<T>): Promise<T> {
  process.setSourceMapsEnabled(false)
  try {
    return await load()
  } finally {
    process.setSourceMapsEnabled(true)
  }
}

/** The programs of the compiler for the graphs of TypeScript files: one for each tsconfig.json. */
export function extractionsOf(folder: string, graphs: readonly GraphConfig[]): Extraction[] {
  const typed = graphs.flatMap(({ graph_id, file, name }) =>
    file !== null && TYPESCRIPT.test(file) ? [{ graph_id, file, name }] : [],
  )
  const configs = new Set(typed.map(({ file }) => nearestTsconfig(file)))
  const installed = (specifier: string) =>
    foldersOf(
      folder,
      typed.map(({ file }) => file),
    ).every(each => resolveFrom(each, specifier) !== null)
  const lent: Extraction['lent'] = {}
  const packages = ours.resolve(LIBRARY).split(`/${LIBRARY}/`)[0]!
  if (!installed(LIBRARY)) lent['@langchain/*'] = [`${packages}/@langchain/*`]
  if (!installed('zod')) lent.zod = [`${packages}/zod`]
  return [...configs].map(tsconfig => ({
    graphs: typed.filter(({ file }) => nearestTsconfig(file) === tsconfig),
    tsconfig,
    lent,
  }))
}

/** The awaited export of a module; undefined or null if it has none of this name. Throws what the module throws. */
export async function importExport(file: string, name: string): Promise<unknown> {
  const module = (await import(pathToFileURL(file).href)) as JsonObject & { default?: JsonObject }
  // A TypeScript file of a CommonJS package has its exports under `default` only.
  const common = module.default?.__esModule === true ? module.default : undefined
  if (name === 'default') return common?.default ?? module.default
  return module[name] ?? module.default?.[name]
}

/** `ts-node`, or a module that registers a loader when it is imported: a file of the application, or a package. */
async function registerLoader(folder: string, loader: string): Promise<void> {
  const require = createRequire(join(folder, 'package.json'))
  try {
    if (loader === 'ts-node') {
      const { register: registerCommon } = require('ts-node') as { register(options: object): unknown }
      registerCommon({ cwd: folder })
      register('ts-node/esm', pathToFileURL(join(folder, 'package.json')))
    } else await import(pathToFileURL(require.resolve(loader)).href)
  } catch (error) {
    throw new Error(`node_loader "${loader}" of langgraph.json cannot be loaded: ${(error as Error).message}`)
  }
}

/** Returns the library that made the application's graphs: the application's copy, else Weft's. */
export async function libraryOf(folder: string, files: readonly string[]): Promise<Library> {
  const entry = libraryEntry(folder, files)
  const library = await importEntry<Library>(entry, LIBRARY)
  if (typeof library.getConfig === 'function') return library
  // Before 0.2.40 it is exported by the core only.
  const [provider] = await providersOf(entry)
  return { ...library, getConfig: () => provider?.getRunnableConfig?.() as ReturnType<Library['getConfig']> }
}

/** Null if the library of the application has none. */
export async function schemaToolsOf(folder: string, files: readonly string[]): Promise<SchemaTools | null> {
  try {
    const entry = libraryEntry(folder, files)
    const common = createRequire(entry).resolve(`${LIBRARY}/zod/schema`)
    return await importEntry<SchemaTools>(common, LIBRARY, './zod/schema')
  } catch {
    return null
  }
}

/** The version of that library, from its package.json. */
export function libraryVersion(folder: string, files: readonly string[]): string {
  return String(packageAt(libraryEntry(folder, files), LIBRARY)?.manifest.version ?? 'unknown')
}

/** Returns the wrapper that the library puts around the store of a run; undefined if the library has another layout. */
export async function storeWrapperOf(
  folder: string,
  files: readonly string[],
): Promise<{ prototype: object } | undefined> {
  try {
    const entry = libraryEntry(folder, files)
    const common = createRequire(entry).resolve(CHECKPOINT)
    const module = await importEntry<JsonObject>(common, CHECKPOINT)
    return module.AsyncBatchedStore as { prototype: object } | undefined
  } catch {
    return undefined
  }
}

/** The class that sends traces to LangSmith; null if the library of the application has none. */
export async function tracerOf(folder: string, files: readonly string[]): Promise<TracerClass | null> {
  try {
    const common = createRequire(libraryEntry(folder, files)).resolve(`${CORE}/tracers/tracer_langchain`)
    const module = await importEntry<JsonObject>(common, CORE, './tracers/tracer_langchain')
    return (module.LangChainTracer as TracerClass | undefined) ?? null
  } catch {
    return null
  }
}

/** Avoids the tracing work of the core while nothing traces. Call this after the graphs are loaded. */
export async function tuneLibrary(folder: string, files: readonly string[]): Promise<void> {
  try {
    for (const provider of await providersOf(libraryEntry(folder, files))) shareUntracedRun(provider)
  } catch {
    // A library with another layout runs unchanged.
  }
}

const ours = createRequire(import.meta.url)

const libraryEntry = (folder: string, files: readonly string[]): string =>
  resolveFrom(foldersOf(folder, files)[0]!, LIBRARY) ?? ours.resolve(LIBRARY)

/** AsyncLocalStorageProviderSingleton of the core that this copy of the library uses. */
async function providersOf(library: string): Promise<(Provider | undefined)[]> {
  const require = createRequire(library)
  const common = require.resolve(`${CORE}/singletons`)
  const entries: unknown[] = [await importEntry(common, CORE, './singletons')]
  // `require` loads a separate copy, which exists only if some module required it.
  if (require.cache[common] !== undefined) entries.push(require(common))
  return entries.map(
    entry => (entry as { AsyncLocalStorageProviderSingleton?: Provider }).AsyncLocalStorageProviderSingleton,
  )
}

const foldersOf = (folder: string, files: readonly string[]): string[] =>
  files.length > 0 ? [...new Set(files.map(file => dirname(file)))] : [folder]

/** Imports the ES module of an entry of a package, or what the bundle has instead. */
async function importEntry<T>(common: string, name: string, path = '.'): Promise<T> {
  const { href } = pathToFileURL(moduleEntry(common, name, path))
  return (await import(bundled.get(href) ?? href)) as T
}

/** `require.resolve` gives the CommonJS entry of a package; this is the ESM entry beside it, which graphs import. */
function moduleEntry(common: string, name: string, path = '.'): string {
  const found = packageAt(common, name)
  const entry = found?.manifest.exports?.[path]?.import
  const file = typeof entry === 'string' ? entry : entry?.default
  return found !== null && typeof file === 'string' ? join(found.folder, file) : common
}

function resolveFrom(folder: string, specifier: string): string | null {
  try {
    return createRequire(resolve(folder, 'package.json')).resolve(specifier)
  } catch {
    return null
  }
}
