/**
 * Reads langgraph.json and the variables that may replace its keys (docs/spec/application.md). Pure, and without
 * a library: the launcher reads the graphs of an application here. `application.ts` checks the other sections.
 */
import { dirname, resolve } from 'node:path'
import { parseEnv } from 'node:util'
import { isObject, type JsonObject } from './json.js'

/** One sentence for the author of the application: the key, its place, and what was expected. */
export class AppConfigError extends Error {
  override name = 'AppConfigError'
}

export interface AppSource {
  /** Absolute path of langgraph.json. It may be missing when LANGSERVE_GRAPHS names the graphs. */
  path: string
  /** Variables of the process. Its own settings among them are not read. */
  env: { readonly [name: string]: string | undefined }
  /** The text of a file; null when there is none. May throw. */
  read(path: string): string | null
}

export interface Description {
  /** The path of langgraph.json. */
  path: string
  /** All relative paths are resolved against it. */
  folder: string
  graphs: GraphSource[]
  /** The variables of `env`; those that the process already has take precedence. */
  env: { [name: string]: string }
  /** These, and the variables of the process. */
  variables: { [name: string]: string }
  /** All keys, as the file and the variables say them. */
  given: JsonObject
  /** Sentences for the log. */
  notes: string[]
}

/** The language of the code of a graph: hosts of this language run it. */
export type Language = 'javascript' | 'python'

/** A graph as langgraph.json names it. */
export interface GraphSource {
  graph_id: string
  description: string | null
  /** `file:export`, as written. */
  path: string
  language: Language
  /** Absolute; null for a module of Python, and when `error` says why there is none. */
  file: string | null
  /** The name of a module of Python. */
  module: string | null
  /** The name of the export. */
  name: string
  error: string | null
}

/** Throws an AppConfigError. */
export function readDescription({ path, env: variables, read }: AppSource): Description {
  const folder = dirname(path)
  const described = descriptionOf(path, variables, read)
  const notes: string[] = []
  const env = envOf(described.env, folder, read, notes)
  const all = { ...env, ...defined(variables) }
  const given: JsonObject = { ...described, ...sectionsOf(all, notes) }
  const { graphs } = given
  if (!isObject(graphs) || Object.keys(graphs).length === 0)
    throw new AppConfigError(`${path} names no graphs: "graphs" must map a name to "file:export".`)
  const sources = Object.entries(graphs).map(([id, value]) => graphOf(id, value, folder))
  return { path, folder, graphs: sources, env, variables: all, given, notes }
}

/** Variable → the section that it replaces, as JSON; image builds of the platform set them. */
export const VARIABLES: { readonly [name: string]: string } = {
  LANGSERVE_GRAPHS: 'graphs',
  LANGGRAPH_STORE: 'store',
  LANGGRAPH_AUTH: 'auth',
  LANGGRAPH_HTTP: 'http',
  LANGGRAPH_WEBHOOKS: 'webhooks',
  LANGGRAPH_CHECKPOINTER: 'checkpointer',
  LANGGRAPH_UI: 'ui',
  LANGGRAPH_UI_CONFIG: 'ui_config',
  LANGGRAPH_ENCRYPTION: 'encryption',
}

function descriptionOf(path: string, env: AppSource['env'], read: AppSource['read']): JsonObject {
  let text: string | null
  try {
    text = read(path)
  } catch {
    text = null
  }
  if (text === null) {
    if (env.LANGSERVE_GRAPHS) return {}
    throw new AppConfigError(`The application description ${path} cannot be read.`)
  }
  const described = parse(path, text)
  if (!isObject(described)) throw new AppConfigError(`${path} must hold a JSON object.`)
  return described
}

function sectionsOf(env: { [name: string]: string }, notes: string[]): JsonObject {
  const sections: JsonObject = {}
  for (const [name, key] of Object.entries(VARIABLES)) {
    if (!env[name]) continue
    sections[key] = parse(name, env[name])
    notes.push(`"${key}" of the application is that of the variable ${name}.`)
  }
  return sections
}

/** Throws without the text: a variable may hold secrets. */
export function parse(place: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    const why = VARIABLES[place] === undefined ? `: ${(error as Error).message}` : ''
    throw new AppConfigError(`${place} is not valid JSON${why}.`)
  }
}

function graphOf(graph_id: string, value: unknown, folder: string): GraphSource {
  const path = typeof value === 'string' ? value : isObject(value) ? value.path : null
  const description = isObject(value) && typeof value.description === 'string' ? value.description : null
  const given = { graph_id, description }
  if (typeof path !== 'string' || !path.includes(':')) {
    const error = `Graph "${graph_id}" must be given as "file:export".`
    return { ...given, path: '', language: 'javascript', file: null, module: null, name: 'default', error }
  }
  return { ...given, path, error: null, ...exportOf(path, folder) }
}

/** `file:export`, or `module:export` of Python. */
export interface Export {
  language: Language
  /** Absolute path; null for a module of Python. */
  file: string | null
  /** Null for a file. */
  module: string | null
  /** The name of the export. */
  name: string
}

export function exportOf(path: string, folder: string): Export {
  const colon = path.lastIndexOf(':')
  const [place, name] = colon === -1 ? [path, ''] : [path.slice(0, colon), path.slice(colon + 1)]
  if (isModule(place)) return { language: 'python', file: null, module: place, name: name || 'default' }
  const language = /\.pyi?$/.test(place) ? 'python' : 'javascript'
  return { language, file: resolve(folder, place), module: null, name: name || 'default' }
}

