/** The hosts of an application: a pool of hosts for each language of its graphs, which look like one pool. */
import type { Libraries } from '../../schemas/announcements.js'
import type { Language } from '../../schemas/description.js'
import type { Hello } from '../../schemas/host.js'
import type { Program } from '../child/start.js'
import type { GraphHost } from './host-process.js'
import { type HostPool, type PoolOptions, startPool } from './pool.js'

export interface PoolsOptions extends Omit<PoolOptions, 'program'> {
  languages: readonly Language[]
  programOf(language: Language): Program
}

export interface HostPools extends HostPool {
  /** The language of a graph; that of the first pool for a graph that no host has reported. */
  languageOf(graph_id: string): Language
  /**
   * A host of Python that has no runs, for a question about a compiled graph: it answers in milliseconds. Null for others: a factory is
   * code of the application, and types of TypeScript are read for seconds.
   */
  pickIdle(graph_id: string): GraphHost | null
  /** The versions of LangGraph that hosts have reported so far. */
  libraries(): Libraries
}

export function startPools({ languages, programOf, ...options }: PoolsOptions): HostPools {
  const start = (language: Language) => startPool({ ...options, program: () => programOf(language) })
  const pools = new Map(languages.map(language => [language, start(language)]))
  const all = [...pools.values()]
  const languageByGraph = new Map<string, Language>()
  const compiled = new Set<string>()
  const libraries: Libraries = {}
  const hellos = languages.map(async language => {
    const hello = await pools.get(language)!.hello
    for (const { graph_id, inputs } of hello.graphs) {
      languageByGraph.set(graph_id, language)
      if (inputs !== undefined) compiled.add(graph_id)
    }
    if (hello.library !== undefined) libraries[language] = hello.library
    return hello
  })
  const languageOf = (graph_id: string) => languageByGraph.get(graph_id) ?? languages[0]!
  const poolOf = (graph_id: string) => pools.get(languageOf(graph_id))!
  return {
    languageOf,
    pickIdle(graph_id) {
      if (languageOf(graph_id) !== 'python' || !compiled.has(graph_id)) return null
      const host = poolOf(graph_id).pickForCall(graph_id)
      return host?.slots.size === 0 ? host : null
    },
    libraries: () => libraries,
    hello: Promise.all(hellos).then(merged),
    hasReadyHost: () => all.some(pool => pool.hasReadyHost()),
    pick: (graph_id, isSuspect, waited_ms) => poolOf(graph_id).pick(graph_id, isSuspect, waited_ms),
    pickForCall: (graph_id, tried) => poolOf(graph_id).pickForCall(graph_id, tried),
    canAnswer: () => all.every(pool => pool.canAnswer()),
    isolate: (graph_id, why, host) => poolOf(graph_id).isolate(graph_id, why, host),
    all: () => all.flatMap(pool => pool.all()),
    quiet: () => all.forEach(pool => void pool.quiet()),
    stop: async () => void (await Promise.all(all.map(pool => pool.stop()))),
  }
}

/** All graphs, and the settings of langgraph.json, which every host reports alike but for `app_checkpointer`. */
function merged(hellos: readonly Hello[]): Hello {
  const error = hellos.find(hello => hello.error !== null)?.error ?? null
  const notes = [...new Set(hellos.flatMap(hello => hello.notes ?? []))]
  const app_checkpointer = hellos.find(hello => hello.app_checkpointer != null)?.app_checkpointer ?? null
  return { ...hellos[0]!, error, graphs: hellos.flatMap(({ graphs }) => graphs), app_checkpointer, notes }
}
