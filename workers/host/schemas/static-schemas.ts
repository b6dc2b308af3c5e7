/**
 * The schemas that the types of TypeScript graphs give, once per host. The compiler runs in a thread with a limit of
 * memory and of time, of a host that executes no runs. While it works, the answer is `unavailable`, which is not cached
 * and which clients repeat; when it fails, graphs have the schemas that need no types.
 */
import { Worker } from 'node:worker_threads'
import pTimeout from 'p-timeout'
import { fail } from '../../../schemas/errors.js'
import { findCompiler } from './compiler.js'
import type { Extraction, TypeSchemas } from './extract.js'
import type { Work } from './extract-thread.js'
import type { ByGraph, Extracted, SchemaCache } from './schema-cache.js'

export const PROGRAM = new URL('../../../programs/static-schemas.js', import.meta.url)
const NO_CACHE: SchemaCache = { read: () => null, write() {} }
/** A caller waits so long: hosts have 30 s for an answer. */
const ANSWER_MS = 20_000
/** The compiler needs 3 to 20 s. */
const LIMIT_MS = 120_000
const MEMORY_MB = 1_024

export interface StaticSchemas {
  /** Null: its types say nothing. Rejects with `unavailable` while they are being read. */
  of(graph_id: string): Promise<TypeSchemas | null>
}

interface Options {
  limit_ms?: number
  cache?: SchemaCache
  /** The variables of the process: npm needs them to download the compiler. */
  env?: NodeJS.ProcessEnv
}

/** `extractions`: each is a program of the compiler. */
export function openStaticSchemas(
  extractions: readonly Extraction[],
  { limit_ms = LIMIT_MS, cache = NO_CACHE, env = {} }: Options = {},
): StaticSchemas {
  const known = new Set(extractions.flatMap(({ graphs }) => graphs.map(({ graph_id }) => graph_id)))
  let reading: Promise<ByGraph> | null = null

  async function read(): Promise<ByGraph> {
    const kept = cache.read()
    if (kept !== null) return kept
    try {
      const compiler = await findCompiler(env, console.warn)
      const extracted = await readTypes({ extractions, compiler }, limit_ms)
      cache.write(extracted)
      return extracted.found
    } catch (error) {
      const why = (error as Error).message
      console.warn(`The types of the graphs cannot be read; their schemas name the fields only: ${why}`)
      return {}
    }
  }

  return {
    async of(graph_id) {
      if (!known.has(graph_id)) return null
      reading ??= read()
      const late = fail('unavailable', 'The types of the graphs are being read; ask again')
      const found = await pTimeout(reading, { milliseconds: ANSWER_MS, message: late })
      return found[graph_id] ?? null
    },
  }
}

function readTypes(work: Work, limit_ms: number): Promise<Extracted> {
  return new Promise((resolve, reject) => {
    const thread = new Worker(PROGRAM, {
      workerData: work,
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: MEMORY_MB },
    })
    const timer = setTimeout(() => {
      reject(new Error(`the compiler did not finish in ${limit_ms / 1_000} s`))
      void thread.terminate()
    }, limit_ms)
    thread.once('message', resolve)
    thread.once('error', reject)
    thread.once('exit', () => {
      clearTimeout(timer)
      reject(new Error('the compiler ended without an answer'))
    })
    thread.unref()
  })
}