/** Local dependencies of Python, and the `src` folders in them: importable although nobody has installed them. */
export const localFolders = (dependencies: readonly string[], folder: string): string[] =>
  dependencies
    .filter(each => each.startsWith('.'))
    .flatMap(each => [resolve(folder, each), resolve(folder, each, 'src')])

/** The parts of an application beside its graphs: paths as langgraph.json gives them. */
export interface Parts {
  auth: string | null
  http: string | null
  embed: string | null
  encryption: string | null
  /** `store.path`: a store of the application's own. */
  store: string | null
}

export const partsOf = ({ auth, http, store, encryption }: JsonObject): Parts => ({
  auth: textAt(auth, 'path'),
  encryption: textAt(encryption, 'path'),
  http: textAt(http, 'app'),
  embed: textAt(isObject(store) ? store.index : null, 'embed'),
  store: textAt(store, 'path'),
})

/** The language of each part; null for one that is absent. A model of a provider has the language of the graphs. */
export function languagesOfParts(
  { auth, http, embed, encryption, store }: Parts,
  graphs: readonly { language: Language }[],
) {
  const languageOf = (path: string | null) => (path === null ? null : exportOf(path, '/').language)
  const isFile = embed === null || /[./\\]/.test(embed.slice(0, Math.max(0, embed.indexOf(':'))))
  const ofGraphs = graphs.length > 0 && graphs.every(({ language }) => language === 'python') ? 'python' : 'javascript'
  return {
    auth: languageOf(auth),
    http: languageOf(http),
    encryption: languageOf(encryption),
    store: languageOf(store),
    embed: isFile ? languageOf(embed) : (ofGraphs as Language),
  }
}

/** Whether a graph or another part of the application is written in Python. */
export function usesPython({ graphs, given }: Pick<Description, 'graphs' | 'given'>): boolean {
  const parts = Object.values(languagesOfParts(partsOf(given), graphs))
  return [...graphs.map(({ language }) => language), ...parts].includes('python')
}

function textAt(section: unknown, name: string): string | null {
  const value = isObject(section) ? section[name] : null
  return typeof value === 'string' ? value : null
}

/** Other servers name the export of a module of Python behind a dot, too: `package.module.export`. */
const exportIn = (path: string): string =>
  path.includes(':') || exportOf(path, '/').module === null ? path : path.replace(/\.(\w+)$/, ':$1')

/** The meaning of `store`, with a sentence for each setting of the store of Weft that has no effect beside `store.path`. */
export function storeOf<Ttl, Index>(
  file: string,
  { ttl, index, path }: { ttl?: Ttl; index?: Index; path?: string } = {},
) {
  if (path === undefined) return { store: null, item_ttl: ttl ?? null, index: index ?? null, notes: [] }
  const notes = Object.entries({ ttl, index }).flatMap(([key, value]) =>
    value === undefined
      ? []
      : [`${file}: store.${key} has no effect: items are in the store of store.path, which has settings of its own.`],
  )
  return { store: exportIn(path), item_ttl: null, index: null, notes }
}

/**
 * The checkpointer that gets copies, and sentences about it; null without graphs in Python, whose hosts alone open it. Throws
 * an AppConfigError for `backend: "custom"` without a path.
 */
export function checkpointerOf(
  file: string,
  { path, backend = 'default' }: { path?: string; backend?: string } = {},
  graphs: readonly GraphSource[],
): { checkpointer: string | null; notes: string[] } {
  if (path === undefined) {
    if (backend === 'custom')
      throw new AppConfigError(`${file}: checkpointer.path must name the checkpointer of "backend": "custom".`)
    return { checkpointer: null, notes: backend === 'default' ? [] : [`${file}: ${NO_BACKEND}`] }
  }
  const languages = new Set(graphs.map(({ language }) => language))
  const checkpointer = exportIn(path)
  if (exportOf(checkpointer, '/').language !== 'python' || !languages.has('python'))
    return { checkpointer: null, notes: [`${file}: checkpointer.path has no effect: ${ONLY_PYTHON}.`] }
  const others = languages.has('javascript') ? ` ${ONLY_PYTHON[0]!.toUpperCase()}${ONLY_PYTHON.slice(1)}.` : ''
  return { checkpointer, notes: [`${file}: checkpointer.path: ${checkpointer} ${COPIES}${others}`] }
}

const NO_BACKEND =
  'checkpointer.backend has no effect: checkpoints are in the store of Weft, which DATABASE_URI or MONGODB_URL may name.'
const ONLY_PYTHON = 'only checkpoints of graphs in Python are copied, to a checkpointer in Python'
const COPIES =
  'gets a copy of each checkpoint of a thread, and Weft reads none of them: states, histories, forks and runs that continue are those of its own store. Copies and prunes of threads do not reach it.'

/** `package.module`, which only Python has: a file has a path or the extension of JavaScript or Python. */
const isModule = (place: string): boolean =>
  /^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$/.test(place) && !/\.([cm]?[jt]sx?|pyi?)$/.test(place)

/** `env` is a map, or the path of a file of `NAME=value` lines. */
function envOf(env: unknown, folder: string, read: AppSource['read'], notes: string[]): { [name: string]: string } {
  if (typeof env === 'string') {
    const file = resolve(folder, env)
    let text: string | null
    try {
      text = read(file)
    } catch {
      text = null
    }
    if (text === null) notes.push(`The environment file ${file} cannot be read.`)
    return defined(parseEnv(text ?? ''))
  }
  if (isObject(env)) return Object.fromEntries(Object.entries(env).map(([name, value]) => [name, String(value)]))
  if (env !== undefined && env !== null) notes.push('"env" in langgraph.json must be a path or a map; it is ignored.')
  return {}
}

const defined = (env: AppSource['env']): { [name: string]: string } =>
  Object.fromEntries(Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined))
