/**
 * Derives the JSON Schemas of TypeScript graphs from their types, for states that have no runtime types (Annotation).
 * For each graph a file that exists in memory only, beside the file of the graph, names its types; the compiler infers
 * them. Takes seconds: it runs in a thread of its own (extract-thread.ts), the only one that loads the compiler.
 */
import { basename, dirname, join } from 'node:path'
import tjs, { type CompilerOptions } from 'typescript-json-schema'
import { isObject, type JsonObject } from '../../../schemas/json.js'
import { MESSAGES } from './message-schema.js'

const { ts, buildGenerator } = tjs

/** A graph of a TypeScript file. */
export interface TypedGraph {
  graph_id: string
  /** Absolute. */
  file: string
  /** The name of the export. */
  name: string
}

export interface Extraction {
  graphs: readonly TypedGraph[]
  /** The tsconfig.json that applies; null: defaults. */
  tsconfig: string | null
  /** Where packages are found that the application has not installed, as `paths` of the compiler. */
  lent: { [pattern: string]: string[] }
}

const PARTS = ['state', 'input', 'output', 'config'] as const
/** The schemas from the types of a graph; null: there are none. */
export type TypeSchemas = { [part in (typeof PARTS)[number]]: JsonObject | null }

const MARK = 'WeftMessages'
const MESSAGE = 'WeftMessage'

/**
 * By graph id, and the files that were read; a graph that the compiler does not understand is missing. Throws when no program
 * can be made.
 */
export function extract({ graphs, tsconfig, lent }: Extraction): {
  found: { [graph_id: string]: TypeSchemas }
  files: string[]
} {
  const sources = new Map(graphs.map((graph, n) => [join(dirname(graph.file), `__weft_${n}.ts`), sourceOf(graph, n)]))
  const program = programOf(sources, optionsOf(tsconfig, lent))
  const generator = buildGenerator(program, { ignoreErrors: true, required: true, ref: true, topRef: false }, [
    ...sources.keys(),
  ])
  if (generator === null) throw new Error('the compiler cannot read the files of the graphs')
  const found: { [graph_id: string]: TypeSchemas } = {}
  for (const [n, { graph_id }] of graphs.entries()) {
    const schemaOf = (part: string): JsonObject | null => {
      try {
        return cleaned(generator.getSchemaForSymbol(`${part}${n}`) as JsonObject)
      } catch {
        // A type that JSON cannot express, or no graph.
        return null
      }
    }
    found[graph_id] = Object.fromEntries(PARTS.map(part => [part, schemaOf(part)])) as TypeSchemas
  }
  const read = program.getSourceFiles().map(({ fileName }) => fileName)
  const files = [...read.filter(file => !sources.has(file)), ...(tsconfig === null ? [] : [tsconfig])]
  return { found, files }
}

/** `Field` keeps the compiler away from the classes of messages, which are no JSON. */
function sourceOf({ file, name }: TypedGraph, n: number): string {
  const module = basename(file).replace(/tsx?$/, 'js')
  return `
import type { BaseMessage } from '@langchain/core/messages'
import type { Messages, StateGraph, StateType, UpdateType } from '@langchain/langgraph'
import type * as module from './${module}'
type Made<T> = T extends (...args: never[]) => infer R ? Awaited<R> : Awaited<T>
type Builder<T> = T extends { builder: infer B } ? B : T extends { graph: { builder: infer B } } ? B : T
type Parts<T> = T extends StateGraph<any, infer S, any, any, infer I, infer O, infer C>
  ? { state: S; input: UpdateType<I>; output: StateType<O>; config: StateType<C> }
  : never
interface ${MARK} { mark: true }
interface ${MESSAGE} { mark: true }
type Value<T> = Exclude<T, { __overwrite__: any }>
type Field<T> = 0 extends 1 & T ? unknown
  : unknown extends T ? unknown
  : [T] extends [never] ? unknown
  : [T] extends [BaseMessage[]] ? ${MARK}
  : [Messages] extends [T] ? ${MARK}
  : [T] extends [BaseMessage] ? ${MESSAGE}
  : T
type Fields<T> = { [K in keyof T]: Field<Value<T[K]>> }
type Graph = Parts<Builder<Made<(typeof module)[${JSON.stringify(name)}]>>>
${PARTS.map(part => `export type ${part}${n} = Fields<Graph['${part}']>`).join('\n')}
`
}

function optionsOf(tsconfig: string | null, lent: Extraction['lent']): CompilerOptions {
  const read = tsconfig === null ? null : ts.readConfigFile(tsconfig, ts.sys.readFile)
  const given =
    read?.config === undefined
      ? { module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext, strict: true }
      : ts.parseJsonConfigFileContent(read.config, ts.sys, dirname(tsconfig!)).options
  return {
    target: ts.ScriptTarget.ES2022,
    ...given,
    paths: { ...lent, ...given.paths },
    types: [],
    allowJs: true,
    noEmit: true,
    skipLibCheck: true,
    composite: false,
    incremental: false,
    declaration: false,
  }
}

/** A program of files that exist in memory only, and of what they import. */
function programOf(sources: ReadonlyMap<string, string>, options: CompilerOptions) {
  const host = ts.createCompilerHost(options)
  const { getSourceFile, fileExists, readFile } = host
  host.fileExists = path => sources.has(path) || fileExists.call(host, path)
  host.readFile = path => sources.get(path) ?? readFile.call(host, path)
  host.getSourceFile = (path, ...rest) => {
    const text = sources.get(path)
    return text === undefined ? getSourceFile.call(host, path, ...rest) : ts.createSourceFile(path, text, rest[0], true)
  }
  return ts.createProgram([...sources.keys()], options, host)
}

/** Null when it says nothing. Names of definitions lose the paths of this machine; marks become schemas. */
function cleaned(schema: JsonObject): JsonObject | null {
  if (!isObject(schema.properties) || Object.keys(schema.properties).length === 0) return null
  const { definitions = {}, ...rest } = schema as { definitions?: JsonObject }
  const names = new Map<string, string>()
  for (const name of Object.keys(definitions)) {
    const short = name.replaceAll(/import\("(?:[^"\\]|\\.)*"(?:,\{with:\{[^}]*\}\})?\)\./g, '')
    let unique = short
    for (let n = 2; [...names.values()].includes(unique); n++) unique = `${short}_${n}`
    names.set(name, unique)
  }
  const walk = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(walk)
    if (!isObject(value)) return value
    const { $ref } = value
    if (typeof $ref !== 'string') return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, walk(one)]))
    const name = decodeURIComponent($ref.replace('#/definitions/', ''))
    if (name === MARK) return MESSAGES
    if (name === MESSAGE) return { type: 'object', description: 'A chat message' }
    return { ...value, $ref: `#/definitions/${encodeURIComponent(names.get(name) ?? name)}` }
  }
  const kept = Object.entries(definitions).filter(([name]) => name !== MARK && name !== MESSAGE)
  const named = kept.map(([name, one]) => [names.get(name), walk(one)])
  return { ...(walk(rest) as JsonObject), ...(named.length === 0 ? {} : { definitions: Object.fromEntries(named) }) }
}
