/**
 * Finds the origin of chunks of the mode `custom`. The library reports it only when the chunks of all subgraphs are
 * streamed (since 0.3), and requesting those changes which tokens of subgraphs it sends (since 1.7). So the writer that
 * the library passes to nodes records the origin.
 */
import type { JsonObject } from '../../../../schemas/json.js'
import type { Graph, Library } from '../../library/types.js'
import { type Origin, originOf } from './task.js'

type Writer = (chunk: unknown) => void

/** A chunk in the stream of the library. */
export class CustomChunk {
  constructor(
    readonly origin: Origin,
    readonly value: unknown,
  ) {}
}

/** Returns the origin of the code that runs now. */
export const currentOrigin = (library: Library): Origin =>
  originOf(library.getConfig()?.metadata as JsonObject | undefined)

/**
 * Returns the same graph, with custom chunks as CustomChunks. The library puts its writer into the config that
 * `_defaults` prepares; in every version from 0.2.20 to 1.7 the writer is the fifth value. If it is missing, the chunks
 * stay unchanged.
 */
export function withCustomOrigins(graph: Graph, library: Library): Graph {
  const original = (graph as { _defaults?(config: unknown): unknown[] })._defaults
  if (typeof original !== 'function') return graph
  return Object.create(graph, {
    _defaults: {
      value(this: Graph, options: unknown) {
        const all = original.call(this, options)
        const config = all[4]
        if (typeof config === 'object' && config !== null) noteOrigins(config, library)
        return all
      },
    },
  })
}

function noteOrigins(config: object & { writer?: Writer }, library: Library): void {
  if (config.writer !== undefined) return
  let noting: Writer | undefined
  Object.defineProperty(config, 'writer', {
    enumerable: true,
    configurable: true,
    get: () => noting,
    set(original: Writer) {
      noting = value => original(new CustomChunk(currentOrigin(library), value))
    },
  })
}
